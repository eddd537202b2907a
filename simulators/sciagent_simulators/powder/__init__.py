"""Powder diffraction: measured patterns, kinematic patterns of crystals, and the fit of one to the other."""
