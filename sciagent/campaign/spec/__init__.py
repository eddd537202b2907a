"""The campaign file: its keys, the checks on it, and the differences between two files."""
