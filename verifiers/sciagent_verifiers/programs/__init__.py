"""Verifiers that start programs of others: xtb, CREST, ORCA and Gaussian."""
