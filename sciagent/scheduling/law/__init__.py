"""The law of a ladder: what its rungs say about the terminal one, learned from what was paid for."""
