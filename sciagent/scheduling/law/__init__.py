"""The law of a ladder: predicts terminal answers from lower rungs, and is fitted to all paid answers."""
