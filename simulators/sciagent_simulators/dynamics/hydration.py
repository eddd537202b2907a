"""The solvation free energy of a molecule in a box of solvent, from states between a full and a decoupled solute.

Each replica packs and equilibrates a box of its own; from its end each state runs as a chain of chunks, which keep the
energies of all states at their frames. From these MBAR gives the free energies. The value is that of taking the
molecule from the gas into the solvent at the same concentration, 1 M to 1 M, since the solute has no volume of its own
to leave (the definition of Ben-Naim).

The uncertainty is the larger of MBAR's own and of the scatter of the replicas, and holds no error of the force field.

Source: the states and their analysis: Klimovich, Shirts, Mobley, J. Comput.-Aided Mol. Des. 29, 397 (2015).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.dynamics.alchemical_solute import AlchemicalState, alchemical_system, reduced_potentials
from sciagent_simulators.dynamics.box_of_liquid import PACKED_SHARE
from sciagent_simulators.dynamics.chunks import (
    ChunkChain,
    ChunkPlace,
    Members,
    Progress,
    Report,
    Step,
    loaded_array,
    saved_array,
)
from sciagent_simulators.dynamics.free_energy import MIN_OVERLAP, MIN_SAMPLES, FreeEnergies, mbar
from sciagent_simulators.dynamics.liquid import SAMPLE_EVERY, STEPS, TIME_STEP
from sciagent_simulators.dynamics.openmm_chain import GAS_CONSTANT, DynamicsSettings, OpenMMRun, final_positions_and_box
from sciagent_simulators.dynamics.series_statistics import MAX_DRIFT, independent_indices
from sciagent_simulators.force_fields.molecule_parameters import MoleculeParameters
from sciagent_simulators.force_fields.packed_box import PackedKind, edge_at_density, pack
from sciagent_simulators.geometry_and_its_checks import failure

Array = NDArray[np.float64]

FRAME_EVERY = 250  # steps from one frame, at which all states are evaluated, to the next
IMAGE_GAP = 12.0  # angstrom between the solute and its periodic image, at least: two layers of water around each
EVALUATION_SHARE = 0.05  # of a chunk's time, in which all states are evaluated at its frames
FRAME_MEMBERS = ("positions.npy", "boxes.npy")  # of a chunk, not kept once the states are evaluated
POTENTIALS = "potentials"
WATER_DENSITY = 0.985  # g/mL, of TIP3P with its long-range correction, as boxes of it at 298 K and 1 bar have here


@dataclass(frozen=True)
class HydrationProtocol:
    """The state of the solvent, the states of the solute, and the length of the runs."""

    temperature: float
    """K."""
    pressure: float | None
    """bar; None keeps the volume constant."""
    edge: float
    """Edge of the box that is aimed at, angstrom."""
    states: tuple[AlchemicalState, ...]
    """From the full solute to the one without interactions with the solvent."""
    start_chunks: int
    """Chunks in which the box of a replica is equilibrated."""
    equilibration_chunks: int
    """Chunks of each state before its production."""
    production_chunks: int
    replicas: int = 3
    steps: int = STEPS
    """Steps of a chunk."""
    time_step: float = TIME_STEP
    """ps."""
    frame_every: int = FRAME_EVERY
    threads: int = 1
    platform: str | None = None

    @property
    def work(self) -> float:
        """All work, in chunks of a box."""
        of_state = self.equilibration_chunks + self.production_chunks + 1
        return self.replicas * (self.start_chunks + 1 + len(self.states) * of_state)


@dataclass(frozen=True, eq=False)
class HydrationValues:
    """The results on a solute; energies in kJ/mol."""

    free_energy: float
    """The free energy of the transfer of the solute from the gas into the solvent, 1 M to 1 M."""
    uncertainty: float
    """The larger of the next two."""
    mbar_uncertainty: float
    scatter: float | None
    """Standard error from the scatter of the replicas; None for one replica."""
    replicas: tuple[float, ...]
    """The value of each replica."""
    charges: float
    """The part of the solute's charges."""
    smallest_overlap: float
    """The smallest overlap of two neighbouring states."""
    samples: int
    """Independent frames of all states and replicas together."""
    solvent_molecules: int


