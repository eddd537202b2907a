"""A pure liquid in a periodic box: density, heat of vaporisation, self-diffusion and pair distributions.

Each replica is a box of its own that is packed below the density of the liquid and run at constant pressure; one
molecule without surroundings is the gas; diffusion is taken from runs at the mean density with hardly any thermostat.
All of them are chains of chunks, so that a run that was ended goes on where it was.

The heat of vaporisation is the mean potential energy of a molecule in the gas minus that in the liquid, plus RT. It has
no correction for the polarisation of a molecule by its neighbours or for the quantum nature of vibrations, and the gas
is ideal. The uncertainties are repeatability (k = 1) and hold no error of the force field.

Sources: heat of vaporisation: Horn et al., J. Chem. Phys. 120, 9665 (2004), eq. 1 without corrections. Starting
density: Girolami, J. Chem. Educ. 71, 962 (1994), without its terms for hydrogen bonds and rings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent_simulators.dynamics.chunks import ChunkChain, ChunkPlace, Members, Progress, Report, loaded_array
from sciagent_simulators.dynamics.openmm_chain import (
    GAS_CONSTANT,
    DynamicsSamples,
    DynamicsSettings,
    OpenMMRun,
    final_positions_and_box,
)
from sciagent_simulators.dynamics.series_statistics import ReplicaMean, mean_of_replicas
from sciagent_simulators.dynamics.structure_and_diffusion import (
    BoxFrames,
    RadialDistribution,
    SelfDiffusion,
    corrected_for_box,
    mean_squared_displacement,
    molecule_centres,
    radial_distribution,
    self_diffusion,
)
from sciagent_simulators.force_fields.molecule_parameters import MoleculeParameters
from sciagent_simulators.force_fields.openmm_system import Portion, build
from sciagent_simulators.force_fields.packed_box import PackedKind, edge_at_density, pack
from sciagent_simulators.geometry_and_its_checks import failure

Array = NDArray[np.float64]

STEPS = 5000  # of a chunk
TIME_STEP = 0.002  # ps, with bonds to hydrogen constrained
CHUNK_NS = STEPS * TIME_STEP / 1000
SAMPLE_EVERY = 50  # steps
FRAME_EVERY = 500  # steps; in twice as many some molecule moves by a quarter of a small box
DIFFUSION_FRICTION = 0.02  # 1/ps, so little that diffusion is not slowed
GAS_CHUNKS = 8  # of each replica
PACKED_SHARE = 0.6  # of the estimated density, at which the boxes are packed
BOILED_SHARE = 0.45  # of the estimated density, below which the box is no liquid any more
SETTLED_CHUNK = 3  # from which the density is looked at
MIN_FLOW = 1.5  # angstrom^2 by which the centres of a liquid move on average within half of its production
RELATIVE_VOLUMES = ((2, 1.0), (9, 2.0), (17, 4.0), (35, 5.0), (53, 7.5))
"""(largest atomic number, volume of the atom), in units of 5 cm3/mol, by Girolami."""


@dataclass(frozen=True)
class LiquidProtocol:
    """The state of a liquid, the length of its runs, and the quantities that are wanted."""

    temperature: float
    """K."""
    pressure: float
    """bar."""
    edge: float
    """Edge of the box that is aimed at, angstrom."""
    equilibration_chunks: int
    production_chunks: int
    replicas: int
    vaporisation: bool
    viscosity: float | None
    """Pa s, with which diffusion is corrected for the size of the box; None: no diffusion."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Pairs of elements whose distribution between molecules is taken."""
    threads: int = 1
    platform: str | None = None

    @property
    def chunks(self) -> int:
        """Chunks of a replica at constant pressure."""
        return self.equilibration_chunks + self.production_chunks

    @property
    def work(self) -> float:
        """All work, in chunks of a box."""
        rest = 1.0 * self.vaporisation
        if self.viscosity is not None:
            rest += self.production_chunks + 1
        return self.replicas * (self.chunks + 1 + rest)


