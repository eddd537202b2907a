"""The bench: schedulers replayed on a table of known answers, or on a synthetic family of ladders."""
