"""Relaxes positions and cells of many crystals at once, and fits the equation of state of the relaxed ones.

FIRE acts on the positions and the logarithm of the strain. Each crystal has its own time step, mixing and convergence,
so it relaxes as it would alone; only the evaluation of the potential is shared. The steps are those of ASE's FIRE with
its FrechetCellFilter. A crystal that collapses, escapes or meets numbers that are not finite is set aside with its
fault, and the others go on.

Source: Bitzek et al., Phys. Rev. Lett. 97, 170201 (2006); the gradient of the cell: J. Kermode and K. Shinohara in ASE.

The equation of state is fitted by Birch and Murnaghan to energies at scaled volumes.

The third-order equation is a cubic polynomial in V^(-2/3), so the fit is linear. The shape of the cell is scaled
uniformly and positions are relaxed at each volume; for cells that are not cubic the modulus is thus an upper bound.

Source: Birch, Phys. Rev. 71, 809 (1947).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.potentials.potential import Numbers, Potential, PotentialValues

MAX_STEP = 0.2  # angstrom, norm of a step
FIRST_TIME_STEP = 0.1
LAST_TIME_STEP = 1.0
MIXING = 0.1
MIXING_DECAY = 0.99
STEPS_BEFORE_GROWTH = 5
GROWTH = 1.1
SHRINKAGE = 0.5
MIN_HEIGHT = 1.0  # angstrom, of the cell above its faces
LEAST_VOLUME = 0.25
MOST_VOLUME = 4.0  # shares of the first volume at which a relaxation is given up
HUGE_FORCE = 1e4  # eV/angstrom


@dataclass(frozen=True)
class Relaxed:
    """A crystal after its relaxation, or where it was given up."""

    atoms: Any
    """The ase.Atoms."""
    last: PotentialValues | None
    """The potential there; None if it was never known."""
    steps: int
    """Number of evaluations."""
    fmax: float
    """Largest norm among the forces on atoms and on the cell, eV/angstrom; the cell's are per atom."""
    volume_ratio: float
    """Volume over that before."""
    seconds: float = 0.0
    """Core-seconds that the evaluations take alone; 0 if the model does not tell."""
    fault: SimulatorError | None = None
    """The reason why there is no result; None if it has converged."""

    @property
    def energy_per_atom(self) -> float:
        """In eV per atom. Raises SimulatorError if the relaxation has failed."""
        if self.fault is not None or self.last is None:
            raise self.fault or SimulatorError(Outcome.NOT_CONVERGED, Reason.GEOMETRY_NOT_CONVERGED, "no energy")
        return self.last.energy / len(self.atoms)


