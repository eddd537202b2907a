"""The command line: a module for each command or family of commands. Data goes to stdout, everything else to stderr."""
