"""A crystal at a temperature by a potential: whether it keeps its structure, how far its atoms move, and diffusion.

A supercell of a relaxed crystal moves at constant volume with the Langevin dynamics of ASE. Each replica is a chain of
chunks with velocities of its own. Chunk k follows from the file of chunk k - 1 and a seed, so a run that was killed
goes on to the same bits wherever the potential gives the same bits at the same positions, as on a CPU with one thread.
Sums in another order, as of a calculator that keeps a list of neighbours, change the last digit; on a GPU the run goes
on within the statistical error.

The atoms start at their sites with velocities of twice the temperature, since half of the kinetic energy soon becomes
potential energy. The volume is that of the relaxed crystal: it does not expand with heat, and the supercell keeps its
shape. So a crystal that keeps its structure here may melt or change in reality, and it melts here later than there.

Two atoms of the framework are neighbours if one lies within 1.25 times the distance of the other's nearest neighbour.
A pair is kept while its distance is below 1.4 times that in the relaxed crystal. The framework is all atoms but those
of the mobile species; without a mobile species, or where nothing else is there, it is all atoms.

Source: the integrator: Vanden-Eijnden, Ciccotti, Chem. Phys. Lett. 429, 310 (2006), eq. 23.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent_simulators.dynamics.chunks import (
    ChunkChain,
    ChunkPlace,
    Members,
    Progress,
    Report,
    loaded_array,
    saved_array,
)
from sciagent_simulators.dynamics.series_statistics import ReplicaMean, mean_of_replicas
from sciagent_simulators.dynamics.structure_and_diffusion import (
    MIN_REPLICAS,
    BoxFrames,
    RadialDistribution,
    SelfDiffusion,
    mean_squared_displacement,
    radial_distribution,
    self_diffusion,
)
from sciagent_simulators.geometry_and_its_checks import failure
from sciagent_simulators.potentials.potential_base_and_registry import Numbers, Potential, PotentialValues
from sciagent_simulators.potentials.relax_and_equation_of_state import heights

Indices = NDArray[np.int_]

STEPS = 100  # of a chunk; another number is another trajectory
SAMPLE_EVERY = 5  # steps from one temperature, energy, share of neighbours and displacement to the next
FRAME_EVERY = 25  # steps from one frame of positions to the next
FRICTION = 1.0  # 1/ps, of the thermostat
NEAR = 1.25  # of the distance of the nearest neighbour, within which atoms are neighbours
FAR = 1.4  # of the distance in the relaxed crystal, from which a pair is no longer kept
LOST_SHARE = 0.5  # of the pairs; where fewer are kept over a chunk, the structure is lost
HOT = 10.0  # times the temperature, plus 1000 K, above which the atoms fly apart
HOP = 1.0  # angstrom by which the mean place of an atom moves if it left its site
MIN_HOPS = 10  # atoms of all replicas that left their sites, from which diffusion can be told
AVERAGED_SHARE = 0.1  # of the production, over which places are averaged
MAX_BIAS = 0.05  # of the temperature, by which the mean one may be off
MAX_REACH = 20.0  # angstrom within which the nearest neighbour is sought


@dataclass(frozen=True)
class CrystalProtocol:
    """The conditions and the length of the simulation of a crystal."""

    temperature: float
    """K."""
    time_step: float
    """fs."""
    equilibration_chunks: int
    production_chunks: int
    replicas: int = 3
    species: str | None = None
    """Symbol of the mobile species; None without one."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Pairs of elements of the crystal whose distribution is taken."""
    friction: float = FRICTION
    """Friction of the Langevin thermostat, 1/ps."""
    steps: int = STEPS
    """Steps of a chunk, a multiple of `frame_every`."""
    sample_every: int = SAMPLE_EVERY
    frame_every: int = FRAME_EVERY

    def __post_init__(self) -> None:
        numbers = (self.temperature, self.time_step, self.friction)
        if not (all(math.isfinite(number) and number > 0 for number in numbers) and self.time_step <= 10):
            raise ValueError("temperature, friction and time step are positive, the time step up to 10 fs")
        if self.equilibration_chunks < 0 or self.production_chunks < 1 or self.replicas < 1:
            raise ValueError("a simulation has a chunk of production and a replica at least")
        if self.steps % self.frame_every or self.steps % self.sample_every or self.steps < 1:
            raise ValueError(f"the {self.steps} steps of a chunk are no multiple of the steps between samples")

    @property
    def chunks(self) -> int:
        """Chunks of a replica."""
        return self.equilibration_chunks + self.production_chunks

    @property
    def frame_interval(self) -> float:
        """Time from one frame to the next, ps."""
        return self.frame_every * self.time_step / 1000


