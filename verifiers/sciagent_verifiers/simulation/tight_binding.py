"""The base class of the tight-binding verifiers: engines, level, geometry and its cost."""

from __future__ import annotations

from typing import Any, ClassVar

from sciagent.chemistry.molecule import Molecule
from sciagent.verification.contract import Context, Level, Tier
from sciagent_simulators.geometry import Geometry, GeometryProtocol, prepare
from sciagent_simulators.implicit_solvent import Solvation
from sciagent_verifiers.calculation import Calculation


class TightBinding(Calculation):
    """A verifier that uses tblite. Its settings have `method`, `solvent`, `geometry` and `max_atoms`."""

    tier = Tier.SIMULATION
    engines: ClassVar[tuple[str, ...]] = ("tblite", "ase")
    preload: ClassVar[tuple[str, ...]] = ("numpy", "ase.optimize", "rdkit.Chem.AllChem", "tblite.ase")

    @property
    def level(self) -> Level:
        s = self.settings
        return Level(f"{s.method}+ALPB" if s.solvent else s.method, phase=s.solvent or "gas", geometry=s.geometry.label)

    @property
    def solvation(self) -> Solvation | None:
        """The solvent with the model ALPB; None in the gas phase."""
        return Solvation(self.settings.solvent) if self.settings.solvent else None

    def geometry(
        self, molecule: Molecule, context: Context, protocol: GeometryProtocol | None = None
    ) -> tuple[Geometry, dict[str, Any]]:
        """Returns the geometry by the protocol, default that of the settings, and diagnostics. Raises SimulatorError.

        The seed is always that of the settings' protocol."""
        seed = self.settings.geometry.seed(molecule.key, context.replicate)
        graph = molecule.mol, molecule.charge, molecule.multiplicity
        return prepare(*graph, protocol or self.settings.geometry, seed)

    def geometry_seconds(self, candidate: Molecule, further: float = 0.0) -> float:
        """Returns the core-seconds of embedding, ranking and relaxation; fitted to 12 to 68 atoms, 10 conformers.

        further: cost of further relaxations, as a share.
        """
        share: float = 0.6 + 0.4 * self.settings.geometry.conformers / 10 + further
        seconds: float = 4e-5 * share * candidate.n_atoms**2.8
        return seconds
