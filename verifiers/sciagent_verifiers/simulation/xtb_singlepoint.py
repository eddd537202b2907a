"""The verifier `xtb.singlepoint`: frontier orbitals, dipole and total energy by extended tight binding."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.domain.properties_and_levels import DIPOLE, HOMO, HOMO_LUMO_GAP, LUMO, TOTAL_ENERGY
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
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.low_conformers_and_search_spread import SearchFreedom
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import Solvent
from sciagent_simulators.starting_geometry import GeometryProtocol
from sciagent_simulators.tblite_engine import XtbResult, single_point
from sciagent_verifiers.method_errors import XTB_SINGLEPOINT
from sciagent_verifiers.simulation.tight_binding_base_and_second_opinion import (
    REPEATABILITY,
    Repeatability,
    TightBinding,
    second_opinion,
)

RIGID = {HOMO: 0.001, LUMO: 0.001, HOMO_LUMO_GAP: 0.001, DIPOLE: 0.005, TOTAL_ENERGY: 0.001}
# set by benchmarks/repeatability/flexible.py
SPREADS = {
    SearchFreedom.RIGID: RIGID,
    SearchFreedom.TURNING: {HOMO: 0.015, LUMO: 0.02, HOMO_LUMO_GAP: 0.015, DIPOLE: 0.07, TOTAL_ENERGY: 0.005},
    SearchFreedom.POLAR: {HOMO: 0.04, LUMO: 0.045, HOMO_LUMO_GAP: 0.05, DIPOLE: 0.13, TOTAL_ENERGY: 0.013},
    SearchFreedom.OPEN: {HOMO: 0.055, LUMO: 0.06, HOMO_LUMO_GAP: 0.06, DIPOLE: 0.18, TOTAL_ENERGY: 0.03},
}


class XtbSettings(Settings):
    """The method, the solvent and the geometry."""

    method: Literal["GFN2-xTB", "GFN1-xTB"] = Field("GFN2-xTB", description="The Hamiltonian of the single point.")
    geometry: GeometryProtocol = Field(GeometryProtocol(), description="How the geometry is made.")
    max_atoms: int = Field(200, ge=1, description="Hydrogens included; larger molecules are refused.")
    solvent: Solvent | None = omitted_if_unset(
        None,
        description="The single point is in this solvent (ALPB); "
        "the geometry is, too, if geometry: {solvent: …} says so.",
    )
    second_opinion: bool = omitted_if_unset(
        False,
        description="The other GFN method on the same geometry, told in the diagnostics; how far the two dipoles lie "
        "apart enters the uncertainty of the dipole.",
    )
    repeatability: Repeatability = REPEATABILITY


class XtbSinglepoint(TightBinding):
    """Frontier orbitals, dipole and total energy by GFN2-xTB or GFN1-xTB, in the gas phase or in a solvent.

    One calculation gives five properties. The gap is an orbital-energy difference, not an optical gap: against
    PBE0/def2-SVP it ranks well (Spearman 0.93, 16 organics) and is about 2 eV too low, so set gates on its own scale.
    The dipole of an ion is about its centre of mass. A single atom without empty orbitals has no LUMO and no gap. In a
    solvent the total energy includes the free energy of solvation.

    The uncertainty is the repeatability over conformer searches (k = 1): without turning bonds values repeat within
    0.001 eV; for turning bonds, OH or NH, and open stereo it covers 68 % of the differences of 96 molecules, 6 searches
    each. With `repeatability: molecule` it is that of this molecule. It is not the error of the method
    (`method_errors`). With `second_opinion` the uncertainty of the dipole includes the difference between GFN1 and
    GFN2. Their orbital energies are not comparable, so that difference is in the diagnostics only.

    Source: Bannwarth, Ehlert, Grimme, J. Chem. Theory Comput. 15, 1652 (2019).
    """

    name = "xtb.singlepoint"
    version = "1"
    Settings = XtbSettings
    settings: XtbSettings
    spreads = SPREADS
    method_errors = XTB_SINGLEPOINT
    priors = (
        Prior(
            property="homo_lumo_gap", level="PBE0/def2-SVP", spearman=0.83, residual=0.49, n=206, slope=0.85,
            intercept=2.92, method="GFN2-xTB",
            source="benchmarks/scheduling/live.csv.gz, small organics on GFN2 geometries, gaps below 6 eV",
        ),
        Prior(
            property="dipole", level="PBE0/def2-SVP", spearman=0.95, residual=0.35, n=209, slope=0.90, intercept=0.04,
            method="GFN2-xTB", source="benchmarks/scheduling/live.csv.gz, small organics on GFN2 geometries",
        ),
    )  # fmt: skip

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(self.level, HOMO, LUMO, HOMO_LUMO_GAP, DIPOLE, TOTAL_ENERGY)

    def cost(self, candidate: Molecule) -> Cost:
        """Returns the cost of the geometry; that of the single point is negligible."""
        return Cost(core_seconds=0.02 + self.geometry_seconds(candidate))

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        method = self.settings.method
        solvation = self.solvation

        def values_of(conformer: Geometry) -> dict[Property, float | None]:
            return _values(single_point(conformer, method, solvation=solvation))

        geometry, diagnostics, molecule_spread = self.geometry_and_spread(molecule, context, values_of)
        result = single_point(geometry, method, solvation=solvation)
        values = _values(result)
        details: dict[str, Any] = {"scf_step": result.recovery, "fmax": result.fmax}
        further: dict[Property, float] = {}
        if self.settings.second_opinion:
            opinion, further = second_opinion(geometry, method, values, solvation)
            details["second_opinion"] = opinion
        rows = self.measured(molecule, values, further=further, molecule_spread=molecule_spread)
        return self.calculated(
            molecule, context, rows, diagnostics | details, {"": geometry}, molecule_spread=molecule_spread
        )


def _values(result: XtbResult) -> dict[Property, float | None]:
    """Returns the five values of a single point."""
    orbitals = {HOMO: result.homo, LUMO: result.lumo, HOMO_LUMO_GAP: result.gap}
    return {**orbitals, DIPOLE: result.dipole, TOTAL_ENERGY: result.energy}
