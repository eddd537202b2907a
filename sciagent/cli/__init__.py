"""The command line: one module a command. Data goes to stdout, everything else to stderr."""