@dataclass(frozen=True, eq=False)
class NeighbourPairs:
    """The pairs of neighbours in a crystal whose atoms are at their sites."""

    first: Indices
    """(p,) an atom of each pair."""
    second: Indices
    """(p,) the other atom."""
    shifts: Numbers
    """p x 3, angstrom, by which the periodic image of the other atom is shifted."""
    distances: Numbers
    """(p,) angstrom."""

    def kept_share(self, positions: Numbers) -> float:
        """Returns the share of pairs whose distance is below 1.4 times that at the sites.

        positions: n x 3, angstrom, on continuous paths from the sites."""
        vectors = positions[self.second] + self.shifts - positions[self.first]
        lengths = np.sqrt(np.einsum("px,px->p", vectors, vectors))
        return float(np.mean(lengths < FAR * self.distances))


@dataclass(frozen=True, eq=False)
class CrystalRecord:
    """The series that a replica recorded in its production."""

    temperatures: Numbers
    """(s,) K, from the kinetic energy."""
    energies: Numbers
    """(s,) potential energy above that of the relaxed crystal, eV per atom."""
    kept: Numbers
    """(s,) share of the framework's pairs that are kept."""
    displacements: Numbers
    """(s,) root mean square distance of the framework's atoms from their sites, angstrom."""
    paths: Numbers
    """f x n x 3, of all atoms from their sites, angstrom, without the motion of the framework's centre."""


@dataclass(frozen=True, eq=False)
class CrystalValues:
    """The results on a crystal that kept its structure."""

    kept: tuple[float, float]
    """Share of the framework's pairs that are kept, and its uncertainty."""
    displacement: tuple[float, float]
    """Root mean square distance of the framework's atoms from their sites, and its uncertainty, angstrom."""
    temperature: ReplicaMean
    """K."""
    energy: ReplicaMean
    """Potential energy above that of the relaxed crystal, eV per atom."""
    diffusion: SelfDiffusion | None
    """Self-diffusion of the mobile species; None without one, or if it cannot be told."""
    no_diffusion: str
    """Why a diffusion coefficient that was asked for cannot be told; else empty."""
    hops: int
    """Atoms of the mobile species, over all replicas, that left their sites."""
    records: tuple[CrystalRecord, ...]
    """The record of each replica."""
    squared_displacements: Mapping[str, Numbers]
    """By element (f,) the mean squared displacement at each lag of frames, over all replicas, angstrom^2."""
    distributions: tuple[tuple[str, RadialDistribution], ...] = ()
    """(name, distribution) of each pair of elements, such as `Na-Cl`, over all replicas."""


def repeats(cell: Numbers, width: float) -> tuple[int, int, int]:
    """Returns how often a cell is repeated along each vector so that opposite faces are `width` angstrom apart."""
    counts = [max(1, math.ceil(width / height - 1e-6)) for height in heights(cell).tolist()]
    return (counts[0], counts[1], counts[2])


