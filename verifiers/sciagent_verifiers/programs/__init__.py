"""Verifiers that start external programs: xtb, CREST, ORCA and Gaussian."""
