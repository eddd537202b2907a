"""Scheduling: the rules that decide which candidate gets which rung next. They take arrays, not rows."""