def supercell(cells: Sequence[Any], width: float) -> Any:
    """Returns the smallest supercell of one of several ase.Atoms of a crystal, whose faces are `width` angstrom apart.

    Of equal ones it is that of the last cell, such as a conventional one after a primitive one."""
    best = None
    for atoms in cells:
        counts = repeats(atoms.cell.array, width)
        size = len(atoms) * math.prod(counts)
        if best is None or size <= best[0]:
            best = (size, atoms, counts)
    if best is None:
        raise ValueError("a supercell needs a cell")
    return best[1].repeat(best[2])


def neighbour_pairs(atoms: Any, chosen: Indices) -> NeighbourPairs:
    """Returns the pairs of neighbours among chosen atoms of an ase.Atoms; none of an atom and its own image.

    Raises ValueError if there is none."""
    from ase.neighborlist import neighbor_list

    part = atoms[chosen]
    reach = 4.0
    while True:
        first, second, distances, shifts = neighbor_list("ijdS", part, reach)
        nearest = np.full(len(part), np.inf)
        np.minimum.at(nearest, first, distances)
        if NEAR * nearest.max() <= reach:
            break
        reach *= 1.5
        if reach > MAX_REACH:
            raise ValueError(f"an atom has no neighbour within {MAX_REACH:g} angstrom")
    is_near = distances <= NEAR * np.maximum(nearest[first], nearest[second])
    is_near &= first < second
    if not is_near.any():
        raise ValueError("the supercell has no two neighbours")
    offsets: Numbers = shifts[is_near] @ atoms.cell.array
    return NeighbourPairs(chosen[first[is_near]], chosen[second[is_near]], offsets, distances[is_near])


@dataclass(eq=False)
class _Forces:
    """The potential in the place of an ASE calculator."""

    potential: Potential
    last: PotentialValues = field(init=False)
    """Values of the last evaluation."""

    def get_forces(self, atoms: Any) -> Numbers:
        """Returns the forces, n x 3, eV/angstrom. Raises SimulatorError unstable (exploded)."""
        [self.last] = self.potential.evaluate([atoms])
        if not self.last.is_finite:
            raise failure(Reason.EXPLODED, "the potential gave an energy or a force that is no finite number")
        return self.last.forces


