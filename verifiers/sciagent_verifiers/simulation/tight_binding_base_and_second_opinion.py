"""The base class of the tight-binding verifiers: engines, level, geometry and its cost, and a second opinion.

The second opinion is GFN1-xTB beside GFN2-xTB on the same geometry, as a measure of uncertainty.

The two methods are similar and are fitted to different data. They share part of their errors, so agreement does not
prove that a value is right.

- Dipoles and free energies of solvation are comparable. Their difference is added to the repeatability in quadrature.
  On average it is as large as the error against experiment (dipoles: root mean square 0.53 D and 0.50 D, 46 molecules;
  hydration: 1.3 and 1.6 kcal/mol for GFN1-xTB). It says less about a single molecule: the mean error of GFN2 dipoles is
  0.26 D for differences below the usual and 0.46 D above. The error of the GFN1-xTB hydration free energy is the same
  for differences of 0.5 and 2 kcal/mol, and half as much again beyond.
- Orbital energies are not comparable: those of GFN1 lie about 1 eV lower. A line predicts the GFN1 value from the GFN2
  value. The diagnostics give the deviation in standard deviations: beyond 3, the molecule is unlike those of the fit.
  The deviation enters no uncertainty. For LUMOs above -3 eV in GFN2 (saturated molecules) the line does not hold.

Figures: benchmarks/numbers/xtb_second_opinion.json and xtb_solvation.json.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.domain.properties_and_levels import DIPOLE, HOMO, HOMO_LUMO_GAP, LUMO
from sciagent.errors import SimulatorError
from sciagent.verification.verifier_contract import Context, Level, Property, Tier
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.low_conformers_and_search_spread import ranks_that_matter, spread_over_searches
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import Solvation
from sciagent_simulators.starting_geometry import GeometryProtocol, prepare, relaxed_by_protocol, search_conformers
from sciagent_simulators.tblite_engine import single_point
from sciagent_verifiers.verifier_bases import Calculation, Spread

Values = Callable[[Geometry], Mapping[Property, float | None]]
"""A function from a geometry to values in canonical units; it may raise SimulatorError."""


Repeatability = Literal["class", "molecule"]
REPEATABILITY: Repeatability = omitted_if_unset(
    "class",
    description="Source of the uncertainty, which is the repeatability over conformer searches: `class` takes the "
    "usual one of molecules that are rigid, have turning bonds, have OH or NH, or leave stereo open; `molecule` "
    "computes that of this molecule from its lowest few conformers, at about a quarter more cost.",
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
        method = f"{s.method}+ALPB" if s.solvent else s.method
        return Level(method, phase=s.solvent or "gas", geometry=s.geometry.label)

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
        protocol = protocol or self.settings.geometry
        return prepare(molecule.mol, molecule.charge, molecule.multiplicity, protocol, seed)

    def geometry_and_spread(
        self, molecule: Molecule, context: Context, values: Values
    ) -> tuple[Geometry, dict[str, Any], Spread | None]:
        """Returns the geometry and diagnostics as `geometry` does, and the repeatability of this molecule.

        The repeatability is None unless the settings ask for it. values: returns the values of a conformer. A property
        without them keeps the uncertainty of its class. Raises SimulatorError as `geometry` does.
        """
        if not self._compares_conformers:
            geometry, diagnostics = self.geometry(molecule, context)
            return geometry, diagnostics, None
        protocol = self.settings.geometry
        seed = protocol.seed(molecule.key, context.replicate)
        conformers, diagnostics = search_conformers(
            molecule.mol, molecule.charge, molecule.multiplicity, protocol, seed
        )
        geometry, details = relaxed_by_protocol(molecule.mol, conformers[0], protocol)
        n_conformers = len(conformers)
        values_by_rank = list[Mapping[Property, float | None]]()
        for conformer in conformers[: ranks_that_matter(n_conformers)]:
            try:
                values_by_rank.append(values(conformer))
            except SimulatorError:
                values_by_rank.append({})
        known_spreads: dict[Property, float] = {}
        for prop in values_by_rank[0]:  # a property that the lowest conformer lacks has no spread
            values_of_property = [values_of_conformer.get(prop) for values_of_conformer in values_by_rank]
            width = spread_over_searches(values_of_property, n_conformers)
            if width is not None:
                known_spreads[prop] = width
        facts = {**diagnostics, **details, "conformers_compared": len(values_by_rank)}
        return geometry, facts, known_spreads

    def geometry_seconds(self, candidate: Molecule, further_relaxations: float = 0.0) -> float:
        """Returns the core-seconds of embedding, ranking and relaxation; fitted to 12 to 68 atoms, 10 conformers.

        further_relaxations: their cost, as a multiple of the cost without them.
        """
        # 1 for the default number of conformers
        factor: float = 0.6 + 0.4 * self.settings.geometry.conformers / 10 + further_relaxations
        seconds: float = 4e-5 * factor * candidate.n_atoms**2.8
        return seconds * (1.25 if self._compares_conformers else 1.0)


GfnMethod = Literal["GFN2-xTB", "GFN1-xTB"]
OTHER_METHOD: dict[GfnMethod, GfnMethod] = {"GFN2-xTB": "GFN1-xTB", "GFN1-xTB": "GFN2-xTB"}


# Lines y = slope x + intercept, eV, and the standard deviation of y about each: (slope, intercept, residual).
# y: GFN1-xTB, x: GFN2-xTB; fitted by benchmarks/numbers/xtb_second_opinion.py
LINES: dict[Property, tuple[float, float, float]] = {
    HOMO: (1.015, -0.841, 0.284),
    LUMO: (0.948, -1.062, 0.435),
    HOMO_LUMO_GAP: (0.958, 0.433, 0.385),
}
HIGHEST_LUMO = -3.0  # eV, in GFN2-xTB; the lines of LUMO and gap hold below it


def second_opinion(
    geometry: Geometry, method: GfnMethod, first: Mapping[Property, float | None], solvation: Solvation | None = None
) -> tuple[dict[str, Any], dict[Property, float]]:
    """Returns diagnostics and further standard uncertainties of comparable properties; none if the method fails.

    first: the values by `method`."""
    other = OTHER_METHOD[method]
    try:
        result = single_point(geometry, other, solvation=solvation)
    except SimulatorError as error:
        return {"method": other, "failed": str(error.reason)}, {}
    details: dict[str, Any] = {"method": other, DIPOLE.name: result.dipole}
    gfn2_lumo = first.get(LUMO) if method == "GFN2-xTB" else result.lumo
    is_lumo_low = gfn2_lumo is not None and gfn2_lumo < HIGHEST_LUMO
    for prop, second in ((HOMO, result.homo), (LUMO, result.lumo), (HOMO_LUMO_GAP, result.gap)):
        value = first.get(prop)
        if value is None or second is None:
            continue
        gfn2_value = value
        gfn1_value = second
        if method == "GFN1-xTB":
            gfn2_value = second
            gfn1_value = value
        details[prop.name] = second
        if prop == HOMO or is_lumo_low:
            slope, intercept, residual = LINES[prop]
            deviation = gfn1_value - slope * gfn2_value - intercept
            details[f"{prop.name}_deviations"] = round(deviation / residual, 2)
    dipole = first.get(DIPOLE)
    if dipole is None:
        return details, {}
    return details, {DIPOLE: abs(dipole - result.dipole)}
