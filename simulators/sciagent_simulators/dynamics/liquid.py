"""A liquid in a periodic box: density, heat of vaporisation, self-diffusion, pair distributions, and their series.

The liquid is a pure one, or one molecule dissolved in water. Each replica is a box of its own that is packed below the
density of the liquid and run at constant pressure; one molecule without surroundings is the gas; diffusion is taken
from runs at the mean density with hardly any thermostat. All of them are chains of chunks, so that a run that was ended
goes on where it was. The boxes run one after the other, since the barostats of all OpenMM contexts of a process draw
from one generator: side by side in threads they would not have the same bits again.

The heat of vaporisation is the mean potential energy of a molecule in the gas minus that in the liquid, plus RT. It has
no correction for the polarisation of a molecule by its neighbours or for the quantum nature of vibrations, and the gas
is ideal. The diffusion in a solution is that of the one dissolved molecule, relative to the centre of the box. The
uncertainties are repeatability (k = 1) and hold no error of the force field.

Source: heat of vaporisation: Horn et al., J. Chem. Phys. 120, 9665 (2004), eq. 1 without corrections.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent_simulators.dynamics.box_of_liquid import AtomPairs, LiquidBox
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
from sciagent_simulators.force_fields.openmm_system import Portion, build
from sciagent_simulators.geometry_and_its_checks import failure

Array = NDArray[np.float64]
Advance = Callable[[Sequence[ChunkChain], str, float], None]
"""Runs the chains of all replicas: takes their name in the progress and the work of each, in chunks of a box."""

STEPS = 5000  # of a chunk
TIME_STEP = 0.002  # ps, with bonds to hydrogen constrained
CHUNK_NS = STEPS * TIME_STEP / 1000
SAMPLE_EVERY = 50  # steps
FRAME_EVERY = 500  # steps; in twice as many some molecule moves by a quarter of a small box
FRAME_EVERY_IN_WATER = 250  # steps; water moves faster
DIFFUSION_FRICTION = 0.02  # 1/ps, so little that diffusion is not slowed
GAS_CHUNKS = 8  # of each replica
BOILED_SHARE = 0.45  # of the estimated density, below which the box is no liquid any more
SETTLED_CHUNK = 3  # from which the density is looked at
MIN_FLOW = 1.5  # angstrom^2 by which the centres of a liquid move on average within half of its production


@dataclass(frozen=True)
class LiquidProtocol:
    """The state of a liquid, the length of its runs, and the quantities that are wanted."""

    temperature: float
    """K."""
    pressure: float
    """bar."""
    equilibration_chunks: int
    production_chunks: int
    replicas: int
    vaporisation: bool
    viscosity: float | None
    """Pa s, with which diffusion is corrected for the size of the box; None: no diffusion."""
    pairs: tuple[AtomPairs, ...] = ()
    """Pairs of atoms whose distribution between molecules is taken."""
    threads: int = 1
    """Threads of OpenMM on a CPU."""
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
    liquid_energy: ReplicaMean | None
    """Potential energy of the liquid for each of its molecules, kJ/mol; None if no heat of vaporisation is wanted."""
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
    """(n,), ps since the start, of densities and energies."""
    densities: tuple[Array, ...]
    """For each replica (n,), g/mL, equilibration included."""
    energies: tuple[Array, ...]
    """For each replica (n,), potential energy of the liquid for each of its molecules, kJ/mol, equilibration
    included."""
    displacements: tuple[Array, ...]
    """For each replica the mean squared displacement at constant volume, (f,), angstrom^2; empty without diffusion."""
    frame_interval: float
    """ps from one displacement to the next."""
    molecules: int
    edge: float
    """Mean edge of the box, angstrom."""


class LiquidSimulation:
    """The runs of one liquid, whose chains lie in a folder."""

    def __init__(self, box: LiquidBox, protocol: LiquidProtocol, folder: Path, key: str) -> None:
        """box: of a pure liquid, or of a solution, which has no heat of vaporisation. Each replica of the gas starts
        from another conformer. key: of all that is computed; seeds follow from it.

        Raises ValueError for the heat of vaporisation of a solution."""
        if protocol.vaporisation and not box.is_pure:
            raise ValueError("a solution has no heat of vaporisation")
        self.box = box
        self.protocol = protocol
        self.folder = folder
        self.key = key
        self._done = 0.0
        self.frame_every = FRAME_EVERY if box.is_pure else FRAME_EVERY_IN_WATER

    def run(self, progress: Progress, deadline: float = math.inf) -> LiquidValues:
        """Runs all chains, or what is left of them, and returns the results.

        progress: takes amounts in chunks of a box. deadline: as for `ChunkChain.run`.
        Raises SimulatorError: not_converged (not_equilibrated); unstable (phase: it boiled, or does not flow;
        box_too_small, exploded); timeout (wall_limit); and what `pack` and `build` raise.
        """
        protocol = self.protocol
        self._done = 0.0
        advance = partial(self._advance, progress=progress, deadline=deadline)
        boxes = [self._box_run(replica) for replica in range(protocol.replicas)]
        chains = [self._chain(run, "box", replica, protocol.chunks) for replica, run in enumerate(boxes)]
        advance(chains, "box", protocol.chunks + 1)
        samples = [run.samples(chain) for run, chain in zip(boxes, chains, strict=True)]
        flow = self._flow(samples)
        gas = self._gas(advance) if protocol.vaporisation else None
        density = mean_of_replicas([self._produced(each.density) for each in samples], quantity="density")
        diffusion = None
        displacements: tuple[Array, ...] = ()
        if protocol.viscosity is not None:
            ends = [final_positions_and_box(chain.read(chain.length)) for chain in chains]
            diffusion, displacements = self._diffusion(ends, density.mean, advance)
        return self._values(samples, flow, density, gas, diffusion, displacements)

    def _advance(
        self, chains: Sequence[ChunkChain], name: str, weight: float, progress: Progress, deadline: float
    ) -> None:
        """Runs the chains of all replicas, and reports their progress as a part of all work. weight: work of each."""
        for number, chain in enumerate(chains, start=1):
            begun = self._done

            def report(done: float, of: float, detail: str, begun: float = begun, number: int = number) -> None:
                text = f"{name} {number} of {len(chains)}: {detail}"
                progress(begun + weight * done / of, self.protocol.work, text)

            chain.run(report, deadline)
            self._done = begun + weight

    def _values(
        self,
        samples: Sequence[DynamicsSamples],
        flow: float,
        density: ReplicaMean,
        gas: ReplicaMean | None,
        diffusion: SelfDiffusion | None,
        displacements: tuple[Array, ...],
    ) -> LiquidValues:
        energies = tuple(each.potential_energy / self.box.molecules for each in samples)
        energy = None
        vaporisation = None
        if gas is not None:
            energy = mean_of_replicas([self._produced(each) for each in energies], quantity="energy of the liquid")
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
            energies=energies,
            displacements=displacements,
            frame_interval=self.frame_every * TIME_STEP,
            molecules=self.box.molecules,
            edge=self.box.edge_at(density.mean),
        )

    def _box_run(self, replica: int) -> OpenMMRun:
        """Returns the run of a box at constant pressure, from molecules that are packed anew for each replica."""
        protocol = self.protocol
        positions, edge = self.box.packed(ChunkPlace(self.key, replica, 0).seed("packing"))
        settings = DynamicsSettings(
            temperature=protocol.temperature,
            pressure=protocol.pressure,
            time_step=TIME_STEP,
            steps=STEPS,
            sample_every=SAMPLE_EVERY,
            frame_every=self.frame_every,
            threads=protocol.threads,
            platform=protocol.platform,
        )
        return OpenMMRun(self.box.system, positions, settings, np.full(3, edge))

    def _chain(self, run: OpenMMRun, name: str, replica: int, length: int) -> ChunkChain:
        """Returns a chain of a run. That of a box ends as soon as the box has boiled."""

        def guarded_step(place: ChunkPlace, before: Members | None, report: Report) -> Members:
            members = run.step(place, before, report)
            if place.number >= SETTLED_CHUNK:
                self._check_boiled(members)
            return members

        step = guarded_step if name == "box" else run.step
        return ChunkChain(self.folder / f"{name}{replica}", f"{self.key} {name}", replica, length, step)

    def _check_boiled(self, members: Members) -> None:
        volumes = loaded_array(members, "volume")
        edge = float(np.mean(volumes[-10:])) ** (1 / 3)
        estimate = self.box.estimate
        density = estimate * (self.box.edge_at(estimate) / edge) ** 3
        if density < BOILED_SHARE * estimate:
            raise failure(
                Reason.PHASE,
                f"it boiled: the box has {density:.3f} g/mL, and the liquid should have about {estimate:.2f}",
                density=density,
            )

    def _gas(self, advance: Advance) -> ReplicaMean:
        """Returns the mean potential energy of a molecule without surroundings, kJ/mol."""
        protocol = self.protocol
        [kind] = self.box.kinds
        system = build([Portion(kind.parameters, 1)], None).system
        settings = DynamicsSettings(
            temperature=protocol.temperature,
            time_step=TIME_STEP,
            steps=4 * STEPS,
            sample_every=SAMPLE_EVERY,
            platform="CPU",
        )
        runs = []
        for replica in range(protocol.replicas):
            runs.append(OpenMMRun(system, kind.conformers[replica % len(kind.conformers)], settings))
        chains = [self._chain(run, "gas", replica, GAS_CHUNKS) for replica, run in enumerate(runs)]
        advance(chains, "gas", 1.0)
        energies = [run.samples(chain).potential_energy for run, chain in zip(runs, chains, strict=True)]
        return mean_of_replicas(energies, quantity="energy of the gas")

    def _diffusion(
        self, ends: Sequence[tuple[Array, Array]], density: float, advance: Advance
    ) -> tuple[SelfDiffusion, tuple[Array, ...]]:
        """Returns the self-diffusion, corrected for the box, and the mean squared displacements of the replicas. In a
        solution they are those of the solute.

        ends: positions and edges at the ends of the boxes at constant pressure."""
        protocol = self.protocol
        settings = DynamicsSettings(
            temperature=protocol.temperature,
            friction=DIFFUSION_FRICTION,
            time_step=TIME_STEP,
            steps=STEPS,
            sample_every=SAMPLE_EVERY,
            frame_every=self.frame_every,
            threads=protocol.threads,
            platform=protocol.platform,
        )
        edge = self.box.edge_at(density)
        runs = []
        for positions, box in ends:
            scaled = self.box.scaled(positions, edge / float(box[0]))
            runs.append(OpenMMRun(self.box.system, scaled, settings, np.full(3, edge)))
        chains = [self._chain(run, "nvt", replica, protocol.production_chunks) for replica, run in enumerate(runs)]
        advance(chains, "diffusion", protocol.production_chunks + 1)
        weights = self.box.molecule_masses / self.box.molecule_masses[0]
        chosen = None if self.box.is_pure else range(self.box.kinds[0].count)
        displacements = []
        for run, chain in zip(runs, chains, strict=True):
            centres = molecule_centres(self._frames([run.samples(chain)]), self.box.masses)
            displacements.append(mean_squared_displacement(centres, weights, chosen))
        raw = self_diffusion(displacements, self.frame_every * TIME_STEP)
        corrected = corrected_for_box(raw, protocol.temperature, np.full(3, edge), protocol.viscosity)
        return corrected, tuple(displacements)

    def _produced(self, values: Array | None) -> Array:
        """Returns the samples of a box after the chunks of its equilibration."""
        return _present(values)[self.protocol.equilibration_chunks * STEPS // SAMPLE_EVERY :]

    def _frames(self, samples: Sequence[DynamicsSamples], first: int = 0) -> BoxFrames:
        """Returns the frames of runs, one after the other, each from its frame `first` on."""
        positions = np.concatenate([_present(each.positions)[first:] for each in samples])
        boxes = np.concatenate([_present(each.boxes)[first:] for each in samples])
        return self.box.frames(positions, boxes)

    def _distributions(self, samples: Sequence[DynamicsSamples]) -> tuple[tuple[str, RadialDistribution], ...]:
        """Returns the distributions of the pairs over the production of all replicas."""
        if not self.protocol.pairs:
            return ()
        frames = self._frames(samples, self._first_frame)
        n_blocks = min(2 * len(samples), len(frames.positions))
        named = []
        for pair in self.protocol.pairs:
            first = self.box.atoms_at(pair.first)
            second = self.box.atoms_at(pair.second, of_last=True)
            found = radial_distribution(frames, first, second, n_blocks=n_blocks, between_molecules=True)
            named.append((pair.name, found))
        return tuple(named)

    @property
    def _first_frame(self) -> int:
        """The first frame of a box after its equilibration."""
        return self.protocol.equilibration_chunks * STEPS // self.frame_every

    def _flow(self, samples: Sequence[DynamicsSamples]) -> float:
        """Returns the mean squared displacement of the centres within half of the production, angstrom^2.

        Raises SimulatorError unstable (phase) for a box whose molecules stay where they are, as in a solid or a glass.
        """
        moved = []
        for each in samples:
            # whichever way a molecule went that crossed half of the box, it flows
            centres = molecule_centres(self._frames([each], self._first_frame), self.box.masses, math.inf)
            displacement = mean_squared_displacement(centres, np.ones(self.box.molecules))
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
