"""The verifier `xtb.solvation`: free energy of solvation by extended tight binding with an implicit solvent."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.properties_and_levels import SOLVATION_ENERGY, Property
from sciagent.errors import SimulatorError
from sciagent.verification.verifier_contract import Context, Cost, Finding, Level, Prior, PropertyAtLevel, Settings, at
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.low_conformers_and_search_spread import SearchFreedom
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import Model, Solvation, Solvent, unparametrised
from sciagent_simulators.starting_geometry import GeometryProtocol
from sciagent_simulators.tblite_engine import single_point
from sciagent_verifiers.method_errors import XTB_SOLVATION
from sciagent_verifiers.simulation.tight_binding_base_and_second_opinion import (
    OTHER_METHOD,
    REPEATABILITY,
    GfnMethod,
    Repeatability,
    TightBinding,
)

RIGID = {SOLVATION_ENERGY: 0.001}
# set by benchmarks/repeatability/flexible.py
SPREADS = {
    SearchFreedom.RIGID: RIGID,
    SearchFreedom.TURNING: {SOLVATION_ENERGY: 0.003},
    SearchFreedom.POLAR: {SOLVATION_ENERGY: 0.009},
    SearchFreedom.OPEN: {SOLVATION_ENERGY: 0.015},
}
SOURCE = "benchmarks/numbers/xtb_solvation.json, GFN1-xTB ALPB, neutral solutes of FreeSolv"  # source of the prior


class XtbSolvationSettings(Settings):
    """The solvent, its model and the geometries."""

    solvent: Solvent = Field("water", description="Where to; the gas phase is where from.")
    model: Model = Field("alpb", description="The implicit solvent's model.")
    method: Literal["GFN2-xTB", "GFN1-xTB"] = Field(
        "GFN1-xTB", description="GFN1-xTB agrees better with measured hydration free energies."
    )
    relax: Literal["gas", "solvent"] = Field(
        "gas",
        description="gas takes the gas-phase geometry for both states; solvent lets the solute change conformer and "
        "bonds in the solvent, by GFN2-xTB with ALPB.",
    )
    second_opinion: bool = Field(
        False,
        description="The other GFN method on the same geometries, told in the diagnostics; the distance of the two "
        "enters the uncertainty.",
    )
    geometry: GeometryProtocol = Field(GeometryProtocol(), description="How the gas-phase geometry is made.")
    max_atoms: int = Field(200, ge=1, description="Hydrogens included; larger molecules are refused.")
    repeatability: Repeatability = REPEATABILITY

    @model_validator(mode="after")
    def _parameters_exist(self) -> XtbSolvationSettings:
        methods = [self.method]
        if self.second_opinion:
            methods.append(OTHER_METHOD[self.method])
        for method in methods:
            fault = unparametrised(method, self.model, self.solvent)
            if fault:
                hint = "" if method == self.method else "; or set second_opinion: false"
                raise ValueError(fault + hint)
        if self.geometry.solvent:
            raise ValueError("geometry is that of the gas phase; use relax: solvent for one in the solvent")
        if self.relax == "solvent" and self.geometry.method != "gfn2":
            raise ValueError("relax: solvent needs geometry: {method: gfn2}")
        return self


class XtbSolvation(TightBinding):
    """Free energy of solvation of a molecule by extended tight binding with ALPB or GBSA.

    The value is the energy of one conformer in the solvent minus that in vacuum. It refers to the transfer from 1 mol/L
    of ideal gas to 1 mol/L of solution at 298.15 K, as in hydration databases (from 1 bar it is 1.90 kcal/mol higher).

    The default is GFN1-xTB with ALPB on the GFN2-xTB gas geometry, which agrees well with experiment (`method_errors`;
    Spearman 0.92 over 516 neutral solutes; GFN2-xTB with ALPB: 0.84).

    GFN1-xTB errs by 5 to 8 kcal/mol for dinitroanilines, thiophosphates and ammonia (too negative) and halogenated
    uracils (too positive). Other solvents were checked against xtb 6.5.1, not against experiment; ions were not.

    The uncertainty is the repeatability over conformer searches (k = 1): for turning bonds, OH or NH, and open stereo
    it covers 68 % of the differences of 96 molecules, 6 searches each. With `repeatability: molecule` it is that of
    this molecule. With `second_opinion` it includes the difference
    between GFN1 and GFN2; `tight_binding_base_and_second_opinion` says how reliable that is.

    Sources: Ehlert, Stahn, Spicher, Grimme, J. Chem. Theory Comput. 17, 4250 (2021); FreeSolv: Mobley, Guthrie,
    J. Comput.-Aided Mol. Des. 28, 711 (2014).
    """

    name = "xtb.solvation"
    version = "1"
    Settings = XtbSolvationSettings
    settings: XtbSolvationSettings
    spreads = SPREADS
    method_errors = XTB_SOLVATION
    priors = (
        Prior(
            property="solvation_free_energy",
            level="experiment(water)",
            spearman=0.92,
            residual=0.069,
            n=516,
            source=SOURCE,
        ),
    )

    @property
    def level(self) -> Level:
        s = self.settings
        geometry = s.geometry.label
        if s.relax == "solvent":
            geometry = geometry.replace("GFN2-xTB", f"GFN2-xTB(gas|{s.solvent})", 1)
        return Level(method=f"{s.method}+{s.model.upper()}", phase=s.solvent, geometry=geometry)

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(self.level, SOLVATION_ENERGY)

    def cost(self, candidate: Molecule) -> Cost:
        """Returns the cost of the geometry as for xtb.singlepoint, times 2.5 with `relax: solvent`."""
        times = 2.5 if self.settings.relax == "solvent" else 1.0
        return Cost(core_seconds=0.03 + times * self.geometry_seconds(candidate))

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        settings = self.settings

        def value_of(conformer: Geometry) -> dict[Property, float | None]:
            return {SOLVATION_ENERGY: self._difference(settings.method, conformer, conformer)}

        gas, diagnostics, molecule_spread = self.geometry_and_spread(molecule, context, value_of)
        dissolved = gas
        structures = {"": gas}
        if settings.relax == "solvent":
            in_solvent = settings.geometry.model_copy(update={"solvent": settings.solvent})
            dissolved, _ = self.geometry(molecule, context, in_solvent)
            structures["dissolved"] = dissolved
        diagnostics["reference_state"] = "1 mol/L gas to 1 mol/L solution"
        value = self._difference(settings.method, gas, dissolved)
        method_distance = 0.0  # eV
        if settings.second_opinion:
            opinion, method_distance = self._second_opinion(value, gas, dissolved)
            diagnostics["second_opinion"] = opinion
        values = {SOLVATION_ENERGY: value}
        further = {SOLVATION_ENERGY: method_distance}
        rows = self.measured(molecule, values, further=further, molecule_spread=molecule_spread)
        return self.calculated(molecule, context, rows, diagnostics, structures, molecule_spread=molecule_spread)

    def _second_opinion(self, value: float, gas: Geometry, dissolved: Geometry) -> tuple[dict[str, str | float], float]:
        """Returns diagnostics of the other GFN method, and its distance from `value`, eV; 0 if that method fails."""
        other = OTHER_METHOD[self.settings.method]
        opinion: dict[str, str | float] = {"method": other}
        try:
            second_value = self._difference(other, gas, dissolved)
        except SimulatorError as error:
            opinion["failed"] = str(error.reason)
            return opinion, 0.0
        opinion[SOLVATION_ENERGY.name] = second_value
        return opinion, abs(value - second_value)

    def _difference(self, method: GfnMethod, gas: Geometry, dissolved: Geometry) -> float:
        """Returns E in the solvent minus E in vacuum, eV."""
        solvation = Solvation(self.settings.solvent, self.settings.model)
        in_solvent = single_point(dissolved, method, solvation=solvation)
        in_vacuum = single_point(gas, method)
        return in_solvent.energy - in_vacuum.energy
