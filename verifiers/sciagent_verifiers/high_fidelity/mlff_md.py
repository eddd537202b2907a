"""The verifier `mlff.md`: whether a relaxed crystal keeps its structure at a temperature, and diffusion in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.crystals.conventional_cell_and_cif import conventional_cell
from sciagent.domain.evidence_keys_and_pooled_replicates import SIMULATION, UNCERTAINTY_KIND, content_hash
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.domain.properties_and_levels import NEIGHBOURS_KEPT, SELF_DIFFUSION, SITE_DISPLACEMENT
from sciagent.domain.series import Series, SeriesAxis, curve_series
from sciagent.verification.verifier_contract import (
    Context,
    Cost,
    Finding,
    Level,
    Outcome,
    Property,
    PropertyAtLevel,
    Reason,
    Refusal,
    SimulatorError,
    Tier,
    at,
)
from sciagent_simulators.dynamics.crystal_chain import (
    SAMPLE_EVERY,
    STEPS,
    CrystalProtocol,
    CrystalSimulation,
    CrystalValues,
    supercell,
)
from sciagent_simulators.dynamics.structure_and_diffusion import MIN_REPLICAS
from sciagent_simulators.potentials.potential_base_and_registry import Potential
from sciagent_simulators.potentials.relax_and_equation_of_state import Relaxed
from sciagent_verifiers.high_fidelity.series_of_simulations import (
    TIME,
    displacement_series,
    distribution_series,
    replica_columns,
    series_files,
)
from sciagent_verifiers.simulation.force_field_base import ForceField, ForceFieldSettings, structure_of

TIME_STEP = 2.0  # fs
TIME_STEP_WITH_HYDROGEN = 0.5  # fs
MAX_CURVES = 16  # of a series

Element = Annotated[str, Field(pattern=r"^[A-Z][a-z]?$")]


class MlffMdSettings(ForceFieldSettings):
    """The model, the relaxation before, the temperature, and the length of the simulations."""

    temperature: float = Field(300.0, ge=10, le=5000, description="In K.")
    picoseconds: float = Field(20.0, ge=0.1, le=10_000, description="Production of each replica.")
    equilibration: float = Field(2.0, ge=0, le=10_000, description="Picoseconds before the production.")
    replicas: int = Field(3, ge=1, le=8, description="Runs with velocities of their own.")
    supercell: float = Field(
        10.0, ge=5, le=60, description="Least distance of opposite faces of the supercell, in angstrom."
    )
    max_supercell: int = Field(
        256, ge=2, le=5000, description="Crystals whose supercell has more atoms are refused; raise it on a GPU."
    )
    rdf: tuple[tuple[Element, Element], ...] = omitted_if_unset(
        (), max_length=8, description="Pairs of elements whose distribution is kept as a series."
    )
    species: Element | None = omitted_if_unset(
        None, description="Element whose self-diffusion is computed; all others are the framework that must stay."
    )
    time_step: float | None = omitted_if_unset(
        None, gt=0, le=10, description=f"In fs; default: {TIME_STEP:g}, and {TIME_STEP_WITH_HYDROGEN:g} with hydrogen."
    )

    @model_validator(mode="after")
    def _diffusion_can_be_told(self) -> MlffMdSettings:
        if self.species is not None and self.replicas < MIN_REPLICAS:
            raise ValueError(
                f"the uncertainty of diffusion is the scatter of the replicas: state replicas: {MIN_REPLICAS} or more"
            )
        return self


class MlffMd(ForceField):
    """Whether a crystal keeps its structure at a temperature by a machine-learnt force field, and diffusion in it.

    Cell and positions are relaxed first. Then a supercell moves at constant volume with Langevin dynamics; each replica
    has velocities of its own. Neighbours are those of the relaxed crystal, and are kept while their distance is below
    1.4 times that in it. A crystal of which less than half of them are kept over a fifth of a picosecond ends as
    `phase`, at once: it melts, amorphises or becomes another phase. With `species` the neighbours are those of all
    other elements, and the self-diffusion of the species is computed.

    The supercell keeps its shape and does not expand with heat, and picoseconds are short: a crystal that does not hold
    here does not hold; one that does may still change in reality. Melting points follow from it as upper bounds only.
    Where fewer than ten atoms leave their sites, self-diffusion has no value, and the diagnostics say so.

    The uncertainty is the repeatability (k = 1): the larger of the scatter of the replicas and the correlations within
    them; that of diffusion is the scatter of the replicas, so it takes three. It holds no error of the force field.

    A night on a CPU, or a GPU: a step of 64 atoms takes 0.1 core-seconds with CHGNet, and three runs of 22 picoseconds
    take an hour. A run is a chain of files in the checkpoint folder: after a kill, or a limit that is raised, the next
    attempt goes on.

    Source: Deng et al., Nat. Mach. Intell. 5, 1031 (2023).
    """

    name = "mlff.md"
    version = "2"
    tier = Tier.HIGH_FIDELITY
    Settings = MlffMdSettings
    settings: MlffMdSettings
    together = 1
    stall_seconds = 900.0
    spread: ClassVar[Mapping[Property, float]] = {}  # each crystal has its own

    @cached_property
    def level(self) -> Level:
        s = self.settings
        lengths = f"{s.equilibration:g}+{s.picoseconds:g} ps x{s.replicas}, {s.supercell:g} angstrom"
        steps = "" if s.time_step is None else f", {s.time_step:g} fs"
        species = "" if s.species is None else f", {s.species}"
        scale = s.scale
        return Level(
            scale.model,
            scale.label,
            geometry=f"NVT {lengths}{steps}//relaxed to {s.fmax:g} eV/angstrom",
            conditions=f"{s.temperature:g} K{species}",
        )

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        diffusion = () if self.settings.species is None else (SELF_DIFFUSION,)
        return at(self.level, NEIGHBOURS_KEPT, SITE_DISPLACEMENT, *diffusion)

    def accepts(self, candidate: Crystal) -> Refusal | None:
        refusal = super().accepts(candidate)
        if refusal is not None:
            return refusal
        species = self.settings.species
        if species is not None and species not in candidate.species:
            return Refusal(Reason.ELEMENT, f"{candidate.formula} has no {species}, whose diffusion is asked for")
        n_atoms = supercell_size(candidate, self.settings.supercell)
        if n_atoms > self.settings.max_supercell:
            hours = self.cost(candidate)["core_seconds"] / 3600
            return Refusal(
                Reason.TOO_LARGE,
                f"{n_atoms} atoms in the supercell; the limit is {self.settings.max_supercell} (max_supercell). They "
                f"would take about {hours:.2g} core-hours",
            )
        return None

    def cost(self, candidate: Crystal) -> Cost:
        """Returns the cost of the relaxation and of all steps on a CPU."""
        protocol = self._protocol(candidate.species)
        evaluations = protocol.replicas * protocol.chunks * (STEPS + 1)
        n_atoms = supercell_size(candidate, self.settings.supercell)
        return super().cost(candidate) + Cost(core_seconds=evaluations * n_atoms * self.seconds)

    def _protocol(self, elements: Sequence[str]) -> CrystalProtocol:
        s = self.settings
        time_step = s.time_step
        if time_step is None:
            time_step = TIME_STEP_WITH_HYDROGEN if "H" in elements else TIME_STEP
        picoseconds = STEPS * time_step / 1000
        return CrystalProtocol(
            temperature=s.temperature,
            time_step=time_step,
            equilibration_chunks=round(s.equilibration / picoseconds),
            production_chunks=max(1, round(s.picoseconds / picoseconds)),
            replicas=s.replicas,
            species=s.species,
            pairs=tuple(pair for pair in s.rdf if set(pair) <= set(elements)),
        )

    def findings(
        self, batch: Sequence[Crystal], relaxed: Sequence[Relaxed], potential: Potential, context: Context
    ) -> Sequence[Finding]:
        findings = []
        for crystal, relaxation in zip(batch, relaxed, strict=True):
            try:
                findings.append(self._finding(crystal, self.checked(relaxation), potential, context))
            except SimulatorError as error:
                findings.append(self.failed(crystal, error))
        return findings

    def _finding(self, crystal: Crystal, relaxation: Relaxed, potential: Potential, context: Context) -> Finding:
        key = content_hash([crystal.key, context.settings_hash or self.settings_hash, context.replicate])
        folder = context.checkpoint / key[:16]
        atoms = supercell_of(structure_of(relaxation), self.settings.supercell)
        protocol = self._protocol(crystal.species)
        simulation = CrystalSimulation(potential, atoms, protocol, folder, key)
        values = simulation.run(context.progress, context.deadline)
        found = {NEIGHBOURS_KEPT: values.kept, SITE_DISPLACEMENT: values.displacement}
        if values.diffusion is not None:
            found[SELF_DIFFUSION] = (values.diffusion.uncorrected, values.diffusion.uncertainty)
        rows = self.measured(
            {prop: value for prop, (value, _) in found.items()},
            levels={},
            spreads={prop: uncertainty for prop, (_, uncertainty) in found.items()},
        )
        diagnostics: dict[str, Any] = {
            "supercell_atoms": len(atoms),
            "time_step_fs": protocol.time_step,
            "mean_temperature": values.temperature.mean,
            "mean_temperature_uncertainty": values.temperature.uncertainty,
            "thermal_energy_ev_per_atom": values.energy.mean,
            "relaxation_steps": relaxation.steps,
            UNCERTAINTY_KIND: {row.property: SIMULATION for row in rows},
        }
        if self.settings.species is not None:
            diagnostics["atoms_that_left_their_sites"] = values.hops
        if values.diffusion is not None:
            diagnostics["diffusion_of_replicas"] = list(values.diffusion.replicas)
            diagnostics["diffusion_exponents"] = list(values.diffusion.exponents)
        if values.no_diffusion:
            diagnostics["no_self_diffusion"] = values.no_diffusion
        files = series_files(series_of_crystal(values, protocol, crystal.text), context.scratch, crystal.key[:16])
        detail = f"no self-diffusion: {values.no_diffusion}" if values.no_diffusion else ""
        return Finding(crystal.key, Outcome.OK, rows, detail=detail, diagnostics=diagnostics, artifacts=files)


@lru_cache(maxsize=4096)
def supercell_size(crystal: Crystal, width: float) -> int:
    """Returns the number of atoms of a crystal's supercell before it is relaxed."""
    return len(supercell_of(crystal.structure, width))


