"""Molecular dynamics of an OpenMM system as a chain of chunks, at constant pressure or at constant volume.

Each chunk has an OpenMM context of its own, made from the state file of the chunk before, with seeds of its own for the
thermostat and the barostat. OpenMM's own checkpoints carry hidden state and do not continue exactly. With one platform,
one version of OpenMM and deterministic forces, which the CPU platform is asked for, a resumed run has the same bits as
a whole one; elsewhere it agrees within its statistical error. A step size of the barostat is learnt anew in each chunk.

Lengths are in angstrom, energies in kJ/mol, times in ps, pressures in bar, densities in g/mL. Positions are not wrapped
into the box.

Sources: Langevin middle integrator: Zhang et al., J. Phys. Chem. A 123, 6056 (2019). Monte Carlo barostat: Chow,
Ferguson, Comput. Phys. Commun. 91, 283 (1995); Aqvist et al., Chem. Phys. Lett. 384, 288 (2004).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.dynamics.chunks import ChunkChain, ChunkPlace, Members, Report, loaded_array, saved_array
from sciagent_simulators.geometry_and_its_checks import failure

Array = NDArray[np.float64]

ANGSTROM = 0.1  # nm, OpenMM's unit of length
GAS_CONSTANT = 8.31446261815324e-3  # kJ/(mol K), CODATA 2018
DALTON_PER_CUBIC_ANGSTROM = 1.66053906660  # g/mL, CODATA 2018
STATE = "state.xml"
SAMPLE_NAMES = ("time", "potential_energy", "temperature", "volume")
PRESSURE_COUPLING = ("MonteCarloBarostat", "MonteCarloAnisotropicBarostat", "MonteCarloMembraneBarostat")
THERMOSTAT = "AndersenThermostat"
TOO_SMALL_MESSAGES = ("less than twice the nonbonded cutoff", "greater than half the periodic box size")
MAX_STEPS = 10_000_000  # of a chunk


@dataclass(frozen=True)
class DynamicsSettings:
    """The conditions of a run, and the work and the samples of a chunk."""

    temperature: float
    """K."""
    pressure: float | None = None
    """bar; None keeps the volume constant."""
    friction: float = 1.0
    """Friction of the Langevin thermostat, 1/ps. For diffusion it should be 0.1 or less, at constant volume."""
    time_step: float = 0.002
    """ps."""
    steps: int = 5000
    """Steps of a chunk."""
    sample_every: int = 100
    """Steps from one sample of energy, temperature and volume to the next; divides `steps`."""
    frame_every: int | None = None
    """Steps from one frame of positions to the next, a multiple of `sample_every`; None keeps no frames."""
    atoms: tuple[int, ...] | None = None
    """Atoms of the frames; None for all."""
    barostat_every: int = 10
    """Steps from one trial of the barostat to the next. With 25, 80 ps of water had only 27 independent densities."""
    threads: int = 1
    """Threads of the CPU platform."""
    platform: str | None = None
    """OpenMM's name of the platform; None for the fastest that works here, the slow Reference platform excluded."""

    def __post_init__(self) -> None:
        numbers = (self.temperature, self.friction, self.time_step, self.pressure or 0.0)
        if not all(math.isfinite(number) for number in numbers):
            raise ValueError("temperature, pressure, friction and time step must be finite")
        if not (self.temperature > 0 and self.friction >= 0 and 0 < self.time_step <= 0.02):
            raise ValueError("the temperature is above 0 K, the friction 0 or more, the time step up to 0.02 ps")
        if not 1 <= self.steps <= MAX_STEPS or self.barostat_every < 1 or self.threads < 1:
            raise ValueError(f"a chunk has 1 to {MAX_STEPS} steps, and the barostat and the threads are 1 or more")
        self._check_intervals()

    def _check_intervals(self) -> None:
        if self.sample_every < 1 or self.steps % self.sample_every:
            raise ValueError(f"sample_every {self.sample_every} does not divide the {self.steps} steps of a chunk")
        if self.frame_every is not None and (self.frame_every < 1 or self.frame_every % self.sample_every):
            raise ValueError(f"frame_every {self.frame_every} is no multiple of sample_every {self.sample_every}")
        if self.frame_every is not None and self.steps % self.frame_every:
            raise ValueError(f"frame_every {self.frame_every} does not divide the {self.steps} steps of a chunk")


