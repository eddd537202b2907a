"""A potential without bonds, so that energies are sums over atoms and nothing relaxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sciagent_simulators.potentials.potential_base_and_registry import EnergyScale, PotentialValues


class BondlessPotential:
    """A loaded potential in which each atom has its own energy, minus its atomic number in eV, and nothing acts."""

    atoms_at_once = 64

    def __init__(self, scale: EnergyScale) -> None:
        self.scale = scale

    def evaluate(self, batch: Sequence[Any]) -> Sequence[PotentialValues]:
        return [PotentialValues(-float(sum(atoms.numbers)), 0 * atoms.positions, np.zeros((3, 3))) for atoms in batch]
