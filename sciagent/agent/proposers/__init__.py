"""Scripted proposers: a file (`screen`) and an evolutionary search (`evolve`)."""