def supercell_of(structure: Any, width: float) -> Any:
    """Returns the smallest supercell of the primitive or the conventional cell whose faces are `width` angstrom apart,
    an ase.Atoms."""
    from pymatgen.io.ase import AseAtomsAdaptor

    cells = (structure, conventional_cell(structure).structure)
    return supercell([AseAtomsAdaptor.get_atoms(cell, msonable=False) for cell in cells], width)


def series_of_crystal(values: CrystalValues, protocol: CrystalProtocol, title: str) -> Mapping[str, Series]:
    """Returns the series of the results by name: neighbours kept, temperature, displacements by element, and the pair
    distributions."""
    records = values.records
    times = (SAMPLE_EVERY * protocol.time_step / 1000 * np.arange(1, len(records[0].kept) + 1)).tolist()
    kept = SeriesAxis(name="kept", meaning="share of neighbours that are kept")
    kept_columns = replica_columns([record.kept for record in records])
    temperature = SeriesAxis(name="temperature", meaning="kinetic temperature", unit="K")
    temperature_columns = replica_columns([record.temperatures for record in records])
    squares = dict(list(values.squared_displacements.items())[:MAX_CURVES])
    by_element = {symbol.lower(): curve.tolist() for symbol, curve in squares.items()}
    return {
        "neighbours": curve_series(f"neighbours kept in {title}", TIME, kept, times, kept_columns),
        "temperature": curve_series(f"temperature of {title}", TIME, temperature, times, temperature_columns),
        "displacement": displacement_series(title, protocol.frame_interval, by_element),
        **distribution_series(values.distributions, title, "pair distribution"),
    }
