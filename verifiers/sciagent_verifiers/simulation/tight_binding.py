"""What the verifiers by extended tight binding share: engines, refusals, and what a geometry costs."""

from __future__ import annotations

from typing import Any

from sciagent.chemistry.molecule import Molecule
from sciagent.verification.contract import Refusal, Tier
from sciagent_simulators.tblite_engine import HEAVIEST
from sciagent_verifiers.calculation import MoleculeCalculation, refusal


class TightBinding(MoleculeCalculation):
    """A calculation on a molecule by tblite; its settings have `max_atoms`."""

    tier = Tier.SIMULATION
    settings: Any
    engines = ("tblite", "ase")
    preload = ("numpy", "ase.optimize", "rdkit.Chem.AllChem", "tblite.ase")

    def accepts(self, candidate: Molecule) -> Refusal | None:
        return refusal(candidate, HEAVIEST, self.settings.max_atoms)

    def geometry_seconds(self, candidate: Molecule, further: float = 0.0, times: float = 1.0) -> float:
        """Embedding, force field, ranking and relaxation, core-seconds; fitted to 12 to 68 atoms, 10 conformers.

        further: relaxations beyond it, as shares of it. times: how often all of it is done.
        """
        share: float = 0.6 + 0.4 * self.settings.geometry.conformers / 10 + further
        seconds: float = 4e-5 * share * times * candidate.n_atoms**2.8
        return seconds