@dataclass(frozen=True, eq=False)
class DynamicsSamples:
    """The samples of a chain: n of numbers, f frames of m atoms."""

    time: Array
    """(n,), ps since the start."""
    potential_energy: Array
    """(n,), kJ/mol."""
    temperature: Array
    """(n,), K, from the kinetic energy."""
    volume: Array | None
    """(n,), angstrom^3; None without a periodic box."""
    density: Array | None
    """(n,), g/mL; None without a periodic box."""
    positions: Array | None
    """f x m x 3, angstrom, not wrapped; None without frames."""
    boxes: Array | None
    """f x 3, angstrom, the edges of the box in each frame; None without frames or box."""


class OpenMMRun:
    """A system with its starting positions and its conditions, whose `step` computes the chunks of a chain."""

    def __init__(
        self, system: Any, positions: Array, settings: DynamicsSettings, box: Array | None = None, minimise: bool = True
    ) -> None:
        """system: an openmm.System without barostat and thermostat; it is copied.
        positions: n x 3, angstrom. box: (3,), the edges of the starting box, angstrom; None for the system's own.
        minimise: whether the start is relaxed, with at most 1,000 iterations, before velocities are drawn.

        Raises ValueError for shapes, atoms, forces and boxes that do not fit.
        """
        import openmm

        self.settings = settings
        self.positions = np.array(positions, dtype=float)
        self.minimise = minimise
        n = system.getNumParticles()
        if self.positions.shape != (n, 3) or not np.isfinite(self.positions).all():
            raise ValueError(f"{n} particles need finite positions of the shape ({n}, 3), not {self.positions.shape}")
        if settings.atoms is not None and not all(0 <= atom < n for atom in settings.atoms):
            raise ValueError(f"the atoms of the frames are 0 to {n - 1}")
        coupled = [force.getName() for force in system.getForces() if force.__class__.__name__ in _couplings()]
        if coupled:
            raise ValueError(f"the system has its own {coupled[0]}")
        self.is_periodic = bool(system.usesPeriodicBoundaryConditions())
        if settings.pressure is not None and not self.is_periodic:
            raise ValueError("a constant pressure needs a periodic box")
        self.system_text = openmm.XmlSerializer.serialize(system)
        self.range = cutoff_range(system)
        self.masses = np.array([system.getParticleMass(i)._value for i in range(n)])
        self.freedom = degrees_of_freedom(system)
        self.box = self._start_box(system, box)

    def chain(self, folder: Any, key: str, replica: int, length: int) -> ChunkChain:
        """Returns the chain of the run in a folder of its own, with `length` chunks after the start."""
        return ChunkChain(folder, key, replica, length, self.step)

    def step(self, place: ChunkPlace, before: Members | None, report: Report) -> Members:
        """Returns the content of a chunk: the state at its end and, but for the start, its samples.

        Raises SimulatorError unstable (box_too_small, exploded), bad_environment (program_missing: no such platform).
        """
        import openmm

        if before is None:
            self._check_box(self.box)
        try:
            context, integrator = self._context(place)
            if before is None:
                return self._start(context, place, report)
            context.setState(openmm.XmlSerializer.deserialize(before[STATE].decode()))
            return self._propagate(context, integrator, place, report)
        except openmm.OpenMMException as error:
            raise _named(error) from error

    def samples(self, chain: ChunkChain, n_chunks: int | None = None) -> DynamicsSamples:
        """Returns the samples of the first `n_chunks` chunks after the start; None for all of the chain.

        Raises SimulatorError crashed (bad_result) for chunks that are not done.
        """
        numbers = range(1, (chain.length if n_chunks is None else n_chunks) + 1)
        arrays: dict[str, list[Array]] = {}
        for number in numbers:
            members = chain.read(number)
            for name in [member.removesuffix(".npy") for member in members if member.endswith(".npy")]:
                arrays.setdefault(name, []).append(loaded_array(members, name).astype(float))
        joined = {name: np.concatenate(parts) for name, parts in arrays.items()}
        volume = joined["volume"] if self.is_periodic else None
        return DynamicsSamples(
            time=joined["time"],
            potential_energy=joined["potential_energy"],
            temperature=joined["temperature"],
            volume=volume,
            density=None if volume is None else DALTON_PER_CUBIC_ANGSTROM * self.masses.sum() / volume,
            positions=joined.get("positions"),
            boxes=joined.get("boxes") if self.is_periodic else None,
        )

    def _start_box(self, system: Any, box: Array | None) -> Array | None:
        if not self.is_periodic:
            return None
        vectors = np.array([[x for x in vector._value] for vector in system.getDefaultPeriodicBoxVectors()])
        edges = np.diag(vectors) / ANGSTROM if box is None else np.array(box, dtype=float)
        if box is None and np.abs(vectors - np.diag(np.diag(vectors))).max() > 1e-9:
            raise ValueError("only boxes with right angles are supported")
        if edges.shape != (3,) or not np.isfinite(edges).all() or edges.min() <= 0:
            raise ValueError(f"a box has three positive edges, not {edges}")
        return edges

    def _context(self, place: ChunkPlace) -> tuple[Any, Any]:
        """Returns a new context of the system with its barostat, and its integrator, both with the place's seeds."""
        import openmm

        settings = self.settings
        for platform, properties in platforms(settings.platform, settings.threads):
            system = openmm.XmlSerializer.deserialize(self.system_text)
            if self.box is not None:
                system.setDefaultPeriodicBoxVectors(*np.diag(self.box * ANGSTROM))
            if settings.pressure is not None:
                barostat = openmm.MonteCarloBarostat(settings.pressure, settings.temperature, settings.barostat_every)
                barostat.setRandomNumberSeed(place.seed("barostat"))
                system.addForce(barostat)
            integrator = openmm.LangevinMiddleIntegrator(settings.temperature, settings.friction, settings.time_step)
            integrator.setRandomNumberSeed(place.seed("integrator"))
            try:
                return openmm.Context(system, integrator, platform, properties), integrator
            except openmm.OpenMMException as error:
                named = _named(error)
                if isinstance(named, SimulatorError) or settings.platform is not None:
                    raise
                last = error
        raise last

    def _start(self, context: Any, place: ChunkPlace, report: Report) -> Members:
        """Returns the start: relaxed positions with velocities of the temperature."""
        import openmm

        context.setPositions(self.positions * ANGSTROM)
        context.applyConstraints(1e-6)
        if self.minimise:
            report(0.0, "relaxing the start")
            openmm.LocalEnergyMinimizer.minimize(context, maxIterations=1000, reporter=_relaxation_reporter(report))
        context.setVelocitiesToTemperature(self.settings.temperature, place.seed("velocities"))
        return {STATE: self._state(context), "platform.json": _described(context)}

    def _propagate(self, context: Any, integrator: Any, place: ChunkPlace, report: Report) -> Members:
        settings = self.settings
        samples: dict[str, list[float]] = {name: [] for name in SAMPLE_NAMES}
        positions = []
        boxes = []
        chosen = slice(None) if settings.atoms is None else list(settings.atoms)
        for done in range(settings.sample_every, settings.steps + 1, settings.sample_every):
            integrator.step(settings.sample_every)
            is_frame = settings.frame_every is not None and done % settings.frame_every == 0
            state = context.getState(energy=True, positions=is_frame)
            edges = self._checked_edges(state)
            samples["time"].append(((place.number - 1) * settings.steps + done) * settings.time_step)
            samples["potential_energy"].append(state.getPotentialEnergy()._value)
            samples["temperature"].append(2 * state.getKineticEnergy()._value / (self.freedom * GAS_CONSTANT))
            samples["volume"].append(math.nan if edges is None else float(np.prod(edges)))
            if is_frame:
                positions.append(state.getPositions(asNumpy=True)._value[chosen] / ANGSTROM)
                boxes.append(np.full(3, math.nan) if edges is None else edges)
            report(done / settings.steps, f"chunk {place.number}: step {done} of {settings.steps}")
        members = {f"{name}.npy": saved_array(np.array(values)) for name, values in samples.items()}
        if positions:
            members["positions.npy"] = saved_array(np.array(positions, dtype=np.float32))
            members["boxes.npy"] = saved_array(np.array(boxes))
        return {**members, STATE: self._state(context), "platform.json": _described(context)}

    def _checked_edges(self, state: Any) -> Array | None:
        """Returns the edges of the box, angstrom. Raises SimulatorError for energies and boxes that end the run."""
        energies = (state.getPotentialEnergy()._value, state.getKineticEnergy()._value)
        if not all(math.isfinite(energy) for energy in energies):
            raise failure(
                Reason.EXPLODED, f"potential and kinetic energy are {energies[0]:g} and {energies[1]:g} kJ/mol"
            )
        if not self.is_periodic:
            return None
        edges: Array = np.diag(np.array([[x for x in v] for v in state.getPeriodicBoxVectors()._value])) / ANGSTROM
        self._check_box(edges)
        return edges

    def _check_box(self, edges: Array | None) -> None:
        if edges is not None and edges.min() < 2 * self.range:
            raise failure(
                Reason.BOX_TOO_SMALL,
                f"the box is {edges.min():.2f} angstrom wide, less than twice the cut-off of {self.range:.2f}: take "
                "more molecules",
                narrowest_edge=float(edges.min()),
                cutoff=self.range,
            )

    def _state(self, context: Any) -> bytes:
        """Returns the state as XML. Raises SimulatorError unstable (exploded) for numbers that are not finite."""
        import openmm

        state = context.getState(
            positions=True, velocities=True, energy=True, parameters=True, enforcePeriodicBox=False
        )
        self._checked_edges(state)
        positions = state.getPositions(asNumpy=True)._value
        velocities = state.getVelocities(asNumpy=True)._value
        if not (np.isfinite(positions).all() and np.isfinite(velocities).all()):
            raise failure(Reason.EXPLODED, "a position or velocity became NaN or infinite")
        text: str = openmm.XmlSerializer.serialize(state)
        return text.encode()


