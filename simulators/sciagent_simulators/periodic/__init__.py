"""Density functional theory of crystals with GPAW, which is run as a program: total energy, bands, magnetic moment."""
