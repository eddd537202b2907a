"""The bench: replays schedulers on a table of known answers, or on a synthetic family of ladders."""