@dataclass
class _Member:
    """One crystal on its way."""

    atoms: Any
    is_cell_fixed: bool = False
    cell: Numbers = field(init=False)
    """The cell before."""
    logarithm: Numbers = field(init=False)
    """3 x 3, of the deformation gradient."""
    gradient: Numbers = field(init=False)
    """3 x 3, the deformation gradient: the cell is that before times its transpose."""
    undeformed: Numbers = field(init=False)
    """n x 3, the positions in the cell before, in angstrom."""
    velocity: Numbers | None = None
    time_step: float = FIRST_TIME_STEP
    mixing: float = MIXING
    downhill: int = 0
    """Steps since the last one uphill."""
    steps: int = 0
    seconds: float = 0.0
    last: PotentialValues | None = None
    forces: Numbers = field(init=False)
    """(n + 3) x 3: on the atoms of the undeformed cell, and on the logarithm."""
    fault: SimulatorError | None = None

    def __post_init__(self) -> None:
        self.cell = self.atoms.cell.array.copy()
        self.logarithm = np.zeros((3, 3))
        self.gradient = np.eye(3)
        self.undeformed = self.atoms.positions.copy()
        self.forces = np.full((len(self.atoms) + 3, 3), np.inf)

    @property
    def fmax(self) -> float:
        return float(np.linalg.norm(self.forces, axis=1).max())

    @property
    def volume_ratio(self) -> float:
        return volume(self.atoms.cell.array) / max(volume(self.cell), 1e-300)

    def take(self, found: PotentialValues) -> None:
        """Sets the forces from an evaluation of the potential, or the fault."""
        self.steps += 1
        self.seconds += found.seconds
        if not found.is_finite:
            self.fault = _fault(Outcome.IMPLAUSIBLE, Reason.NOT_FINITE, "the energy or a force is not a finite number")
            return
        self.last = found
        on_cell = np.zeros((3, 3))
        if not self.is_cell_fixed:
            virial = -volume(self.atoms.cell.array) * found.stress
            on_cell = _directional(self.logarithm.T, virial @ np.linalg.inv(self.gradient.T))
        self.forces = np.vstack([found.forces @ self.gradient, on_cell / len(self.atoms)])
        if np.abs(found.forces).max() > HUGE_FORCE:
            detail = f"a force of {np.abs(found.forces).max():.3g} eV/angstrom: atoms overlap"
            self.fault = _fault(Outcome.IMPLAUSIBLE, Reason.OVERLAPPING_ATOMS, detail)

    def step(self) -> None:
        """Moves atoms and cell by one step of FIRE."""
        forces = self.forces
        if self.velocity is None:
            self.velocity = np.zeros_like(forces)
        elif (forces * self.velocity).sum() > 0:
            along = forces / np.linalg.norm(forces) * np.linalg.norm(self.velocity)
            self.velocity = (1 - self.mixing) * self.velocity + self.mixing * along
            if self.downhill > STEPS_BEFORE_GROWTH:
                self.time_step = min(self.time_step * GROWTH, LAST_TIME_STEP)
                self.mixing *= MIXING_DECAY
            self.downhill += 1
        else:
            self.velocity = np.zeros_like(forces)
            self.mixing = MIXING
            self.downhill = 0
            self.time_step *= SHRINKAGE
        self.velocity = self.velocity + self.time_step * forces
        move = self.time_step * self.velocity
        move *= min(1.0, MAX_STEP / max(float(np.linalg.norm(move)), 1e-300))
        self._move(move)

    def _move(self, move: Numbers) -> None:
        from scipy.linalg import expm

        self.undeformed = self.undeformed + move[:-3]
        self.logarithm = self.logarithm + move[-3:] / len(self.atoms)
        self.gradient = expm(self.logarithm)
        self.atoms.set_cell(self.cell @ self.gradient.T, scale_atoms=False)
        self.atoms.set_positions(self.undeformed @ self.gradient.T)
        self.fault = self._lost()

    def _lost(self) -> SimulatorError | None:
        ratio = self.volume_ratio
        height = min(heights(self.atoms.cell.array))
        if not np.isfinite(ratio) or ratio > MOST_VOLUME:
            return _fault(Outcome.UNSTABLE, Reason.VOLUME_CHANGED, f"the cell grew to {ratio:.3g} times its volume")
        if ratio < LEAST_VOLUME or height < MIN_HEIGHT:
            detail = f"{ratio:.2f} times its volume, {height:.2f} angstrom high after {self.steps} steps"
            return _fault(Outcome.IMPLAUSIBLE, Reason.COLLAPSED, f"the cell collapses: {detail}")
        return None

    def result(self, fmax: float) -> Relaxed:
        fault = self.fault
        if fault is None and self.fmax > fmax:
            detail = f"the largest force is {self.fmax:.3g} eV/angstrom after {self.steps} steps; the limit is {fmax:g}"
            fault = _fault(Outcome.NOT_CONVERGED, Reason.GEOMETRY_NOT_CONVERGED, detail)
        return Relaxed(self.atoms, self.last, self.steps, self.fmax, self.volume_ratio, self.seconds, fault)


def relax(
    potential: Potential, batch: Sequence[Any], fmax: float = 0.05, steps: int = 300, fixed_cells: bool = False
) -> list[Relaxed]:
    """Relaxes positions and cells, or with `fixed_cells` positions only.

    Returns one result for each ase.Atoms, in order; the given ones do not change.

    fmax: eV/angstrom, the limit for forces on atoms and on the cell. steps: evaluations of each crystal at most.
    """
    members = [_Member(atoms.copy(), fixed_cells) for atoms in batch]
    active = [member for member in members if _is_periodic(member)]
    while active:
        for member, found in zip(active, evaluate(potential, [member.atoms for member in active]), strict=True):
            member.take(found)
        active = [m for m in active if m.fault is None and m.fmax > fmax and m.steps < steps]
        for member in active:
            member.step()
        active = [member for member in active if member.fault is None]
    return [member.result(fmax) for member in members]


def evaluate(potential: Potential, batch: Sequence[Any]) -> list[PotentialValues]:
    """Returns the evaluations of all structures, with as many in a call as the potential takes at once."""
    values = list[PotentialValues]()
    for part in _parts(batch, potential.atoms_at_once):
        values.extend(potential.evaluate(part))
    return values


def _parts(batch: Sequence[Any], most: int) -> Iterator[Sequence[Any]]:
    """Yields parts of at most `most` atoms; a larger structure is a part of its own."""
    part = list[Any]()
    size = 0
    for atoms in batch:
        if part and size + len(atoms) > most:
            yield part
            part = []
            size = 0
        part.append(atoms)
        size += len(atoms)
    if part:
        yield part


