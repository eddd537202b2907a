"""The verifier `mlff.relax`: relaxes cell and positions by a force field; volume, density, energies against phases.

The phases that span a hull may come from a user's file (`phase_files`), such as one of the Materials Project: their
energies, or their structures, which the model relaxes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.crystals.conventional_cell_and_cif import ConventionalCell, conventional_cell
from sciagent.chemistry.crystals.layers_and_vacuum import soft_vectors
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.domain.properties_and_levels import (
    DENSITY,
    E_ABOVE_HULL,
    E_ABOVE_KNOWN_PHASES,
    ENERGY_SPREAD,
    FORMATION_ENERGY,
    LATTICE_A,
    LATTICE_ALPHA,
    LATTICE_B,
    LATTICE_BETA,
    LATTICE_C,
    LATTICE_GAMMA,
    VOLUME_PER_ATOM,
)
from sciagent.errors import SimulatorError
from sciagent.verification.verifier_contract import (
    Context,
    Finding,
    Level,
    Property,
    PropertyAtLevel,
    Reason,
    ReferenceFile,
    Refusal,
    at,
)
from sciagent_simulators.potentials.competing_prototypes import BINARIES, MORE_BINARIES, TERNARIES, not_compared
from sciagent_simulators.potentials.materials_project_corrections import (
    compared_on,
    comparison_fault,
    load_correction,
    on_mp2020,
)
from sciagent_simulators.potentials.potential_base_and_registry import (
    Energy,
    Potential,
    PotentialValues,
    available_device,
    model_difference,
    potential_factory,
)
from sciagent_simulators.potentials.relax_and_equation_of_state import Relaxed, evaluate
from sciagent_simulators.potentials.relaxed_phases_and_hull import KnownPhases, known_phases, relaxed_structures
from sciagent_verifiers.simulation.force_field_base import ForceField, ForceFieldSettings, structure_of
from sciagent_verifiers.simulation.phase_files import (
    elements_alone,
    phases_of,
    read_entries,
    read_phase_structures,
    scale_fault,
)

LENGTHS = (LATTICE_A, LATTICE_B, LATTICE_C)
ANGLES = (LATTICE_ALPHA, LATTICE_BETA, LATTICE_GAMMA)
OF_LAST_STRAIN = 0.35
"""Relative standard uncertainty of a length, over the last strain of the relaxation. Of the lengths of 15 solids from
five starts, 82 % lie within it of those at a tenth of `fmax`, 74 % of the median over the starts
(benchmarks/crystals/lattice_repeatability.json)."""
SMALLEST_ERROR = 1e-4
"""Relative standard uncertainty of a length that does not change any more."""
ANGLE_OVER_LENGTH = 2.0
"""Uncertainty of an angle in radians, over the relative one of a length."""
HULLS = {
    "binaries": f"{len(BINARIES)} binary prototypes",
    "prototypes": f"{len(BINARIES) + len(MORE_BINARIES)} binary and {len(TERNARIES)} ternary prototypes",
}
"""Settings of `known_phases` with an energy above them, each with the condition that its level states."""
MAX_CONDITION = 120  # characters of a level's condition
WEAK_LAYERS = (
    "no bonds run along an axis; the model binds layers too weakly, so the distance between layers may be far too large"
)
"""The remark on a crystal with a vector that no bonds cross."""
MAX_SHOWN_PHASES = 8  # phases of a mixture that the diagnostics name


class MlffRelaxSettings(ForceFieldSettings):
    """The model, the relaxation, and the phases against which energies are counted."""

    known_phases: Literal["prototypes", "binaries", "elements", "none"] = Field(
        "prototypes",
        description=f"`binaries`: elements, and pairs of them in those of {len(BINARIES)} prototypes that oxidation "
        "states balance; `prototypes`: these, pairs as wurtzite, anatase and MoS2, and triples as tilted perovskite, "
        "spinel, layered ABX2 and delafossite; `elements`: a formation energy only; `none`: no energies. They are "
        "relaxed once for a chemical system and kept in the cache folder.",
    )
    entries: ReferenceFile | None = omitted_if_unset(
        None,
        description="Energies of phases on the same scale, or pymatgen's ComputedEntry (JSON); adds energy_above_hull.",
    )
    entries_as: Literal["energies", "structures"] = omitted_if_unset(
        "energies",
        description="`structures`: the crystals of the file `entries` (CIF, a list of ComputedStructureEntry, …) are "
        "relaxed by the model and join the known phases; energies in the file do not count.",
    )
    second_model: str | None = omitted_if_unset(
        None, description="Another potential of the same functional, evaluated on the relaxed cell; adds energy_spread."
    )

    @model_validator(mode="after")
    def _entries_fit(self) -> MlffRelaxSettings:
        if self.energies_file is not None:
            fault = scale_fault(self.energies_file, self.scale)
            if fault:
                raise ValueError(fault)
        if self.entries_as == "structures" and self.entries is None:
            raise ValueError("entries_as: structures needs a file with them (entries: FILE)")
        if self.structures_file is not None and self.known_phases == "none":
            raise ValueError("structures of a file join the known phases; take known_phases: elements, or leave it out")
        _ = self.structures  # raises ValueError for a file that cannot be used
        return self

    @property
    def energies_file(self) -> ReferenceFile | None:
        """The file of phases whose energies are taken."""
        return self.entries if self.entries_as == "energies" else None

    @property
    def structures_file(self) -> ReferenceFile | None:
        """The file of phases whose structures the model relaxes."""
        return self.entries if self.entries_as == "structures" else None

    @property
    def structures(self) -> Mapping[str, Crystal]:
        """The structures of the file, by name. Raises ValueError for what is no crystal, and for one too large."""
        file = self.structures_file
        return {} if file is None else read_phase_structures(Path(file.path), file.sha256, self.max_atoms)

    @property
    def hull_condition(self) -> str:
        """The phases as the level of energy_above_known_phases names them; empty without such an energy."""
        known = HULLS.get(self.known_phases, "")
        file = self.structures_file
        if file is None:
            return known
        return f"{known or 'elements'}, {file.sha256[:12]} {file.name}"[:MAX_CONDITION]

    @model_validator(mode="after")
    def _models_fit(self) -> MlffRelaxSettings:
        if self.second_model is not None:
            other = potential_factory(self.second_model).scale
            if self.second_model == self.model and self.weights is None:
                raise ValueError("second_model is the model itself")
            if other.functional != self.scale.functional:
                detail = f"{other.model} is {other.functional}, {self.scale.model} is {self.scale.functional}"
                raise ValueError(f"models of two functionals have no spread: {detail}")
        return self


class MlffRelax(ForceField):
    """Cell and positions relaxed by a machine-learnt force field, many crystals in one call.

    The energy above the known phases compares the crystal with the elements and with binaries of the same elements in
    common prototypes that oxidation states balance, and with triples of them as tilted perovskites, spinels and layered
    oxides, all by the same model; alloys are left out beside a non-metal. Phases that are missing there can only raise
    it, so it is a lower bound of the energy above the hull: what lies far above will not form, what lies at zero may
    still decompose. The diagnostics say what is missing.

    The model was trained on density functional theory at 0 K (PBE+U by default) and has its errors: lattices about 1 %
    large against experiment, but layers, which it binds too weakly, 7 to 22 % too far apart; formation energies of most
    crystals within 0.1 eV/atom, that of TiO2 0.25 too low. Charge and spin are not seen.
    Energies of a model that learnt raw energies of PBE with and without a Hubbard U get the corrections MP2020 before
    they are compared with phases. By other functionals, oxides and fluorides of V, Cr, Mn, Fe, Co, Ni, Mo and W are
    refused.
    `energy_spread` is how far a second model differs on the same scale: a warning that a gate may use, no uncertainty,
    since both were trained on the same data.

    The uncertainties (k = 1) say how well a relaxation repeats. Those of energies are the spread over the starting
    structure: strains of 3 % and displacements of 0.05 angstrom (benchmarks/crystals/relaxation_repeatability.json).
    Those of lattice constants, volume and density are the crystal's own: a third of the strain of the cell since forces
    were eight times `fmax`, which is small for a hard solid and large for one whose octahedra tilt. Angles that the
    crystal system fixes are exact. Where no bonds run, as between layers, the uncertainty is not known, nor are those
    of volume and density. Another start may find another minimum; no uncertainty has that in it.

    Lattice constants are those of the conventional cell, which is stored as a CIF with its space group. Symmetry is
    sought within 0.01 angstrom: atoms that lie further from symmetric places lower the group and may change the cell.
    It refuses slabs, chains and molecules with vacuum around them.

    Sources: Deng et al., Nat. Mach. Intell. 5, 1031 (2023); Park et al., J. Chem. Theory Comput. 20, 4857 (2024).
    """

    name = "mlff.relax"
    version = "7"
    Settings = MlffRelaxSettings
    settings: MlffRelaxSettings
    spread = {FORMATION_ENERGY: 0.001, E_ABOVE_KNOWN_PHASES: 0.001, E_ABOVE_HULL: 0.001, ENERGY_SPREAD: 0.001}

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        s = self.settings
        measured: list[Property] = [VOLUME_PER_ATOM, DENSITY]
        if s.known_phases != "none":
            measured.append(FORMATION_ENERGY)
        if s.hull_condition:
            measured.append(E_ABOVE_KNOWN_PHASES)
        if s.energies_file is not None:
            measured.append(E_ABOVE_HULL)
        if s.second_model is not None:
            measured.append(ENERGY_SPREAD)
        measured += [*LENGTHS, *ANGLES]
        measures: list[PropertyAtLevel] = []
        for prop in measured:
            measures.extend(at(self._levels.get(prop, self.level), prop))
        return tuple(measures)

    @cached_property
    def _levels(self) -> Mapping[Property, Level]:
        """Levels of the properties that depend on more than the model."""
        s = self.settings
        compared = Level(s.scale.model, compared_on(s.scale).label, geometry=self.level.geometry)
        levels = {FORMATION_ENERGY: compared, E_ABOVE_KNOWN_PHASES: replace(compared, conditions=s.hull_condition)}
        if s.energies_file is not None:
            file_and_hash = f"{s.energies_file.name} {s.energies_file.sha256[:12]}"
            levels[E_ABOVE_HULL] = replace(compared, conditions=file_and_hash[:MAX_CONDITION])
        if s.second_model is not None:
            levels[ENERGY_SPREAD] = replace(self.level, conditions=f"against {s.second_model}")
        return levels

    def attach(self) -> None:
        super().attach()
        if self.settings.second_model is not None:
            self._loaded("cpu", model=self.settings.second_model)
        if self.settings.second_model is not None or compared_on(self.settings.scale) != self.settings.scale:
            load_correction()

    def accepts(self, candidate: Crystal) -> Refusal | None:
        refusal = super().accepts(candidate)
        if refusal is not None or not self._compares:
            return refusal
        fault = comparison_fault(candidate.species, self.settings.scale)
        if fault is not None:
            return Refusal(Reason.NO_CORRECTION, f"{fault}; `known_phases: none` relaxes the cell alone")
        file = self.settings.energies_file
        absent = set(candidate.species) - elements_alone(Path(file.path), file.sha256) if file is not None else set()
        if file is not None and absent:
            detail = f"{file.name} has no phase of {', '.join(sorted(absent))} alone, with which a hull begins"
            return Refusal(Reason.ELEMENT, detail)
        return None

    @property
    def _compares(self) -> bool:
        """Whether energies are compared with those of phases."""
        return self.settings.known_phases != "none" or self.settings.entries is not None

    def findings(
        self, batch: Sequence[Crystal], relaxed: Sequence[Relaxed], potential: Potential, context: Context
    ) -> Sequence[Finding]:
        converged = []
        for crystal, relaxation in zip(batch, relaxed, strict=True):
            if relaxation.fault is None:
                converged.append(crystal)
        phases = self._phases(potential, converged)
        second_values = self._second_values(relaxed)
        findings = []
        for crystal, relaxation, second in zip(batch, relaxed, second_values, strict=True):
            try:
                findings.append(self._finding(crystal, self.checked(relaxation), phases, second, context))
            except SimulatorError as error:
                findings.append(self.failed(crystal, error))
        return findings

    def _phases(self, potential: Potential, crystals: Sequence[Crystal]) -> PhasesOfBatch | None:
        """Returns the phases of the crystals' elements; None if the settings want no energies.

        Raises SimulatorError if the file of structures has changed."""
        if self.settings.known_phases == "none":
            return None
        if self.settings.structures_file is not None:
            self.settings.structures_file.check()
        systems = dict.fromkeys(frozenset(crystal.species) for crystal in crystals)
        structures = {}
        for name, structure in self.settings.structures.items():
            if any(system.issuperset(structure.species) for system in systems):
                structures[name] = structure
        own_phases = relaxed_structures(potential, self.settings.scale, structures)
        known = known_phases(
            potential,
            self.settings.scale,
            systems,
            binaries=self.settings.known_phases in HULLS,
            further=self.settings.known_phases == "prototypes",
        )
        hull = replace(known, phases=(*known.phases, *own_phases))
        relaxed_names = {phase.name for phase in own_phases}
        unrelaxed = {name: set(each.species) for name, each in structures.items() if name not in relaxed_names}
        return PhasesOfBatch(known, hull, unrelaxed)

    def _not_compared(self, symbols: set[str], phases: PhasesOfBatch) -> str:
        """Returns in words what a crystal of these elements was not compared with."""
        settings = self.settings
        if settings.known_phases in HULLS:
            lacking = not_compared(len(symbols), with_ternaries=settings.known_phases == "prototypes")
        else:
            lacking = "compounds"
        if settings.structures_file is not None:
            lacking += f", apart from those of {settings.structures_file.name}"
        unrelaxed = [name for name, elements in phases.unrelaxed.items() if elements <= symbols]
        if unrelaxed:
            lacking += f"; of these {', '.join(unrelaxed[:MAX_SHOWN_PHASES])} did not relax ({len(unrelaxed)} in all)"
        return lacking

    def _second_values(self, relaxed: Sequence[Relaxed]) -> Sequence[PotentialValues | None]:
        """Returns the second model's values at each relaxed cell, in order.

        They are None without a second model, and for a relaxation that has failed."""
        values: list[PotentialValues | None] = [None] * len(relaxed)
        if self.settings.second_model is None:
            return values
        second_potential = self._loaded(available_device(), model=self.settings.second_model)
        converged = [index for index, relaxation in enumerate(relaxed) if relaxation.fault is None]
        evaluations = evaluate(second_potential, [relaxed[index].atoms for index in converged])
        for index, evaluation in zip(converged, evaluations, strict=True):
            values[index] = evaluation
        return values

    def _finding(
        self,
        crystal: Crystal,
        relaxation: Relaxed,
        phases: PhasesOfBatch | None,
        second: PotentialValues | None,
        context: Context,
    ) -> Finding:
        structure = structure_of(relaxation)
        energy = Energy(relaxation.energy_per_atom, self.settings.scale)
        compared = on_mp2020(energy, structure) if self._compares else energy
        amounts = structure.composition.get_el_amt_dict()
        values: dict[Property, float] = {
            VOLUME_PER_ATOM: structure.volume / len(structure),
            DENSITY: float(structure.density),
        }
        facts: dict[str, Any] = {"energy_per_atom": energy.per_atom, "energy_scale": self.settings.scale.label}
        if compared != energy:
            facts |= {"compared_energy_per_atom": compared.per_atom, "compared_energy_scale": compared.scale.label}
        if phases is not None:
            values[FORMATION_ENERGY] = phases.known.formation_energy(amounts, compared)
            if self.settings.hull_condition:
                values[E_ABOVE_KNOWN_PHASES], shares = phases.hull.energy_above(amounts, compared)
                facts["decomposes_into"] = _largest_shares(shares)
                facts["not_compared_with"] = self._not_compared(set(amounts), phases)
        if self.settings.energies_file is not None:
            hull = phases_of(self.settings.energies_file, self.settings.scale)
            values[E_ABOVE_HULL], shares = hull.energy_above(amounts, compared)
            facts["hull_decomposes_into"] = _largest_shares(shares)
            file = self.settings.energies_file
            facts["hull_entries_left_out"] = read_entries(Path(file.path), file.sha256).left_out
        if second is not None and self.settings.second_model is not None:
            second_scale = potential_factory(self.settings.second_model).scale
            other = Energy(second.energy / len(structure), second_scale)
            # one model may contain the MP2020 correction and the other not
            values[ENERGY_SPREAD] = model_difference(on_mp2020(energy, structure), on_mp2020(other, structure))
        cell = conventional_cell(structure)
        values |= _lattice_constants(cell)
        remark = WEAK_LAYERS if any(soft_vectors(cell.structure)) else ""
        rows = self.measured(values, self._levels, lattice_errors(cell, relaxation.last_strain))
        return self.calculated(crystal, context, rows, relaxation, facts, cell, remark)


@dataclass(frozen=True)
class PhasesOfBatch:
    """The phases with which the crystals of a batch are compared."""

    known: KnownPhases
    """Elements and decorated prototypes."""
    hull: KnownPhases
    """These and the structures of the user's file."""
    unrelaxed: Mapping[str, set[str]]
    """Elements of the structures of the file that did not relax, by name."""