class HydrationSimulation:
    """The runs of one solute, whose chains lie in a folder."""

    def __init__(
        self,
        solute: MoleculeParameters,
        conformers: Array,
        solvent: MoleculeParameters,
        solvent_conformers: Array,
        protocol: HydrationProtocol,
        folder: Path,
        key: str,
        density: float = WATER_DENSITY,
    ) -> None:
        """conformers: c x n x 3, angstrom, of the solute and of the solvent. density: of the solvent, g/mL.
        key: of all that is computed; seeds follow from it."""
        self.solute = solute
        self.conformers = conformers
        self.solvent = solvent
        self.solvent_conformers = solvent_conformers
        self.protocol = protocol
        self.folder = folder
        self.key = key
        self.density = density
        one = edge_at_density([solvent.mass], [1], density) * 10
        self.solvent_molecules = max(1, round((protocol.edge / one) ** 3))
        self._done = 0.0

    def run(self, progress: Progress, deadline: float = math.inf) -> HydrationValues:
        """Runs all chains, or what is left of them, and returns the results.

        progress: takes amounts in chunks of a box. deadline: as for `ChunkChain.run`.
        Raises SimulatorError: refused (too_large: the solute comes close to its periodic image); not_converged
        (no_overlap, not_equilibrated); unstable (box_too_small, exploded); timeout (wall_limit).
        """
        check_width(self.conformers, self.protocol.edge)
        self._done = 0.0
        potentials = []
        for replica in range(self.protocol.replicas):
            positions, box = self._equilibrated(replica, progress, deadline)
            potentials.append(
                [
                    self._potentials_of_state(place, replica, positions, box, progress, deadline)
                    for place in range(len(self.protocol.states))
                ]
            )
        return self.values(potentials)

    @cached_property
    def _packed_edge(self) -> float:
        """Edge of the packed box, angstrom; that of the target at constant volume."""
        share = 1.0 if self.protocol.pressure is None else PACKED_SHARE
        masses = [self.solute.mass, self.solvent.mass]
        return 10 * edge_at_density(masses, [1, self.solvent_molecules], share * self.density)

    def _system(self, state: AlchemicalState) -> object:
        edge = self._packed_edge / 10
        return alchemical_system(self.solute, self.solvent, self.solvent_molecules, edge, state)

    def _settings(self) -> DynamicsSettings:
        protocol = self.protocol
        return DynamicsSettings(
            temperature=protocol.temperature,
            pressure=protocol.pressure,
            time_step=protocol.time_step,
            steps=protocol.steps,
            sample_every=math.gcd(SAMPLE_EVERY, protocol.frame_every),
            frame_every=protocol.frame_every,
            threads=protocol.threads,
            platform=protocol.platform,
        )

    def _equilibrated(self, replica: int, progress: Progress, deadline: float) -> tuple[Array, Array]:
        """Returns the positions and the edges, angstrom, of the equilibrated box of a replica with the full solute."""
        kinds = [
            PackedKind(tuple(atom.number for atom in self.solute.atoms), self.conformers / 10, 1),
            PackedKind(
                tuple(atom.number for atom in self.solvent.atoms), self.solvent_conformers / 10, self.solvent_molecules
            ),
        ]
        seed = ChunkPlace(self.key, replica, 0).seed("packing")
        positions = 10 * pack(kinds, self._packed_edge / 10, seed)
        run = OpenMMRun(
            self._system(self.protocol.states[0]), positions, self._settings(), np.full(3, self._packed_edge)
        )
        name = f"box {replica + 1} of {self.protocol.replicas}"
        chain = ChunkChain(
            self.folder / f"box{replica}", f"{self.key} box", replica, self.protocol.start_chunks, run.step
        )
        self._advance(chain, name, progress, deadline)
        return final_positions_and_box(chain.read(chain.length))

    def _potentials_of_state(
        self, place: int, replica: int, positions: Array, box: Array, progress: Progress, deadline: float
    ) -> Array:
        """Returns the reduced potential of each state at the independent frames of one, K x f."""
        protocol = self.protocol
        system = self._system(protocol.states[place])
        run = OpenMMRun(system, positions, self._settings(), box, minimise=False)
        length = protocol.equilibration_chunks + protocol.production_chunks
        key = f"{self.key} state {place}"
        folder = self.folder / f"state{place}_{replica}"
        chain = ChunkChain(folder, key, replica, length, self._evaluated(run, system))
        name = f"state {place + 1} of {len(protocol.states)}, replica {replica + 1} of {protocol.replicas}"
        self._advance(chain, name, progress, deadline)
        produced = range(protocol.equilibration_chunks + 1, length + 1)
        potentials = np.concatenate([loaded_array(chain.read(number), POTENTIALS) for number in produced], axis=1)
        neighbour = place + 1 if place + 1 < len(protocol.states) else place - 1
        kept = independent_indices(potentials[neighbour] - potentials[place])
        independent: Array = potentials[:, kept]
        return independent

    def _evaluated(self, run: OpenMMRun, system: object) -> Step:
        """Returns the step of a run, after which the production keeps the states' potentials instead of its frames."""
        protocol = self.protocol

        def step(place: ChunkPlace, before: Members | None, report: Report) -> Members:
            members = run.step(place, before, lambda share, text: report(share * (1 - EVALUATION_SHARE), text))
            kept = {name: content for name, content in members.items() if name not in FRAME_MEMBERS}
            if place.number <= protocol.equilibration_chunks:
                return kept
            potentials = reduced_potentials(
                system,
                loaded_array(members, "positions").astype(float),
                loaded_array(members, "boxes"),
                protocol.states,
                protocol.temperature,
                protocol.threads,
                json.loads(members["platform.json"])["platform"],
                lambda share: report(1 - EVALUATION_SHARE * (1 - share), f"chunk {place.number}: energies of states"),
            )
            return {**kept, f"{POTENTIALS}.npy": saved_array(potentials)}

        return step

    def _advance(self, chain: ChunkChain, text: str, progress: Progress, deadline: float) -> None:
        """Runs a chain, and reports its progress as a part of all work."""
        begun = self._done

        def report(done: float, of: float, detail: str) -> None:
            progress(begun + done, self.protocol.work, f"{text}: {detail}")

        chain.run(report, deadline)
        self._done = begun + chain.length + 1

    def values(self, potentials: Sequence[Sequence[Array]]) -> HydrationValues:
        """Returns the results. potentials: for each replica and state, K x f, at the independent frames of the state,
        in the order of time.

        Raises SimulatorError not_converged (no_overlap; not_equilibrated for fewer than 10 independent frames of a
        state in a replica, and for halves of the time whose values differ by more than 4 standard errors), implausible
        (not_finite)."""
        thermal = GAS_CONSTANT * self.protocol.temperature
        by_replica = [_solvation(_free_energies(parts)) * thermal for parts in potentials]
        n_states = len(self.protocol.states)
        found = _free_energies(_pooled(potentials))
        scatter = None
        if len(by_replica) > 1:
            scatter = float(np.std(by_replica, ddof=1)) / math.sqrt(len(by_replica))
        mbar_uncertainty = float(found.uncertainties[0, -1]) * thermal
        if not math.isfinite(mbar_uncertainty):
            raise failure(Reason.NOT_FINITE, "the uncertainty by MBAR is not a finite number")
        drift = _drift(potentials)
        if drift > MAX_DRIFT:
            raise failure(
                Reason.NOT_EQUILIBRATED,
                f"the values of the two halves of the time differ by {drift:.1f} standard errors: simulate longer",
                drift=drift,
            )
        uncharged = next(place for place, state in enumerate(self.protocol.states) if state.charges == 0)
        neighbours = [min(found.overlap[k, k + 1], found.overlap[k + 1, k]) for k in range(n_states - 1)]
        return HydrationValues(
            free_energy=_solvation(found) * thermal,
            uncertainty=max(mbar_uncertainty, scatter or 0.0),
            mbar_uncertainty=mbar_uncertainty,
            scatter=scatter,
            replicas=tuple(by_replica),
            charges=-float(found.values[0, uncharged]) * thermal,
            smallest_overlap=float(min(neighbours)),
            samples=sum(part.shape[1] for parts in potentials for part in parts),
            solvent_molecules=self.solvent_molecules,
        )


