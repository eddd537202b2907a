"""The verifier `pyscf.tda`: lowest excitations of a molecule by time-dependent density functional theory."""

from __future__ import annotations

from pydantic import Field, model_validator

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.properties_and_levels import S1_ENERGY, S1_OSCILLATOR_STRENGTH, S1_WAVELENGTH, T1_ENERGY
from sciagent.verification.verifier_contract import Context, Cost, Finding, PropertyAtLevel, Reason, Refusal, at
from sciagent_simulators.geometry_and_its_checks import Geometry, failure
from sciagent_simulators.pyscf_engine_composites_and_spin_checks import ground_state
from sciagent_simulators.pyscf_excitations import NANOMETRE_EV, NEAR, check_charge_transfer, excite
from sciagent_verifiers.high_fidelity.density_functional_base import (
    NONLOCAL,
    DensityFunctional,
    DensityFunctionalSettings,
    Functional,
)
from sciagent_verifiers.method_errors import PYSCF_TDA
from sciagent_verifiers.verifier_bases import rigid_or_flexible

LOWEST = 0.3  # eV; with a lower S1 a single determinant cannot distinguish ground and excited state
# repeatability (k = 1) over conformer searches: energies in eV, the strength without unit
RIGID = {S1_ENERGY: 0.002, S1_OSCILLATOR_STRENGTH: 0.002, T1_ENERGY: 0.002}
FLEXIBLE = {S1_ENERGY: 0.05, S1_OSCILLATOR_STRENGTH: 0.03, T1_ENERGY: 0.05}


class TdaSettings(DensityFunctionalSettings):
    """The settings of pyscf.scf and the states. Only the electrons of a solvent respond to an excitation."""

    functional: Functional = Field(
        "CAM-B3LYP", description="Take one with long-range exchange, unless no excitation moves charge."
    )
    states: int = Field(3, ge=1, le=20, description="How many singlets are looked for.")
    triplet: bool = Field(False, description="T1 too.")
    full: bool = Field(False, description="TDDFT instead of its Tamm-Dancoff approximation.")

    @model_validator(mode="after")
    def _responds(self) -> TdaSettings:
        if self.functional in NONLOCAL:
            raise ValueError(
                f"excitations by {self.functional} lack the response of VV10 in PySCF; take wB97X-D3(BJ), wB97X or "
                "CAM-B3LYP"
            )
        return self

    @property
    def method(self) -> str:
        return f"{'TDDFT' if self.full else 'TDA'}-{super().method}"


class PyscfTda(DensityFunctional):
    """Energy, wavelength and oscillator strength of the lowest singlet excitation, and T1 if asked for, PySCF.

    Excitations are vertical, at the ground state's geometry; band maxima in solution lie 0.1 to 0.3 eV lower. The
    diagnostics have all states with their hole-electron overlap and main transition. The finding has no number for a
    wrong ground state (`triplet_ground_state`, `scf_unstable`, `near_degenerate`, also if S1 is below 0.3 eV), and for
    a charge-transfer S1 by a functional without long-range exchange (`charge_transfer`). Open shells are refused.

    The uncertainty is repeatability (k = 1) over conformer searches, as for the gap in `pyscf.scf`, not
    the error of the functional. `benchmarks/numbers/pyscf_tda.json` compares with experiment and published values.

    Sources: those of `sciagent_simulators.pyscf_excitations`.
    """

    name = "pyscf.tda"
    version = "2"
    Settings = TdaSettings
    settings: TdaSettings
    method_errors = PYSCF_TDA

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        properties = at(self.level, S1_ENERGY, S1_WAVELENGTH, S1_OSCILLATOR_STRENGTH)
        return properties + at(self.level, T1_ENERGY) if self.settings.triplet else properties

    def accepts(self, candidate: Molecule) -> Refusal | None:
        if candidate.multiplicity != 1:
            return Refusal(Reason.RADICAL, f"S1 of a state of multiplicity {candidate.multiplicity} is not defined")
        return super().accepts(candidate)

    def cost(self, candidate: Molecule) -> Cost:
        """Returns the cost of the self-consistent field, its spin check, the relaxation and the states. Two states
        cost as much as 1.4 fields.

        Benzaldehyde, p-anisaldehyde, coumarin with CAM-B3LYP/def2-SVP, grid 1: 42, 96, 104 core-seconds measured, 44,
        80, 84 expected."""
        chosen = self.settings
        field = self.scf_seconds(candidate)
        fields_of_states = 0.8 + 0.3 * chosen.states  # their cost in units of one self-consistent field
        if chosen.triplet:
            fields_of_states += 1.1
        if chosen.full:
            fields_of_states *= 4.0
        seconds = 0.5 + field * (1 + fields_of_states)
        seconds += self.spin_seconds(candidate)
        seconds += self.relax_seconds(candidate)
        return Cost(core_seconds=seconds * self.calculations(candidate))

    def at_geometry(self, molecule: Molecule, context: Context, start: Geometry) -> tuple[Finding, Geometry, float]:
        from pyscf import lib

        chosen = self.settings
        geometry, diagnostics = self.relaxed(molecule, context, start)
        file = self.checkpoint(molecule, context, "scf").with_suffix(".chk")
        mf, ground = ground_state(geometry, chosen.engine(), file, context.threads)
        diagnostics |= ground.diagnostics
        with lib.with_omp_threads(context.threads):
            singlets = excite(mf, states=chosen.states, full=chosen.full, solvent=chosen.solvent)
            triplets = []
            if chosen.triplet:
                triplets = excite(mf, states=1, singlet=False, full=chosen.full, solvent=chosen.solvent)
        diagnostics["singlets"] = [state.as_dict() for state in singlets]
        diagnostics["triplets"] = [state.as_dict() for state in triplets]
        lowest = singlets[0]
        if lowest.energy < LOWEST:
            raise failure(
                Reason.NEAR_DEGENERATE,
                f"S1 lies {lowest.energy:.2f} eV above the ground state: one determinant does not describe either",
                **diagnostics,
            )
        check_charge_transfer(lowest, mf)
        values = {
            S1_ENERGY: lowest.energy,
            S1_WAVELENGTH: lowest.wavelength,
            S1_OSCILLATOR_STRENGTH: lowest.strength,
            T1_ENERGY: triplets[0].energy if triplets else None,
        }
        nm_per_ev = NANOMETRE_EV / lowest.energy**2
        rigid = RIGID | {S1_WAVELENGTH: RIGID[S1_ENERGY] * nm_per_ev}
        flexible = FLEXIBLE | {S1_WAVELENGTH: FLEXIBLE[S1_ENERGY] * nm_per_ev}
        detail = ""
        if len(singlets) > 1 and singlets[1].energy - lowest.energy < NEAR:
            detail = f"S2 lies within {NEAR} eV of S1: which of them has the strength is an accident"
        rows = self.measured(molecule, values, spreads=rigid_or_flexible(rigid, flexible))
        structures = {"": geometry}  # the only geometry, so that its file needs no suffix
        finding = self.calculated(molecule, context, rows, diagnostics, structures, detail)
        return finding, geometry, ground.energy
