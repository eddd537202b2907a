"""The verifier `xtb.ip_ea`: vertical and adiabatic ionisation energy and electron affinity by tight binding."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.properties_and_levels import ADIABATIC_EA, ADIABATIC_IP, VERTICAL_EA, VERTICAL_IP
from sciagent.verification.verifier_contract import (
    Context,
    Cost,
    Finding,
    Prior,
    Property,
    PropertyAtLevel,
    Settings,
    at,
)
from sciagent_simulators.geometry_and_its_checks import Geometry, bonds_of
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import Solvent
from sciagent_simulators.starting_geometry import GeometryProtocol
from sciagent_simulators.tblite_engine import (
    IPEA_SHIFT,
    Ion,
    check_relaxation,
    ionisation_difference,
    ionised,
    relaxed_ion,
)
from sciagent_verifiers.method_errors import XTB_IP_EA
from sciagent_verifiers.simulation.tight_binding_base_and_second_opinion import (
    REPEATABILITY,
    Repeatability,
    TightBinding,
)
from sciagent_verifiers.verifier_bases import rigid_or_flexible

VERTICAL: dict[Ion, Property] = {"cation": VERTICAL_IP, "anion": VERTICAL_EA}
ADIABATIC: dict[Ion, Property] = {"cation": ADIABATIC_IP, "anion": ADIABATIC_EA}
RIGID = dict.fromkeys((*VERTICAL.values(), *ADIABATIC.values()), 0.001)
FLEXIBLE = dict.fromkeys((*VERTICAL.values(), *ADIABATIC.values()), 0.03)
SOURCE = "benchmarks/numbers/xtb_ip_ea.json, IPEA1-xTB; hand-picked "  # start of the priors' sources


class XtbIpEaSettings(Settings):
    """The ions, the method and the solvent."""

    method: Literal["IPEA1-xTB", "GFN2-xTB"] = Field(
        "IPEA1-xTB", description="IPEA1-xTB is made for this and is what `xtb --vipea` runs."
    )
    ions: Literal["both", "cation", "anion"] = Field(
        "both", description="The cation gives the ionisation energy, the anion the electron affinity."
    )
    adiabatic: bool = Field(False, description="Relax each ion: adiabatic values beside the vertical ones.")
    solvent: Solvent | None = Field(
        None,
        description="All species are in this solvent (ALPB), which has answered to the charge in full, as in "
        "electrochemistry and not as in a photoelectron spectrum.",
    )
    geometry: GeometryProtocol = Field(GeometryProtocol(), description="How the geometry is made.")
    max_atoms: int = Field(200, ge=1, description="Hydrogens included; larger molecules are refused.")
    repeatability: Repeatability = REPEATABILITY


class XtbIpEa(TightBinding):
    """Vertical and, if asked for, adiabatic ionisation energy and electron affinity by IPEA1-xTB (or GFN2-xTB).

    Values are differences of total energies at the neutral's GFN2-xTB geometry, minus the empirical shift of 4.8455 eV,
    as `xtb --vipea` prints them. Adiabatic values have each ion at its own GFN2-xTB geometry; they are electronic,
    without vibrations. The finding is `unstable` (cation_dissociated, anion_dissociated) if an ion breaks or forms a
    bond, and `implausible` if its energy rises by more than 0.3 eV, as in many anions with a negative affinity. With
    `ions: cation` a failure of the anion does not cost the ionisation energy.

    Errors against experiment are declared in `method_errors`; ranks correlate with 0.98 (ionisation energies) and 0.95
    (affinities of bound anions), but only with 0.61 for negative vertical affinities.

    The largest errors are those of water and ammonia (up to 1.2 eV too high) and n-ionised benzoquinone (0.6 too low).
    Charged molecules were not benchmarked; chloride is 2.6 eV too high. No bound anion exists for an affinity below 0
    (`anion_bound` in the diagnostics): the number then describes a resonance, and ranks poorly. Unpaired electrons have
    no exchange in extended tight binding, so there is no spin contamination, and singlet and triplet ions cannot be
    distinguished.

    The uncertainty is repeatability (k = 1) over conformer searches; with turning bonds it is the root
    mean square over 10 molecules, 4 seeds each. It does not include the errors against experiment. With
    `repeatability: molecule` it is that of this molecule.

    Sources: Ásgeirsson, Bauer, Grimme, Chem. Sci. 8, 4879 (2017); `tblite_engine` for the shift.
    """

    name = "xtb.ip_ea"
    version = "1"
    Settings = XtbIpEaSettings
    settings: XtbIpEaSettings
    spreads = rigid_or_flexible(RIGID, FLEXIBLE)
    method_errors = XTB_IP_EA
    priors = (
        Prior(
            property="adiabatic_ionization_energy",
            level="experiment",
            spearman=0.98,
            residual=0.28,
            n=30,
            source=SOURCE + "organics",
        ),
        Prior(
            property="adiabatic_electron_affinity",
            level="experiment",
            spearman=0.95,
            residual=0.27,
            n=15,
            source=SOURCE + "acceptors with bound anions",
        ),
    )

    @property
    def ions(self) -> tuple[Ion, ...]:
        return ("cation", "anion") if self.settings.ions == "both" else (self.settings.ions,)

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        measured = [VERTICAL[ion] for ion in self.ions]
        if self.settings.adiabatic:
            measured.extend(ADIABATIC[ion] for ion in self.ions)
        return at(self.level, *measured)

    def cost(self, candidate: Molecule) -> Cost:
        """Returns the cost of the geometry as for xtb.singlepoint, plus a relaxation of each adiabatic ion."""
        relaxations = len(self.ions) if self.settings.adiabatic else 0
        further_relaxations = 0.6 * relaxations  # in units of the cost of the geometry
        return Cost(core_seconds=0.02 + self.geometry_seconds(candidate, further_relaxations=further_relaxations))

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        settings = self.settings
        solvation = self.solvation
        geometry, diagnostics, molecule_spread = self.geometry_and_spread(molecule, context, self._vertical)
        values: dict[Property, float] = {}
        details: dict[str, Any] = {"shift": round(IPEA_SHIFT, 4)}
        structures = {"": geometry}
        for ion in self.ions:
            charged = ionised(geometry, ion)
            vertical, recovery = ionisation_difference(geometry, charged, ion, settings.method, solvation)
            details[f"{ion}_scf_step"] = recovery
            values[VERTICAL[ion]] = vertical
            if settings.adiabatic:
                ionic = relaxed_ion(charged, ion, bonds_of(molecule.mol), solvation)
                adiabatic, _ = ionisation_difference(geometry, ionic, ion, settings.method, solvation)
                check_relaxation(ion, vertical, adiabatic)
                values[ADIABATIC[ion]] = adiabatic
                structures[ion] = ionic
        affinity = values.get(ADIABATIC_EA, values.get(VERTICAL_EA))  # the adiabatic one, if there is one
        if affinity is not None:
            details["anion_bound"] = affinity > 0
        rows = self.measured(molecule, values, molecule_spread=molecule_spread)
        return self.calculated(
            molecule, context, rows, diagnostics | details, structures, molecule_spread=molecule_spread
        )

    def _vertical(self, conformer: Geometry) -> dict[Property, float | None]:
        """Returns the values of a conformer. Adiabatic values are taken to spread as much as vertical ones, so the
        vertical value stands for both."""
        values: dict[Property, float | None] = {}
        for ion in self.ions:
            vertical, _ = ionisation_difference(
                conformer, ionised(conformer, ion), ion, self.settings.method, self.solvation
            )
            values[VERTICAL[ion]] = vertical
            if self.settings.adiabatic:
                values[ADIABATIC[ion]] = vertical
        return values