def heights(cell: NDArray[np.float64]) -> Numbers:
    """Returns (3,) the distances between opposite faces of a cell, in angstrom. cell: 3 x 3, vectors as rows."""
    a, b, c = cell.tolist()
    return np.array([volume(cell) / max(math.hypot(*_cross(u, v)), 1e-12) for u, v in ((b, c), (c, a), (a, b))])


def volume(cell: NDArray[np.float64]) -> float:
    """Returns the volume of a cell, angstrom**3. NumPy's determinant takes ten times as long for 3 x 3."""
    (x, y, z), b, c = cell.tolist()
    face = _cross(b, c)
    return float(abs(x * face[0] + y * face[1] + z * face[2]))


def _cross(u: Sequence[float], v: Sequence[float]) -> tuple[float, float, float]:
    return u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]


def _is_periodic(member: _Member) -> bool:
    if not member.atoms.pbc.all() or min(heights(member.cell)) < MIN_HEIGHT:
        member.fault = _fault(Outcome.REFUSED, Reason.COLLAPSED, "no cell in three dimensions, or a flat one")
    return member.fault is None


def _directional(matrix: Numbers, direction: Numbers) -> Numbers:
    """Returns the derivative of exp(matrix) in a direction, both 3 x 3: a block of the exponential of both."""
    from scipy.linalg import expm

    both = np.zeros((6, 6))
    both[:3, :3] = matrix
    both[3:, 3:] = matrix
    both[:3, 3:] = direction
    found: Numbers = expm(both)[:3, 3:]
    return found


def _fault(outcome: Outcome, reason: Reason, detail: str) -> SimulatorError:
    return SimulatorError(outcome, reason, detail)


GPA = 160.21766208  # GPa in an eV/angstrom**3
STRAINS = (-0.06, -0.04, -0.02, 0.0, 0.02, 0.04, 0.06)
"""Changes of the volume."""


@dataclass(frozen=True)
class StateFit:
    """The minimum of an equation of state."""

    volume: float
    """At zero pressure, in angstrom**3."""
    bulk_modulus: float
    """In GPa."""
    derivative: float
    """The derivative of the bulk modulus by pressure, without unit."""
    residual: float
    """Root mean square of the fit's errors, in eV."""


def fit(volumes: Sequence[float], energies: Sequence[float]) -> StateFit:
    """Returns the minimum of the third-order Birch-Murnaghan equation. volumes: angstrom**3; energies: eV.

    Raises SimulatorError if there is no minimum among the volumes, or the energies are no smooth curve."""
    v = np.asarray(volumes, dtype=float)
    e = np.asarray(energies, dtype=float)
    curve = np.polynomial.Polynomial.fit(v ** (-2 / 3), e, 3)
    roots = np.asarray(curve.deriv().roots(), dtype=complex)
    real = [float(x) for x in roots[np.abs(roots.imag) < 1e-12].real if x > 0]
    inside = [x for x in real if v.min() <= x**-1.5 <= v.max() and float(curve.deriv(2)(x)) > 0]
    if not inside:
        raise SimulatorError(Outcome.NOT_CONVERGED, Reason.GEOMETRY_NOT_CONVERGED, "no minimum among the volumes")
    x = inside[0]
    second = float(curve.deriv(2)(x))
    third = float(curve.deriv(3)(x))
    volume = x**-1.5
    modulus = 4 / 9 * second * x**5 * volume  # V d2E/dV2, with dx/dV = -2/3 x^(5/2)
    derivative = 4 + 2 / 3 * third * x / second
    residual = float(np.sqrt(np.mean((curve(v ** (-2 / 3)) - e) ** 2)))
    return StateFit(volume, modulus * GPA, derivative, residual)


def equations_of_state(
    potential: Potential, batch: Sequence[Any], fmax: float, steps: int
) -> list[StateFit | SimulatorError]:
    """Returns the equation of state of each relaxed ase.Atoms, or why there is none. All volumes share the calls."""
    scaled = []
    for atoms in batch:
        for strain in STRAINS:
            scaled.append(_scaled(atoms, strain))
    found = relax(potential, scaled, fmax, steps, fixed_cells=True)
    fits: list[StateFit | SimulatorError] = []
    for place in range(len(batch)):
        points = found[place * len(STRAINS) : (place + 1) * len(STRAINS)]
        try:
            energies = [point.energy_per_atom * len(point.atoms) for point in points]
            fits.append(fit([float(point.atoms.cell.volume) for point in points], energies))
        except SimulatorError as error:
            fits.append(error)
    return fits


def _scaled(atoms: Any, strain: float) -> Any:
    copy = atoms.copy()
    copy.set_cell(atoms.cell.array * (1 + strain) ** (1 / 3), scale_atoms=True)
    return copy