def _relaxation_reporter(report: Report) -> Any:
    """Returns OpenMM's reporter of a relaxation, which takes seconds to minutes, so that its job shows progress."""
    import openmm

    class RelaxationReporter(openmm.MinimizationReporter):  # type: ignore[misc]
        """Reports each iteration."""

        def report(self, iteration: int, positions: Any, gradient: Any, numbers: Any) -> bool:
            """Returns False, so that the relaxation goes on."""
            report(0.0, f"relaxing the start: iteration {iteration + 1}")
            return False

    return RelaxationReporter()


def final_positions_and_box(members: Members) -> tuple[Array, Array]:
    """Returns the positions, n x 3, and the edges of the box, (3,), at the end of a chunk, angstrom."""
    import openmm

    state = openmm.XmlSerializer.deserialize(members[STATE].decode())
    vectors = np.array([[x for x in vector] for vector in state.getPeriodicBoxVectors()._value])
    positions: Array = state.getPositions(asNumpy=True)._value / ANGSTROM
    edges: Array = np.diag(vectors) / ANGSTROM
    return positions, edges


def cutoff_range(system: Any) -> float:
    """Returns the largest cut-off of the system's non-bonded forces, angstrom; 0 without one."""
    ranges = [0.0]
    for force in system.getForces():
        if hasattr(force, "getCutoffDistance") and force.usesPeriodicBoundaryConditions():
            ranges.append(force.getCutoffDistance()._value / ANGSTROM)
    return max(ranges)


