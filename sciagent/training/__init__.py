"""Data sets for training, made from ledgers."""