def _lattice_constants(cell: ConventionalCell) -> dict[Property, float]:
    """Returns the lengths (angstrom) and the angles (degrees)."""
    found = cell.constants
    lengths = dict(zip(LENGTHS, (found.a, found.b, found.c), strict=True))
    return lengths | dict(zip(ANGLES, (found.alpha, found.beta, found.gamma), strict=True))


def lattice_errors(cell: ConventionalCell, last_strain: float) -> Mapping[Property, float | None]:
    """Returns the standard uncertainties of a relaxed cell: of lattice constants in angstrom and degrees, of the volume
    in angstrom**3 an atom, of the density in g/cm**3.

    last_strain: of the relaxation, without unit. None stands for an uncertainty that is not known: of a length along
    which no bonds run, and of volume, density and free angles of such a cell.
    """
    relative = math.hypot(OF_LAST_STRAIN * last_strain, SMALLEST_ERROR)
    soft = soft_vectors(cell.structure)
    errors: dict[Property, float | None] = {}
    lengths = (cell.constants.a, cell.constants.b, cell.constants.c)
    for prop, length, is_soft in zip(LENGTHS, lengths, soft, strict=True):
        errors[prop] = None if is_soft else length * relative
    for prop in ANGLES:
        is_free = prop.name.removeprefix("lattice_") in cell.free_angles
        errors[prop] = math.degrees(ANGLE_OVER_LENGTH * relative) if is_free else 0.0
    of_volume = math.sqrt(3) * relative  # three lengths
    errors[VOLUME_PER_ATOM] = of_volume * cell.structure.volume / len(cell.structure)
    errors[DENSITY] = of_volume * float(cell.structure.density)
    if any(soft):
        for prop in (VOLUME_PER_ATOM, DENSITY, *ANGLES):
            errors[prop] = None if errors[prop] else errors[prop]
    return errors


def _largest_shares(shares: Mapping[str, float]) -> dict[str, float]:
    """Returns the MAX_SHOWN_PHASES phases with the largest shares of atoms, largest first."""
    largest_first = sorted(shares.items(), key=lambda name_and_share: -name_and_share[1])
    return dict(largest_first[:MAX_SHOWN_PHASES])
