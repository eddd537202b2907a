"""Cells for tests of periodic calculations."""

from __future__ import annotations

from typing import Any


def perovskite(a_site: str, b_site: str, anion: str, a: float) -> Any:
    """Returns the ase.Atoms of an ideal cubic perovskite. a: angstrom."""
    from ase import Atoms

    places = [(0, 0, 0), (0.5, 0.5, 0.5), (0.5, 0.5, 0), (0.5, 0, 0.5), (0, 0.5, 0.5)]
    return Atoms([a_site, b_site, *[anion] * 3], cell=[a] * 3, pbc=True, scaled_positions=places)
