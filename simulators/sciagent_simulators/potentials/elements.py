"""The elements of the Materials Project trajectories (MPtrj), on which the shipped potentials were trained."""

from __future__ import annotations

from ase.data import chemical_symbols

MPTRJ = frozenset(chemical_symbols[1:95]) - {"Po", "At", "Rn", "Fr", "Ra"}
"""Hydrogen to plutonium without those that have no calculations: 89 elements."""
