"""Files that exports carry with them: classes and functions by which another package reads the rows."""