def check_width(conformers: Array, edge: float) -> None:
    """Checks that a solute stays away from its periodic image. conformers: c x n x 3; edge: of the box; angstrom.

    Raises SimulatorError refused (too_large)."""
    centred = conformers - conformers.mean(axis=1, keepdims=True)
    width = 2 * float(np.linalg.norm(centred, axis=2).max())
    if width + IMAGE_GAP > edge:
        detail = (
            f"the solute is up to {width:.1f} angstrom wide, and should be {IMAGE_GAP:g} away from its periodic "
            f"image: take a box of {math.ceil(width + IMAGE_GAP)}"
        )
        raise SimulatorError(Outcome.REFUSED, Reason.TOO_LARGE, detail, width=width)


def _pooled(potentials: Sequence[Sequence[Array]]) -> list[Array]:
    """Returns the potentials at the frames of each state, of all replicas together."""
    return [np.concatenate(of_state, axis=1) for of_state in zip(*potentials, strict=True)]


def _free_energies(parts: Sequence[Array], min_overlap: float = MIN_OVERLAP) -> FreeEnergies:
    """Returns the free energies of the states. parts: the potentials at the frames of each."""
    return mbar(np.concatenate(parts, axis=1), [part.shape[1] for part in parts], min_overlap)


def _drift(potentials: Sequence[Sequence[Array]]) -> float:
    """Returns the difference of the values of the two halves of the time, in its standard errors.

    0 where a state has too few frames for a value of each half."""
    first = _pooled([[part[:, : part.shape[1] // 2] for part in parts] for parts in potentials])
    second = _pooled([[part[:, part.shape[1] // 2 :] for part in parts] for parts in potentials])
    if min(part.shape[1] for part in first) < MIN_SAMPLES:
        return 0.0
    halves = [_free_energies(half, min_overlap=0.0) for half in (first, second)]
    error = math.hypot(*(float(half.uncertainties[0, -1]) for half in halves))
    return abs(_solvation(halves[1]) - _solvation(halves[0])) / error if error > 0 else 0.0


def _solvation(found: FreeEnergies) -> float:
    """Returns the free energy of the full solute, the first state, less that of the last, in kT."""
    return -float(found.values[0, -1])