class CrystalSimulation:
    """The runs of one crystal, whose chains lie in a folder."""

    def __init__(self, potential: Potential, atoms: Any, protocol: CrystalProtocol, folder: Path, key: str) -> None:
        """atoms: the supercell of the relaxed crystal, an ase.Atoms. key: of all that is computed; seeds follow from
        it. Raises ValueError for a mobile species that is not there, and for a supercell without neighbours."""
        self.potential = potential
        self.atoms = atoms
        self.protocol = protocol
        self.folder = folder
        self.key = key
        self.symbols = np.array(atoms.get_chemical_symbols())
        self.masses: Numbers = atoms.get_masses()
        is_mobile = self.symbols == protocol.species
        if protocol.species is not None and not is_mobile.any():
            raise ValueError(f"the crystal has no {protocol.species}")
        self.framework: Indices = np.flatnonzero(is_mobile if is_mobile.all() else ~is_mobile)

    @cached_property
    def pairs(self) -> NeighbourPairs:
        """The pairs of neighbours of the framework, or of all atoms where it has none."""
        try:
            return neighbour_pairs(self.atoms, self.framework)
        except ValueError:
            return neighbour_pairs(self.atoms, np.arange(len(self.atoms)))

    @cached_property
    def _sites(self) -> Numbers:
        sites: Numbers = self.atoms.get_positions()
        return sites

    def chain(self, replica: int) -> ChunkChain:
        """Returns the chain of a replica, whose step 0 is the start."""
        return ChunkChain(self.folder / f"crystal{replica}", self.key, replica, self.protocol.chunks, self._step)

    def run(self, progress: Progress, deadline: float = math.inf) -> CrystalValues:
        """Runs all chains, or what is left of them, and returns the results.

        progress: takes amounts in chunks. deadline: as for `ChunkChain.run`.
        Raises SimulatorError: not_converged (not_equilibrated); unstable (phase: the structure is lost; exploded);
        timeout (wall_limit).
        """
        chains = [self.chain(replica) for replica in range(self.protocol.replicas)]
        for replica, chain in enumerate(chains):
            self._advance(chain, replica, progress, deadline)
        return self.values([self.record(chain) for chain in chains])

    def _advance(self, chain: ChunkChain, replica: int, progress: Progress, deadline: float) -> None:
        replicas = self.protocol.replicas

        def report(done: float, of: float, text: str) -> None:
            progress(replica * of + done, replicas * of, f"replica {replica + 1} of {replicas}: {text}")

        chain.run(report, deadline)

    def _step(self, place: ChunkPlace, before: Members | None, report: Report) -> Members:
        if before is None:
            return self._start(place)
        members = self._propagate(place, before, report)
        kept = float(np.mean(loaded_array(members, "kept")))
        if kept < LOST_SHARE:
            moved = float(np.mean(loaded_array(members, "displacement")))
            elapsed = place.number * self.protocol.steps * self.protocol.time_step / 1000
            raise failure(
                Reason.PHASE,
                f"the crystal loses its structure: after {elapsed:g} ps {kept:.0%} of the neighbours are kept, and the "
                f"atoms are {moved:.1f} angstrom from their sites; it melts, amorphises or becomes another phase"
                + self._mobile_hint(members),
                kept=kept,
                displacement=moved,
                picoseconds=elapsed,
            )
        return members

    def _mobile_hint(self, members: Members) -> str:
        """Returns a hint for a crystal in which one species moves far more than the others; else nothing."""
        moves = self._without_drift(loaded_array(members, "positions")[-1:] - loaded_array(members, "sites"))[0]
        squares = np.einsum("nx,nx->n", moves, moves)
        by_element = {symbol: float(squares[self.symbols == symbol].mean()) for symbol in np.unique(self.symbols)}
        ordered = sorted(by_element, key=lambda symbol: -by_element[symbol])
        if self.protocol.species is not None or len(ordered) == 1:
            return ""
        if by_element[ordered[0]] < 4 * by_element[ordered[1]]:
            return ""
        return f". Mostly {ordered[0]} moves: where that is meant to be mobile, name it as the species"

    def _start(self, place: ChunkPlace) -> Members:
        """Returns the start: the sites, and velocities of twice the temperature."""
        from ase import units

        random = np.random.default_rng(place.seed("velocities"))
        widths = np.sqrt(2 * units.kB * self.protocol.temperature / self.masses)
        velocities = random.standard_normal(self._sites.shape) * widths[:, None]
        [values] = self.potential.evaluate([self.atoms])
        if not values.is_finite:
            raise failure(Reason.EXPLODED, "the potential gave an energy or a force that is no finite number")
        # The later chunks carry the sites and the energy there, so that they depend on this file alone.
        start = {
            "end_positions": self._sites,
            "end_velocities": velocities,
            "sites": self._sites,
            "static_energy": np.array(values.energy),
        }
        return _members(start)

    def _propagate(self, place: ChunkPlace, before: Members, report: Report) -> Members:
        from ase import units
        from ase.md.langevin import Langevin

        protocol = self.protocol
        atoms = self.atoms.copy()
        atoms.set_positions(loaded_array(before, "end_positions"))
        atoms.set_velocities(loaded_array(before, "end_velocities"))
        forces_of = _Forces(self.potential)
        atoms.calc = forces_of
        sites = loaded_array(before, "sites")
        static_energy = float(loaded_array(before, "static_energy"))
        random = np.random.default_rng(place.seed("thermostat"))
        langevin = Langevin(
            atoms,
            protocol.time_step * units.fs,
            temperature_K=protocol.temperature,
            friction=protocol.friction / (1000 * units.fs),
            fixcm=False,
            rng=random,
        )
        samples: dict[str, list[Any]] = {name: [] for name in ("temperature", "energy", "kept", "displacement")}
        frames = []
        forces = forces_of.get_forces(atoms)
        for step in range(1, protocol.steps + 1):
            forces = langevin.step(forces)
            report(step / protocol.steps, f"chunk {place.number}: step {step} of {protocol.steps}")
            if step % protocol.sample_every == 0:
                positions = atoms.get_positions()
                samples["temperature"].append(self._temperature(atoms.get_velocities()))
                samples["energy"].append((forces_of.last.energy - static_energy) / len(atoms))
                samples["kept"].append(self.pairs.kept_share(positions))
                samples["displacement"].append(self._root_mean_square(positions - sites))
            if step % protocol.frame_every == 0:
                frames.append(atoms.get_positions().astype(np.float32))
        end = {
            "end_positions": atoms.get_positions(),
            "end_velocities": atoms.get_velocities(),
            "sites": sites,
            "static_energy": np.array(static_energy),
            "positions": np.array(frames),
        }
        return _members({name: np.array(values) for name, values in samples.items()} | end)

    def _temperature(self, velocities: Numbers) -> float:
        """Returns the temperature of velocities, K. Raises SimulatorError unstable (exploded)."""
        from ase import units

        squares = np.einsum("nx,nx->n", velocities, velocities)
        temperature: float = float(np.sum(self.masses * squares)) / (3 * len(self.masses) * units.kB)
        if not temperature < HOT * self.protocol.temperature + 1000:
            raise failure(
                Reason.EXPLODED,
                f"the atoms reached {temperature:.3g} K at {self.protocol.temperature:g} K: a shorter time step may "
                "help, unless the potential fails",
                temperature=temperature,
            )
        return temperature

    def _root_mean_square(self, moves: Numbers) -> float:
        """Returns the root mean square move of the framework without that of its centre. moves: n x 3."""
        squares = np.sum(self._without_drift(moves[None])[0, self.framework] ** 2, axis=1)
        return math.sqrt(float(squares.mean()))

    def _without_drift(self, moves: Numbers) -> Numbers:
        """Returns moves, f x n x 3, without that of the framework's centre, which the thermostat lets drift."""
        weights = self.masses[self.framework] / self.masses[self.framework].sum()
        paths: Numbers = moves - np.einsum("n,fnx->fx", weights, moves[:, self.framework])[:, None]
        return paths

    def record(self, chain: ChunkChain) -> CrystalRecord:
        """Returns what a chain that is done recorded after its equilibration."""
        parts: dict[str, list[Numbers]] = {}
        sites = loaded_array(chain.read(0), "sites")
        for number in range(self.protocol.equilibration_chunks + 1, chain.length + 1):
            members = chain.read(number)
            for name in ("temperature", "energy", "kept", "displacement", "positions"):
                parts.setdefault(name, []).append(loaded_array(members, name))
        whole = {name: np.concatenate(arrays) for name, arrays in parts.items()}
        return CrystalRecord(
            temperatures=whole["temperature"],
            energies=whole["energy"],
            kept=whole["kept"],
            displacements=whole["displacement"],
            paths=self._without_drift(whole["positions"].astype(float) - sites),
        )

    def values(self, records: Sequence[CrystalRecord]) -> CrystalValues:
        """Returns the results from the records of all replicas.

        Raises SimulatorError not_converged (not_equilibrated), also for a mean temperature that is off by more than
        5 percent."""
        temperature = mean_of_replicas([record.temperatures for record in records], quantity="temperature")
        bias = abs(temperature.mean - self.protocol.temperature)
        if bias > max(MAX_BIAS * self.protocol.temperature, 4 * temperature.uncertainty):
            raise failure(
                Reason.NOT_EQUILIBRATED,
                f"the mean temperature is {temperature.mean:.0f} K instead of {self.protocol.temperature:g} K: take a "
                "shorter time step, or simulate longer",
                temperature=temperature.mean,
            )
        diffusion = None
        no_diffusion = ""
        hops = 0
        if self.protocol.species is not None:
            mobile = self.symbols == self.protocol.species
            paths = [record.paths[:, mobile] for record in records]
            hops = sum(atoms_that_left(each) for each in paths)
            no_diffusion = self._why_no_diffusion(hops, int(mobile.sum()) * len(records))
            if not no_diffusion:
                squares = [mean_squared_displacement(each) for each in paths]
                diffusion = self_diffusion(squares, self.protocol.frame_interval)
        return CrystalValues(
            kept=_mean([record.kept for record in records]),
            displacement=_mean([record.displacements for record in records]),
            temperature=temperature,
            energy=mean_of_replicas([record.energies for record in records], quantity="energy"),
            diffusion=diffusion,
            no_diffusion=no_diffusion,
            hops=hops,
            records=tuple(records),
            squared_displacements=self._squared_displacements(records),
            distributions=self._distributions(records),
        )

    def _why_no_diffusion(self, hops: int, atoms: int) -> str:
        """Returns why a diffusion coefficient cannot be told, or nothing. atoms: of the species, of all replicas."""
        protocol = self.protocol
        if protocol.replicas < MIN_REPLICAS:
            return f"{protocol.replicas} replicas; the error of a diffusion coefficient takes {MIN_REPLICAS}"
        if hops < MIN_HOPS:
            picoseconds = protocol.production_chunks * protocol.steps * protocol.time_step / 1000
            return (
                f"{hops} of {atoms} atoms of {protocol.species} left their sites in {picoseconds:g} ps, and {MIN_HOPS} "
                "are needed: simulate longer, or hotter"
            )
        return ""

    def _squared_displacements(self, records: Sequence[CrystalRecord]) -> Mapping[str, Numbers]:
        found = {}
        for symbol in np.unique(self.symbols).tolist():
            chosen = self.symbols == symbol
            curves = [mean_squared_displacement(record.paths[:, chosen]) for record in records]
            found[symbol] = np.mean(curves, axis=0)
        return found

    def _distributions(self, records: Sequence[CrystalRecord]) -> tuple[tuple[str, RadialDistribution], ...]:
        """Returns the distributions of the pairs of elements up to half of the width of the supercell."""
        if not self.protocol.pairs:
            return ()
        positions = self._sites + np.concatenate([record.paths for record in records])
        cells = np.broadcast_to(self.atoms.cell.array, (len(positions), 3, 3))
        frames = BoxFrames(positions, cells, tuple(self.symbols.tolist()), tuple(range(len(self.symbols))))
        n_blocks = min(2 * len(records), len(positions))
        return tuple(
            (f"{one}-{other}", radial_distribution(frames, one, other, n_blocks=n_blocks))
            for one, other in self.protocol.pairs
        )


def atoms_that_left(paths: Numbers) -> int:
    """Returns the number of atoms whose mean place in the last tenth of their paths, f x m x 3, is more than 1 angstrom
    from that in the first tenth."""
    n_averaged = max(1, round(AVERAGED_SHARE * len(paths)))
    moves = paths[-n_averaged:].mean(axis=0) - paths[:n_averaged].mean(axis=0)
    return int(np.sum(np.einsum("mx,mx->m", moves, moves) > HOP**2))


def _mean(series: Sequence[Numbers]) -> tuple[float, float]:
    """Returns the mean over replicas and its uncertainty; that of a constant is 0."""
    first = float(series[0][0])
    if all(np.all(values == first) for values in series):
        return first, 0.0
    mean = mean_of_replicas(series)
    return mean.mean, mean.uncertainty


def _members(arrays: Mapping[str, Numbers]) -> Members:
    """Returns arrays as the content of a chunk."""
    return {f"{name}.npy": saved_array(values) for name, values in arrays.items()}
