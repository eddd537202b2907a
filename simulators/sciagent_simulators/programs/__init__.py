"""External programs as engines: a module that runs them, one that checks their results, and one for each program."""
