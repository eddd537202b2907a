"""Any ASE calculator as a potential, one structure at a time: for models without batches of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciagent_simulators.potentials.potential_base_and_registry import EnergyScale, PotentialValues


@dataclass(frozen=True)
class AsePotential:
    """A potential that asks a calculator for energy, forces and stress."""

    calculator: Any
    scale: EnergyScale
    atoms_at_once: int = 1

    def evaluate(self, batch: Sequence[Any]) -> Sequence[PotentialValues]:
        return [self._values(atoms.copy()) for atoms in batch]

    def _values(self, atoms: Any) -> PotentialValues:
        """Returns the values at one structure. atoms: an ase.Atoms, which gets the calculator."""
        atoms.calc = self.calculator
        stress = np.asarray(atoms.get_stress(voigt=False), dtype=float)
        energy = float(atoms.get_potential_energy())
        forces = np.array(atoms.get_forces(), dtype=float)
        return PotentialValues(energy, forces, stress)