def degrees_of_freedom(system: Any) -> int:
    """Returns the degrees of freedom of the kinetic energy: without constraints, and without the total momentum where
    the system removes it."""
    heavy = [i for i in range(system.getNumParticles()) if system.getParticleMass(i)._value > 0]
    removes_momentum = any(force.__class__.__name__ == "CMMotionRemover" for force in system.getForces())
    return 3 * len(heavy) - int(system.getNumConstraints()) - 3 * removes_momentum


def platforms(name: str | None, threads: int) -> Iterator[tuple[Any, dict[str, str]]]:
    """Yields platforms with their properties, the fastest first; only the named one if there is a name.

    Raises SimulatorError bad_environment (program_missing) if OpenMM has no platform of the name.
    """
    import openmm

    every = [openmm.Platform.getPlatform(i) for i in range(openmm.Platform.getNumPlatforms())]
    if name is None:
        chosen = [platform for platform in every if platform.getName() != "Reference"]
    else:
        chosen = [platform for platform in every if platform.getName() == name]
    if not chosen:
        known = ", ".join(platform.getName() for platform in every)
        raise failure(Reason.PROGRAM_MISSING, f"OpenMM has no platform {name or 'but Reference'} here; it has {known}")
    for platform in sorted(chosen, key=lambda platform: -platform.getSpeed()):
        wanted = {"DeterministicForces": "true", "Threads": str(threads), "Precision": "mixed"}
        yield platform, {key: value for key, value in wanted.items() if key in platform.getPropertyNames()}


def _couplings() -> tuple[str, ...]:
    return (*PRESSURE_COUPLING, THERMOSTAT)


def _named(error: Exception) -> Exception:
    """Returns the error with its reason, or the same error where OpenMM's message is not known."""
    text = str(error)
    if any(message in text for message in TOO_SMALL_MESSAGES):
        return failure(Reason.BOX_TOO_SMALL, f"{text}: take more molecules")
    if "NaN" in text or "infinite" in text:
        return failure(Reason.EXPLODED, text)
    return error


def _described(context: Any) -> bytes:
    """Returns the version of OpenMM and the platform as JSON."""
    import openmm

    platform = context.getPlatform()
    return json.dumps({"openmm": openmm.__version__, "platform": platform.getName()}, sort_keys=True).encode()
