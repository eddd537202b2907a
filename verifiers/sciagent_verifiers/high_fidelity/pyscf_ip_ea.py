"""The verifier `pyscf.ip_ea`: vertical or adiabatic ionisation energy, electron affinity and redox potentials."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, model_validator

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.properties_and_levels import (
    ADIABATIC_EA,
    ADIABATIC_IP,
    OXIDATION_POTENTIAL,
    REDUCTION_POTENTIAL,
    VERTICAL_EA,
    VERTICAL_IP,
)
from sciagent.domain.quantities import Censoring
from sciagent.verification.verifier_contract import (
    Context,
    Cost,
    Finding,
    Level,
    Property,
    PropertyAtLevel,
    SimulatorError,
    at,
)
from sciagent_simulators.geometry_and_its_checks import Geometry, bonds_of
from sciagent_simulators.pyscf_engine_composites_and_spin_checks import ground_state
from sciagent_simulators.pyscf_ions import Ion, Relaxation, ion
from sciagent_verifiers.high_fidelity.density_functional_base import (
    DIFFUSE,
    DIFFUSE_DEFAULT,
    Basis,
    DensityFunctional,
    DensityFunctionalSettings,
)
from sciagent_verifiers.method_errors import PYSCF_IP_EA
from sciagent_verifiers.verifier_bases import rigid_or_flexible

# Absolute potentials, V. SHE: Isse, Gennaro, J. Phys. Chem. B 114, 7894 (2010) (IUPAC's 4.44 is another scale:
# Trasatti, Pure Appl. Chem. 58, 955 (1986)). Fc+/Fc: Namazian, Lin, Coote, J. Chem. Theory Comput. 6, 2721 (2010).
SHE = 4.281
FERROCENE = {"acetonitrile": 4.988, "1,2-dichloroethane": 4.927, "dimethyl sulfoxide": 5.043}

ENERGIES = {
    ("ip", "vertical"): VERTICAL_IP,
    ("ip", "adiabatic"): ADIABATIC_IP,
    ("ea", "vertical"): VERTICAL_EA,
    ("ea", "adiabatic"): ADIABATIC_EA,
}
POTENTIALS = {"ip": OXIDATION_POTENTIAL, "ea": REDUCTION_POTENTIAL}
ION_NAMES = {"ip": "cation", "ea": "anion"}
RIGID = dict.fromkeys([*ENERGIES.values(), *POTENTIALS.values()], 0.002)
FLEXIBLE = {
    **dict.fromkeys([VERTICAL_IP, ADIABATIC_IP, OXIDATION_POTENTIAL], 0.05),
    **dict.fromkeys([VERTICAL_EA, ADIABATIC_EA, REDUCTION_POTENTIAL], 0.06),
}


class IpEaSettings(DensityFunctionalSettings):
    """The settings of pyscf.scf, the ions and the reference of the potentials."""

    basis: Basis = Field(
        DIFFUSE_DEFAULT,
        description="An electron affinity needs one with diffuse functions; empty for a composite method.",
    )
    which: tuple[Literal["ip", "ea"], ...] = Field(
        ("ip", "ea"), min_length=1, max_length=2, description="Ionisation energy, electron affinity, or both."
    )
    kind: Literal["vertical", "adiabatic"] = Field(
        "vertical",
        description="The ion at the molecule's geometry, or relaxed as the molecule is (optimise is then true).",
    )
    reference: Literal["SHE", "Fc+/Fc"] | None = Field(
        None,
        description="Potentials too, vertical or adiabatic as `kind` is, against an absolute potential: SHE 4.281 V; "
        "Fc+/Fc that of the solvent (acetonitrile, 1,2-dichloroethane, dimethyl sulfoxide).",
    )

    @model_validator(mode="before")
    @classmethod
    def _adiabatic_optimises(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("kind") == "adiabatic":
            if given.get("optimise") is False:
                raise ValueError("kind: adiabatic relaxes molecule and ion; leave optimise out, or ask for vertical")
            return given | {"optimise": True}
        return given

    @model_validator(mode="after")
    def _ions_are_described(self) -> IpEaSettings:
        if len(set(self.which)) != len(self.which):
            raise ValueError(f"which: {list(self.which)} names one twice")
        if "ea" in self.which and self.basis not in DIFFUSE:
            raise ValueError(
                f"{self.basis_set} has no diffuse functions, and an anion needs them; take one of "
                f"{', '.join(sorted(DIFFUSE))}, or which: [ip]"
            )
        if self.reference and not self.solvent:
            raise ValueError(f"a potential against {self.reference} needs a solvent")
        if self.reference == "Fc+/Fc" and self.solvent not in FERROCENE:
            raise ValueError(
                f"the absolute potential of Fc+/Fc is known here in {', '.join(FERROCENE)}, not in {self.solvent}"
            )
        return self

    @property
    def absolute(self) -> float:
        """The absolute potential of the reference, V."""
        return FERROCENE[self.solvent or ""] if self.reference == "Fc+/Fc" else SHE

    @property
    def method(self) -> str:
        return f"{super().method} delta-SCF"


class PyscfIpEa(DensityFunctional):
    """Vertical or adiabatic ionisation energy and electron affinity as differences of self-consistent energies, PySCF.

    With `reference` there is a redox potential of each, vertical or adiabatic as `kind` is; its level says which.
    Energies are electronic, without zero-point vibration and thermal terms. A solvent is in equilibrium with the
    molecule and each ion. An anion with a higher energy than its molecule is unbound: the affinity is then censored,
    `< 0 eV`, with `anion_unbound` in the detail; a gate judges it like any value. If one part fails (an ion dissociates
    or does not converge), the finding has the other part only, and the detail names the failure; a gate on the missing
    value is inconclusive. If all parts fail, the finding has outcome and reason of the first
    (`cation_dissociated`, `anion_dissociated`, `spin_contaminated`, ...).

    The uncertainty is repeatability (k = 1) over conformer searches, as for HOMO and LUMO in `pyscf.scf`.
    `method_errors` has the errors of adiabatic values (PBE0/def2-SVPD, gas phase; largest 0.54 eV, dioxygen and sulfur
    dioxide). No error is declared for vertical values, since those of experiment are adiabatic.

    Source: PBE0: Adamo, Barone, J. Chem. Phys. 110, 6158 (1999); delta-SCF: Jones, Gunnarsson, Rev. Mod. Phys. 61, 689
    (1989).
    """

    name = "pyscf.ip_ea"
    version = "1"
    Settings = IpEaSettings
    settings: IpEaSettings
    spreads = rigid_or_flexible(RIGID, FLEXIBLE)
    method_errors = PYSCF_IP_EA

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        chosen = self.settings
        quantities = at(chosen.level, *(ENERGIES[part, chosen.kind] for part in chosen.which))
        if chosen.reference:
            quantities += at(self.potential_level, *(POTENTIALS[part] for part in chosen.which))
        return quantities

    @property
    def potential_level(self) -> Level:
        """The level of the potentials. Its method says vertical or adiabatic and names the reference, so that another
        kind or reference is another level."""
        level = self.settings.level
        scale = f"{self.settings.kind} vs {self.settings.reference} at {self.settings.absolute} V"
        return replace(level, method=f"{level.method}, {scale}")

    def cost(self, candidate: Molecule) -> Cost:
        """Returns the cost of the molecule with its spin check, of each ion, and of the relaxations."""
        chosen = self.settings
        seconds = 0.5 + self.scf_seconds(candidate) + self.spin_seconds(candidate)
        ion_multiplicity = 2 if candidate.multiplicity % 2 else 3  # any open shell costs the same
        multiplicities_per_ion = 1 if candidate.multiplicity == 1 else 2
        ions = len(chosen.which) * multiplicities_per_ion
        seconds += ions * self.scf_seconds(candidate, ion_multiplicity)
        seconds += self.relax_seconds(candidate)
        if chosen.kind == "adiabatic":
            seconds += ions * self.relax_seconds(candidate, ion_multiplicity)
        return Cost(core_seconds=seconds * self.calculations(candidate))

    def at_geometry(self, molecule: Molecule, context: Context, start: Geometry) -> tuple[Finding, Geometry, float]:
        chosen = self.settings
        geometry, diagnostics = self.relaxed(molecule, context, start)
        file = self.checkpoint(molecule, context, "scf").with_suffix(".chk")
        _, ground = ground_state(geometry, chosen.engine(), file, context.threads)
        relaxation = None
        if chosen.kind == "adiabatic":
            relaxation = Relaxation(chosen.fmax, chosen.max_steps, tuple(bonds_of(molecule.mol)))
        diagnostics |= ground.diagnostics
        values: list[Measured] = []
        structures = {"": geometry}
        notes: list[str] = []
        problems: list[SimulatorError] = []
        for part in chosen.which:
            change = 1 if part == "ip" else -1  # of the charge
            stem = self.checkpoint(molecule, context, ION_NAMES[part])
            try:
                charged = ion(
                    geometry,
                    ground,
                    change,
                    chosen.engine(),
                    relaxation=relaxation,
                    checkpoint=stem,
                    threads=context.threads,
                )
                values += self._values(molecule, part, charged)
            except SimulatorError as error:
                problems.append(error)
                notes.append(f"{ION_NAMES[part]}: {error.reason}: {error.detail}")
                diagnostics[ION_NAMES[part]] = {"reason": str(error.reason), "detail": error.detail}
                continue
            diagnostics[ION_NAMES[part]] = charged.diagnostics
            if charged.unbound:
                notes.append(f"{Reason.ANION_UNBOUND}: the anion lies {charged.energy:.2f} eV above the molecule")
            if relaxation is not None:
                structures[ION_NAMES[part]] = charged.geometry
        if not values:
            raise problems[0]
        finding = self.calculated(molecule, context, tuple(values), diagnostics, structures, "; ".join(notes))
        return finding, geometry, ground.energy

    def _values(self, molecule: Molecule, part: str, charged: Ion) -> list[Measured]:
        """Returns the energy, and the potential if one is wanted. part: `ip` or `ea`."""
        chosen = self.settings
        energy = charged.energy if part == "ip" else -charged.energy
        if charged.unbound:
            energy = 0.0  # an upper limit, which the censoring says below
        wanted: list[tuple[Property, Level, float]] = [(ENERGIES[part, chosen.kind], chosen.level, energy)]
        if chosen.reference:
            wanted.append((POTENTIALS[part], self.potential_level, energy - chosen.absolute))
        rows = list[Measured]()
        for prop, level, value in wanted:
            rows.extend(self.measured(molecule, {prop: value}, level=level))
        if not charged.unbound:
            return rows
        censored_rows = []
        for row in rows:
            limit = replace(row.quantity, censoring=Censoring.BELOW, uncertainty=None)
            censored_rows.append(replace(row, quantity=limit))
        return censored_rows