@dataclass(frozen=True, eq=False)
class LiquidValues:
    """The results on a liquid."""

    density: ReplicaMean
    """g/mL."""
    liquid_energy: ReplicaMean
    """Potential energy of a molecule in the liquid, kJ/mol."""
    gas_energy: ReplicaMean | None
    """Potential energy of a molecule in the gas, kJ/mol; None if it is not wanted."""
    vaporisation: tuple[float, float] | None
    """Heat of vaporisation and its uncertainty, kJ/mol."""
    diffusion: SelfDiffusion | None
    distributions: tuple[tuple[str, RadialDistribution], ...]
    """(name, distribution) of each pair, such as `O-O`."""
    flow: float
    """Mean squared displacement of the centres within half of the production, angstrom^2."""
    times: Array
    """(n,), ps since the start, of the densities."""
    densities: tuple[Array, ...]
    """For each replica (n,), g/mL, equilibration included."""
    displacements: tuple[Array, ...]
    """For each replica the mean squared displacement at constant volume, (f,), angstrom^2; empty without diffusion."""
    molecules: int
    edge: float
    """Mean edge of the box, angstrom."""


def estimated_density(numbers: Sequence[int], masses: Sequence[float]) -> float:
    """Returns an estimate of a liquid's density, g/mL, good to about 20 percent, from the atoms of a molecule.

    numbers: atomic numbers up to 53. masses: of the atoms, dalton."""
    volume = 0.0
    for number in numbers:
        volume += next(size for largest, size in RELATIVE_VOLUMES if number <= largest)
    return sum(masses) / (5 * volume)


def molecules_in(edge: float, numbers: Sequence[int], masses: Sequence[float]) -> int:
    """Returns the number of molecules, with these atoms, of a liquid of the estimated density in a box with this edge,
    angstrom."""
    one = edge_at_density([sum(masses)], [1], estimated_density(numbers, masses)) * 10
    return max(1, round((edge / one) ** 3))


