"""The base class of the tight-binding verifiers: engines, level, geometry and its cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from sciagent.chemistry.molecule import Molecule
from sciagent.errors import SimulatorError
from sciagent.verification.contract import Context, Level, Property, Tier
from sciagent_simulators.geometry import Geometry, GeometryProtocol, finished, prepare, search
from sciagent_simulators.implicit_solvent import Solvation
from sciagent_simulators.repeatability import ranks_that_matter, spread
from sciagent_verifiers.base import Calculation, Spread

Values = Callable[[Geometry], Mapping[Property, float | None]]
"""A function from a geometry to values in canonical units; it may raise SimulatorError."""


Repeatability = Literal["class", "molecule"]
# The default is left out of the settings hash, so that evidence from before this setting keeps its keys.
REPEATABILITY: Repeatability = Field(
    "class",
    exclude_if=lambda value: value == "class",
    description="Source of the uncertainty, which is the spread over seeds of the conformer search: `class` takes the "
    "usual spread of molecules with or without rotatable bonds; `molecule` computes that of this molecule from its "
    "lowest few conformers, at about a quarter more cost.",
)


class TightBinding(Calculation):
    """A verifier that uses tblite. Its settings have `method`, `solvent`, `geometry`, `max_atoms`, and `repeatability`
    unless its geometry is relaxed at its own level."""

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

    @property
    def _compares_conformers(self) -> bool:
        """Whether the uncertainty is that of this molecule's own conformers."""
        return getattr(self.settings, "repeatability", "class") == "molecule"

    def geometry(
        self, molecule: Molecule, context: Context, protocol: GeometryProtocol | None = None
    ) -> tuple[Geometry, dict[str, Any]]:
        """Returns the geometry by the protocol, default that of the settings, and diagnostics. Raises SimulatorError.

        The seed is always that of the settings' protocol."""
        seed = self.settings.geometry.seed(molecule.key, context.replicate)
        graph = molecule.mol, molecule.charge, molecule.multiplicity
        return prepare(*graph, protocol or self.settings.geometry, seed)

    def geometry_and_spread(
        self, molecule: Molecule, context: Context, values: Values
    ) -> tuple[Geometry, dict[str, Any], Spread | None]:
        """Returns the geometry and diagnostics as `geometry` does, and the repeatability of this molecule.

        The repeatability is None unless the settings ask for it. values: returns the values of a conformer. A property
        without them keeps the uncertainty of its class. Raises SimulatorError as `geometry` does.
        """
        if not self._compares_conformers:
            return *self.geometry(molecule, context), None
        protocol = self.settings.geometry
        seed = protocol.seed(molecule.key, context.replicate)
        conformers, diagnostics = search(molecule.mol, molecule.charge, molecule.multiplicity, protocol, seed)
        geometry, details = finished(molecule.mol, conformers[0], protocol)
        n, found = len(conformers), list[Mapping[Property, float | None]]()
        for conformer in conformers[: ranks_that_matter(n)]:
            try:
                found.append(values(conformer))
            except SimulatorError:
                found.append({})
        spreads = {prop: spread([one.get(prop) for one in found], n) for prop in found[0]}
        known = {prop: width for prop, width in spreads.items() if width is not None}
        return geometry, diagnostics | details | {"conformers_compared": len(found)}, known

    def geometry_seconds(self, candidate: Molecule, further: float = 0.0) -> float:
        """Returns the core-seconds of embedding, ranking and relaxation; fitted to 12 to 68 atoms, 10 conformers.

        further: cost of further relaxations, as a share.
        """
        share: float = 0.6 + 0.4 * self.settings.geometry.conformers / 10 + further
        seconds: float = 4e-5 * share * candidate.n_atoms**2.8
        return seconds * (1.25 if self._compares_conformers else 1.0)
