"""Commands that start, show and report campaigns."""