class LiquidSimulation:
    """The runs of one liquid, whose chains lie in a folder."""

    def __init__(
        self, parameters: MoleculeParameters, conformers: Array, protocol: LiquidProtocol, folder: Path, key: str
    ) -> None:
        """conformers: c x n x 3, angstrom; each replica of the gas starts from another.
        key: of all that is computed; seeds follow from it."""
        self.parameters = parameters
        self.conformers = conformers
        self.protocol = protocol
        self.folder = folder
        self.key = key
        self.numbers = tuple(atom.number for atom in parameters.atoms)
        self.masses = tuple(atom.mass for atom in parameters.atoms)
        self.molecules = molecules_in(protocol.edge, self.numbers, self.masses)
        self.estimate = estimated_density(self.numbers, self.masses)
        self._done = 0.0

    @cached_property
    def _system(self) -> object:
        edge = edge_at_density([sum(self.masses)], [self.molecules], self.estimate)
        return build([Portion(self.parameters, self.molecules)], edge).system

    def run(self, progress: Progress, deadline: float = math.inf) -> LiquidValues:
        """Runs all chains, or what is left of them, and returns the results.

        progress: takes amounts in chunks of a box. deadline: as for `ChunkChain.run`.
        Raises SimulatorError: not_converged (not_equilibrated); unstable (phase: it boiled, or does not flow;
        box_too_small, exploded); timeout (wall_limit); and what `pack` and `build` raise.
        """
        protocol = self.protocol
        self._done = 0.0
        boxes = []
        for replica in range(protocol.replicas):
            run = self._box_run(replica)
            chain = self._chain(run, f"box{replica}", replica, protocol.chunks, guarded=True)
            self._advance(chain, f"box {replica + 1} of {protocol.replicas}", protocol.chunks + 1, progress, deadline)
            boxes.append((run, chain))
        samples = [run.samples(chain) for run, chain in boxes]
        flow = self._flow(samples)
        gas = self._gas(progress, deadline) if protocol.vaporisation else None
        density = mean_of_replicas([self._produced(each.density) for each in samples], quantity="density")
        diffusion = None
        displacements: tuple[Array, ...] = ()
        if protocol.viscosity is not None:
            ends = [final_positions_and_box(chain.read(chain.length)) for _, chain in boxes]
            diffusion, displacements = self._diffusion(ends, density.mean, progress, deadline)
        return self._values(samples, flow, density, gas, diffusion, displacements)

    def _values(
        self,
        samples: Sequence[DynamicsSamples],
        flow: float,
        density: ReplicaMean,
        gas: ReplicaMean | None,
        diffusion: SelfDiffusion | None,
        displacements: tuple[Array, ...],
    ) -> LiquidValues:
        energies = [self._produced(each.potential_energy) / self.molecules for each in samples]
        energy = mean_of_replicas(energies, quantity="energy of the liquid")
        vaporisation = None
        if gas is not None:
            value = gas.mean - energy.mean + GAS_CONSTANT * self.protocol.temperature
            vaporisation = (value, math.hypot(gas.uncertainty, energy.uncertainty))
        return LiquidValues(
            density=density,
            liquid_energy=energy,
            gas_energy=gas,
            vaporisation=vaporisation,
            diffusion=diffusion,
            distributions=self._distributions(samples),
            flow=flow,
            times=samples[0].time,
            densities=tuple(_present(each.density) for each in samples),
            displacements=displacements,
            molecules=self.molecules,
            edge=self._edge_at(density.mean),
        )

    def _edge_at(self, density: float) -> float:
        """Returns the edge of the box, angstrom, at a density, g/mL."""
        return 10 * edge_at_density([sum(self.masses)], [self.molecules], density)

    def _box_run(self, replica: int) -> OpenMMRun:
        """Returns the run of a box at constant pressure, from molecules that are packed anew for each replica."""
        protocol = self.protocol
        kind = PackedKind(self.numbers, self.conformers / 10, self.molecules)
        edge = self._edge_at(PACKED_SHARE * self.estimate)
        seed = ChunkPlace(self.key, replica, 0).seed("packing")
        positions = 10 * pack([kind], edge / 10, seed)
        settings = DynamicsSettings(
            temperature=protocol.temperature,
            pressure=protocol.pressure,
            time_step=TIME_STEP,
            steps=STEPS,
            sample_every=SAMPLE_EVERY,
            frame_every=FRAME_EVERY,
            threads=protocol.threads,
            platform=protocol.platform,
        )
        return OpenMMRun(self._system, positions, settings, np.full(3, edge))

    def _chain(self, run: OpenMMRun, name: str, replica: int, length: int, guarded: bool = False) -> ChunkChain:
        """Returns a chain of a run. guarded: whether it ends as soon as the box has boiled."""

        def guarded_step(place: ChunkPlace, before: Members | None, report: Report) -> Members:
            members = run.step(place, before, report)
            if place.number >= SETTLED_CHUNK:
                self._check_boiled(members)
            return members

        step = guarded_step if guarded else run.step
        return ChunkChain(self.folder / name, f"{self.key} {name[:3]}", replica, length, step)

    def _check_boiled(self, members: Members) -> None:
        volumes = loaded_array(members, "volume")
        edge = float(np.mean(volumes[-10:])) ** (1 / 3)
        density = self.estimate * (self._edge_at(self.estimate) / edge) ** 3
        if density < BOILED_SHARE * self.estimate:
            raise failure(
                Reason.PHASE,
                f"it boiled: the box has {density:.3f} g/mL, and the liquid should have about {self.estimate:.2f}",
                density=density,
            )

    def _advance(self, chain: ChunkChain, text: str, weight: float, progress: Progress, deadline: float) -> None:
        """Runs a chain, and reports its progress as a part of all work. weight: work of the chain."""
        begun = self._done

        def report(done: float, of: float, detail: str) -> None:
            progress(begun + weight * done / of, self.protocol.work, f"{text}: {detail}")

        chain.run(report, deadline)
        self._done = begun + weight

    def _gas(self, progress: Progress, deadline: float) -> ReplicaMean:
        """Returns the mean potential energy of a molecule without surroundings, kJ/mol."""
        protocol = self.protocol
        system = build([Portion(self.parameters, 1)], None).system
        settings = DynamicsSettings(
            temperature=protocol.temperature,
            time_step=TIME_STEP,
            steps=4 * STEPS,
            sample_every=SAMPLE_EVERY,
            platform="CPU",
        )
        energies = []
        for replica in range(protocol.replicas):
            run = OpenMMRun(system, self.conformers[replica % len(self.conformers)], settings)
            chain = self._chain(run, f"gas{replica}", replica, GAS_CHUNKS)
            self._advance(chain, f"gas {replica + 1} of {protocol.replicas}", 1.0, progress, deadline)
            energies.append(run.samples(chain).potential_energy)
        return mean_of_replicas(energies, quantity="energy of the gas")

    def _diffusion(
        self, ends: Sequence[tuple[Array, Array]], density: float, progress: Progress, deadline: float
    ) -> tuple[SelfDiffusion, tuple[Array, ...]]:
        """Returns the self-diffusion, corrected for the box, and the mean squared displacements of the replicas.

        ends: positions and edges at the ends of the boxes at constant pressure."""
        protocol = self.protocol
        settings = DynamicsSettings(
            temperature=protocol.temperature,
            friction=DIFFUSION_FRICTION,
            time_step=TIME_STEP,
            steps=STEPS,
            sample_every=SAMPLE_EVERY,
            frame_every=FRAME_EVERY,
            threads=protocol.threads,
            platform=protocol.platform,
        )
        edge = self._edge_at(density)
        displacements = []
        for replica, (positions, box) in enumerate(ends):
            scaled = self._scaled(positions, edge / float(box[0]))
            run = OpenMMRun(self._system, scaled, settings, np.full(3, edge))
            chain = self._chain(run, f"nvt{replica}", replica, protocol.production_chunks)
            text = f"diffusion {replica + 1} of {protocol.replicas}"
            self._advance(chain, text, protocol.production_chunks + 1, progress, deadline)
            frames = self._frames([run.samples(chain)])
            masses = np.tile(self.masses, self.molecules)
            centres = molecule_centres(frames, masses)
            displacements.append(mean_squared_displacement(centres, np.ones(self.molecules)))
        raw = self_diffusion(displacements, FRAME_EVERY * TIME_STEP)
        corrected = corrected_for_box(raw, protocol.temperature, np.full(3, edge), protocol.viscosity)
        return corrected, tuple(displacements)

    def _scaled(self, positions: Array, factor: float) -> Array:
        """Returns the molecules, whole and not distorted, with their centres moved as a box that grows by a factor."""
        molecules = positions.reshape(self.molecules, len(self.masses), 3)
        centres = np.average(molecules, axis=1, weights=self.masses)
        moved: Array = molecules + (factor - 1) * centres[:, None]
        return moved.reshape(-1, 3)

    def _produced(self, values: Array | None) -> Array:
        """Returns the samples of a box after the chunks of its equilibration."""
        return _present(values)[self.protocol.equilibration_chunks * STEPS // SAMPLE_EVERY :]

    def _frames(self, samples: Sequence[DynamicsSamples], first: int = 0) -> BoxFrames:
        """Returns the frames of runs, one after the other, each from its frame `first` on."""
        from rdkit import Chem

        table = Chem.GetPeriodicTable()
        symbols = tuple(table.GetElementSymbol(number) for number in self.numbers)
        return BoxFrames(
            positions=np.concatenate([_present(each.positions)[first:] for each in samples]),
            boxes=np.concatenate([_present(each.boxes)[first:] for each in samples]),
            elements=symbols * self.molecules,
            molecules=tuple(np.repeat(np.arange(self.molecules), len(self.numbers)).tolist()),
        )

    def _distributions(self, samples: Sequence[DynamicsSamples]) -> tuple[tuple[str, RadialDistribution], ...]:
        """Returns the distributions of the pairs over the production of all replicas."""
        first = self.protocol.equilibration_chunks * STEPS // FRAME_EVERY
        named = []
        for one, other in self.protocol.pairs:
            frames = self._frames(samples, first)
            n_blocks = min(2 * len(samples), len(frames.positions))
            found = radial_distribution(frames, one, other, n_blocks=n_blocks, between_molecules=True)
            named.append((f"{one}-{other}", found))
        return tuple(named)

    def _flow(self, samples: Sequence[DynamicsSamples]) -> float:
        """Returns the mean squared displacement of the centres within half of the production, angstrom^2.

        Raises SimulatorError unstable (phase) for a box whose molecules stay where they are, as in a solid or a glass.
        """
        first = self.protocol.equilibration_chunks * STEPS // FRAME_EVERY
        masses = np.tile(self.masses, self.molecules)
        moved = []
        for each in samples:
            centres = molecule_centres(self._frames([each], first), masses)
            displacement = mean_squared_displacement(centres, np.ones(self.molecules))
            moved.append(float(displacement[len(displacement) // 2]))
        flow = float(np.mean(moved))
        if flow < MIN_FLOW:
            picoseconds = self.protocol.production_chunks * STEPS * TIME_STEP / 2
            raise failure(
                Reason.PHASE,
                f"it does not flow: in {picoseconds:g} ps the molecules moved by {math.sqrt(flow):.2f} angstrom, as in "
                "a solid, a glass or a liquid that is too viscous for this time",
                displacement=flow,
            )
        return flow


def _present(values: Array | None) -> Array:
    """Returns an array of a periodic run, which is always there."""
    if values is None:
        raise ValueError("the run has no such samples")
    return values
