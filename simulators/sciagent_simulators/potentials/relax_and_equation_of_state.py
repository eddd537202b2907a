"""Relaxes positions and cells of many crystals at once, and fits the equation of state of the relaxed ones.

FIRE acts on the positions and the logarithm of the strain. Each crystal has its own time step, mixing and convergence,
so it relaxes as it would alone; only the evaluation of the potential is shared. The steps are those of ASE's FIRE with
its FrechetCellFilter. A crystal that collapses, expands without limit or meets numbers that are not finite is set aside
with its fault, and the others go on.

Source: Bitzek et al., Phys. Rev. Lett. 97, 170201 (2006); the gradient of the cell: J. Kermode and K. Shinohara in ASE.

The equation of state is that of Birch and Murnaghan, fitted to energies at scaled volumes. The third-order equation is
a cubic polynomial in V^(-2/3), so the fit is linear. The cell is scaled uniformly, without a change of its shape, and
positions are relaxed at each volume. The modulus is therefore an upper bound for cells that are not cubic.

Source: Birch, Phys. Rev. 71, 809 (1947).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.potentials.potential_base_and_registry import Numbers, Potential, PotentialValues

# The parameters of FIRE, in ASE's units.
MAX_STEP = 0.2  # angstrom, norm of a step
FIRST_TIME_STEP = 0.1
MAX_TIME_STEP = 1.0
MIXING = 0.1  # share of the velocity that is turned along the forces, at first
MIXING_DECAY = 0.99  # factor of the mixing when the time step grows
STEPS_BEFORE_GROWTH = 5  # steps downhill before the time step grows
GROWTH = 1.1  # factor of the time step after many steps downhill
SHRINKAGE = 0.5  # factor of the time step after a step uphill

MIN_HEIGHT = 1.0  # angstrom, of the cell above its faces
MIN_VOLUME_RATIO = 0.25
"""Volume over the first volume below which a relaxation is given up."""
MAX_VOLUME_RATIO = 4.0
"""Volume over the first volume above which a relaxation is given up."""
MAX_FORCE = 1e4  # eV/angstrom
TIGHTER = (4, 16)
"""Factors by which the limit of the forces is smaller in the further relaxations of a cell with a soft vector."""
SETTLED = 0.006
"""Strain (root mean square of three) up to which a further relaxation confirms the one before: 1 % along an axis."""
FURTHER_STEPS = 3  # times as many evaluations in a further relaxation
NOTED = 8
"""The cell is noted when forces were last above this many times the limit. Its strain from there to the end tells how
converged it is. With a smaller factor the strain depends on the very step at which forces fell below it."""
LOOSER = 4
"""A cell whose first forces are below this many times the limit is relaxed to a smaller limit, so that it moves at all
and its strain can be told."""
TIGHTEST = 0.0005
"""Limit of the forces, eV/angstrom, below which the strain of a cell is not followed."""

RelaxReport = Callable[[int, int, float], None]
"""Takes the number of crystals that are relaxed or set aside, the evaluations so far, and the largest force on an atom
or a cell of the others, eV/angstrom. It is called after each evaluation."""


def _unheard(n_done: int, evaluations: int, fmax: float) -> None:
    """Ignores a report."""


@dataclass(frozen=True)
class Relaxed:
    """A crystal after its relaxation, or where it was given up."""

    atoms: Any
    """The ase.Atoms."""
    last: PotentialValues | None
    """Energy, forces and stress there; None if no evaluation gave finite numbers."""
    steps: int
    """Number of evaluations."""
    fmax: float
    """Largest norm among the forces on atoms and on the cell, eV/angstrom; forces on the cell are per atom."""
    volume_ratio: float
    """Volume over the volume before the relaxation."""
    seconds: float = 0.0
    """Core-seconds that the evaluations take alone; 0 if the model does not tell."""
    fault: SimulatorError | None = None
    """The reason why there is no result; None if the relaxation has converged."""
    last_strain: float = 0.0
    """Root mean square of the principal strains of the cell in the last part of the relaxation, without unit: since
    forces were NOTED times the limit (0 if nobody asked for it), or in the last further relaxation by `settle`."""

    @property
    def energy_per_atom(self) -> float:
        """In eV per atom. Raises SimulatorError if the relaxation has failed."""
        if self.fault is not None:
            raise self.fault
        if self.last is None:
            raise SimulatorError(Outcome.NOT_CONVERGED, Reason.GEOMETRY_NOT_CONVERGED, "no energy")
        return self.last.energy / len(self.atoms)


@dataclass
class _Member:
    """One crystal of n atoms during its relaxation."""

    atoms: Any
    """The ase.Atoms, which move."""
    limit: float
    """Forces up to which the crystal is relaxed, eV/angstrom."""
    is_cell_fixed: bool = False
    """Whether only positions are relaxed."""
    has_strain: bool = False
    """Whether the strain of the last part of the relaxation is measured."""
    noted: Numbers = field(init=False)
    """3 x 3, the cell when a force was last above NOTED times the limit, or the first one, in angstrom."""
    cell: Numbers = field(init=False)
    """3 x 3, the cell before the relaxation, vectors as rows, in angstrom."""
    logarithm: Numbers = field(init=False)
    """3 x 3, the matrix logarithm of the deformation gradient."""
    gradient: Numbers = field(init=False)
    """3 x 3, the deformation gradient: the present cell is `cell` times its transpose."""
    undeformed: Numbers = field(init=False)
    """n x 3, the positions if the cell were still `cell`, in angstrom."""
    velocity: Numbers | None = None
    """(n + 3) x 3, the velocity of FIRE, in the order of `forces`; None before the first step."""
    time_step: float = FIRST_TIME_STEP
    mixing: float = MIXING
    downhill: int = 0
    """Steps since the last one uphill."""
    steps: int = 0
    """Number of evaluations."""
    seconds: float = 0.0
    """Core-seconds that the evaluations take alone."""
    last: PotentialValues | None = None
    """The last evaluation with finite numbers."""
    forces: Numbers = field(init=False)
    """(n + 3) x 3: the forces on the n atoms of the undeformed cell, then the force on `logarithm` divided by n."""
    fault: SimulatorError | None = None
    """The reason why the relaxation was given up."""

    def __post_init__(self) -> None:
        self.cell = self.atoms.cell.array.copy()
        self.noted = self.cell
        self.logarithm = np.zeros((3, 3))
        self.gradient = np.eye(3)
        self.undeformed = self.atoms.positions.copy()
        self.forces = np.full((len(self.atoms) + 3, 3), np.inf)  # no crystal is relaxed before the first evaluation

    @property
    def fmax(self) -> float:
        return float(np.linalg.norm(self.forces, axis=1).max())

    @property
    def volume_ratio(self) -> float:
        return volume(self.atoms.cell.array) / max(volume(self.cell), 1e-300)  # no division by 0 for a flat cell

    def set_forces(self, values: PotentialValues) -> None:
        """Sets the forces from an evaluation of the potential, or the fault."""
        self.steps += 1
        self.seconds += values.seconds
        if not values.is_finite:
            self.fault = _fault(Outcome.IMPLAUSIBLE, Reason.NOT_FINITE, "the energy or a force is not a finite number")
            return
        self.last = values
        forces_on_cell = np.zeros((3, 3))
        if not self.is_cell_fixed:
            virial = -volume(self.atoms.cell.array) * values.stress
            forces_on_gradient = virial @ np.linalg.inv(self.gradient.T)
            # the chain rule, since the gradient is the exponential of the logarithm
            forces_on_cell = _directional_derivative(self.logarithm.T, forces_on_gradient)
        self.forces = np.vstack([values.forces @ self.gradient, forces_on_cell / len(self.atoms)])
        largest = np.abs(values.forces).max()
        if largest > MAX_FORCE:
            detail = f"a force of {largest:.3g} eV/angstrom: atoms overlap"
            self.fault = _fault(Outcome.IMPLAUSIBLE, Reason.OVERLAPPING_ATOMS, detail)
        if self.has_strain:
            self._note_cell()

    def _note_cell(self) -> None:
        """Notes the cell while forces are large. A crystal that begins with small ones is relaxed further."""
        fmax = self.fmax
        if fmax > NOTED * self.limit:
            self.noted = self.atoms.cell.array.copy()
        elif self.steps == 1 and fmax <= LOOSER * self.limit:
            self.limit = max(fmax / LOOSER, min(self.limit, TIGHTEST))

    def step(self) -> None:
        """Moves atoms and cell by one step of FIRE."""
        forces = self.forces
        if self.velocity is None:
            self.velocity = np.zeros_like(forces)
        elif (forces * self.velocity).sum() > 0:  # downhill
            speed = np.linalg.norm(self.velocity)
            along_forces = forces / np.linalg.norm(forces) * speed
            self.velocity = (1 - self.mixing) * self.velocity + self.mixing * along_forces
            if self.downhill > STEPS_BEFORE_GROWTH:
                self.time_step = min(self.time_step * GROWTH, MAX_TIME_STEP)
                self.mixing *= MIXING_DECAY
            self.downhill += 1
        else:
            self.velocity = np.zeros_like(forces)
            self.mixing = MIXING
            self.downhill = 0
            self.time_step *= SHRINKAGE
        self.velocity = self.velocity + self.time_step * forces
        move = self.time_step * self.velocity
        length = max(float(np.linalg.norm(move)), 1e-300)  # no division by 0
        move *= min(1.0, MAX_STEP / length)
        self._move(move)

    def _move(self, move: Numbers) -> None:
        """Moves atoms and cell, and sets the fault if the cell has collapsed or grown too far. move: as `forces`."""
        from scipy.linalg import expm

        move_of_atoms = move[:-3]
        move_of_cell = move[-3:]  # of n times the logarithm, as in ASE
        self.undeformed = self.undeformed + move_of_atoms
        self.logarithm = self.logarithm + move_of_cell / len(self.atoms)
        self.gradient = expm(self.logarithm)
        self.atoms.set_cell(self.cell @ self.gradient.T, scale_atoms=False)
        self.atoms.set_positions(self.undeformed @ self.gradient.T)
        self.fault = self._cell_fault()

    def _cell_fault(self) -> SimulatorError | None:
        """Returns the fault of a cell that has collapsed or grown too far, or None."""
        ratio = self.volume_ratio
        height = min(heights(self.atoms.cell.array))
        if not np.isfinite(ratio) or ratio > MAX_VOLUME_RATIO:
            return _fault(Outcome.UNSTABLE, Reason.VOLUME_CHANGED, f"the cell grew to {ratio:.3g} times its volume")
        if ratio < MIN_VOLUME_RATIO or height < MIN_HEIGHT:
            detail = f"{ratio:.2f} times its volume, {height:.2f} angstrom high after {self.steps} steps"
            return _fault(Outcome.IMPLAUSIBLE, Reason.COLLAPSED, f"the cell collapses: {detail}")
        return None

    def result(self, fmax: float) -> Relaxed:
        """Returns the crystal as it is now; with a fault if a force is above fmax (eV/angstrom)."""
        fault = self.fault
        if fault is None and self.fmax > fmax:
            detail = f"the largest force is {self.fmax:.3g} eV/angstrom after {self.steps} steps; the limit is {fmax:g}"
            fault = _fault(Outcome.NOT_CONVERGED, Reason.GEOMETRY_NOT_CONVERGED, detail)
        strain = strain_between(self.noted, self.atoms.cell.array) if self.has_strain and fault is None else 0.0
        return Relaxed(
            self.atoms, self.last, self.steps, self.fmax, self.volume_ratio, self.seconds, fault, last_strain=strain
        )


def relax(
    potential: Potential,
    batch: Sequence[Any],
    fmax: float = 0.05,
    steps: int = 300,
    fixed_cells: bool = False,
    with_strain: bool = False,
    report: RelaxReport = _unheard,
) -> list[Relaxed]:
    """Relaxes positions and cells, or with `fixed_cells` positions only.

    Returns one result for each ase.Atoms, in order; the given ones do not change.

    fmax: eV/angstrom, the limit for forces on atoms and on the cell. steps: evaluations of each crystal at most.
    with_strain: whether `last_strain` is measured; for it a crystal whose first forces are below LOOSER times the limit
    is relaxed until they are that much smaller, or TIGHTEST.
    """
    members = [_Member(atoms.copy(), fmax, fixed_cells, with_strain) for atoms in batch]
    for member in members:
        if not _is_periodic(member):
            member.fault = _fault(Outcome.REFUSED, Reason.COLLAPSED, "no cell in three dimensions, or a flat one")
    active = [member for member in members if member.fault is None]
    n_evaluations = 0
    while active:
        evaluations = evaluate(potential, [member.atoms for member in active])
        for member, values in zip(active, evaluations, strict=True):
            member.set_forces(values)
        active = [m for m in active if m.fault is None and m.fmax > m.limit and m.steps < steps]
        n_evaluations += 1
        report(len(members) - len(active), n_evaluations, max((member.fmax for member in active), default=0.0))
        for member in active:
            member.step()
        active = [member for member in active if member.fault is None]  # a step may have set a fault
    return [member.result(fmax) for member in members]


def settle(
    potential: Potential, relaxed: Sequence[Relaxed], fmax: float, steps: int, report: RelaxReport = _unheard
) -> list[Relaxed]:
    """Returns cells with a soft vector, relaxed further at smaller forces until their strain is at most SETTLED.

    Where only weak forces act, as between layers, forces are below `fmax` long before the minimum, and the cell looks
    converged. A cell that still changes at the smallest limit gets a fault (geometry_not_converged).

    relaxed: converged relaxations. fmax: their limit, eV/angstrom. steps: evaluations of each of them at most.
    """
    results = list(relaxed)
    moving = list(range(len(results)))
    for factor in TIGHTER:
        cells = [results[index].atoms for index in moving]
        further = relax(potential, cells, fmax / factor, FURTHER_STEPS * steps, with_strain=True, report=report)
        for index, more in zip(moving, further, strict=True):
            results[index] = _continued(results[index], more)
        moving = [i for i in moving if results[i].fault is None and results[i].last_strain > SETTLED]
        if not moving:
            break
    for index in moving:
        strain = results[index].last_strain
        limit = fmax / TIGHTER[-1]
        detail = f"a cell with a vector that no bonds cross is still strained by {strain:.1%} at {limit:g} eV/angstrom"
        fault = _fault(Outcome.NOT_CONVERGED, Reason.GEOMETRY_NOT_CONVERGED, detail)
        results[index] = replace(results[index], fault=fault)
    return results


def _continued(first: Relaxed, further: Relaxed) -> Relaxed:
    """Returns the further relaxation of a cell with what both have cost and changed. One that did not move a cell
    confirms nothing: the strain stays that of the relaxation before."""
    strain = strain_between(first.atoms.cell.array, further.atoms.cell.array)
    return replace(
        further,
        steps=first.steps + further.steps,
        volume_ratio=first.volume_ratio * further.volume_ratio,
        seconds=first.seconds + further.seconds,
        last_strain=strain if further.steps > 1 else first.last_strain,
    )


def evaluate(potential: Potential, batch: Sequence[Any]) -> list[PotentialValues]:
    """Returns the evaluations of all structures, with as many in a call as the potential takes at once."""
    evaluations = list[PotentialValues]()
    for part in _parts(batch, potential.atoms_at_once):
        evaluations.extend(potential.evaluate(part))
    return evaluations


def _parts(batch: Sequence[Any], max_atoms: int) -> Iterator[Sequence[Any]]:
    """Yields parts of the batch with at most `max_atoms` atoms each; a larger structure is a part of its own."""
    part = list[Any]()
    n_atoms = 0
    for atoms in batch:
        if part and n_atoms + len(atoms) > max_atoms:
            yield part
            part = []
            n_atoms = 0
        part.append(atoms)
        n_atoms += len(atoms)
    if part:
        yield part


def strain_between(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    """Returns the root mean square of the three principal strains that turn one cell into another, without unit.

    before, after: 3 x 3, vectors as rows, in angstrom. Rotations do not count."""
    deformation = np.linalg.solve(before, after)
    stretches = np.linalg.svd(deformation, compute_uv=False)
    return float(np.sqrt(np.mean(np.square(stretches - 1))))


def heights(cell: NDArray[np.float64]) -> Numbers:
    """Returns (3,) the distances between opposite faces of a cell, in angstrom. cell: 3 x 3, vectors as rows."""
    a, b, c = cell.tolist()
    face_areas = [math.hypot(*_cross(u, v)) for u, v in ((b, c), (c, a), (a, b))]
    return np.array([volume(cell) / max(area, 1e-12) for area in face_areas])  # no division by 0


def volume(cell: NDArray[np.float64]) -> float:
    """Returns the volume of a cell, angstrom**3. NumPy's determinant takes ten times as long for 3 x 3."""
    a, b, c = cell.tolist()
    face = _cross(b, c)
    return float(abs(a[0] * face[0] + a[1] * face[1] + a[2] * face[2]))


def _cross(u: Sequence[float], v: Sequence[float]) -> tuple[float, float, float]:
    """Returns the vector product."""
    return u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]


def _is_periodic(member: _Member) -> bool:
    """Returns whether the crystal has a cell in three dimensions that is not flat."""
    is_flat = min(heights(member.cell)) < MIN_HEIGHT
    return bool(member.atoms.pbc.all()) and not is_flat


def _directional_derivative(matrix: Numbers, direction: Numbers) -> Numbers:
    """Returns the derivative of exp(matrix) in a direction, all 3 x 3.

    It is the upper right block of the exponential of the 6 x 6 matrix with the blocks matrix, direction, 0, matrix."""
    from scipy.linalg import expm

    blocks = np.zeros((6, 6))
    blocks[:3, :3] = matrix
    blocks[3:, 3:] = matrix
    blocks[:3, 3:] = direction
    derivative: Numbers = expm(blocks)[:3, 3:]
    return derivative


def _fault(outcome: Outcome, reason: Reason, detail: str) -> SimulatorError:
    return SimulatorError(outcome, reason, detail)


GPA = 160.21766208  # GPa in an eV/angstrom**3
STRAINS = (-0.06, -0.04, -0.02, 0.0, 0.02, 0.04, 0.06)
"""Relative changes of the volume at which energies are computed."""
FEWEST_IN_RANGE = 5
"""Fewest neighbouring volumes of a fit; the equation has four constants."""


@dataclass(frozen=True)
class StateFit:
    """The minimum of an equation of state."""

    volume: float
    """Volume at zero pressure, in angstrom**3."""
    bulk_modulus: float
    """Bulk modulus, in GPa."""
    derivative: float
    """The derivative of the bulk modulus by pressure, without unit."""
    residual: float
    """Root mean square of the fit's errors, in eV."""
    modulus_spread: float = 0.0
    """Half of the range of bulk moduli over fits to fewer neighbouring volumes, in GPa; 0 without such fits."""


def fit_over_ranges(volumes: Sequence[float], energies: Sequence[float]) -> StateFit:
    """Returns the fit to all volumes, in ascending order, with the spread over its ranges.

    The ranges are all that have at least FEWEST_IN_RANGE neighbouring volumes; one without a minimum does not count.
    Raises SimulatorError if there is no minimum among the volumes."""
    whole = fit(volumes, energies)
    moduli = [whole.bulk_modulus]
    for n in range(FEWEST_IN_RANGE, len(volumes)):
        for first in range(len(volumes) - n + 1):
            with contextlib.suppress(SimulatorError):
                moduli.append(fit(volumes[first : first + n], energies[first : first + n]).bulk_modulus)
    return replace(whole, modulus_spread=(max(moduli) - min(moduli)) / 2)


def fit(volumes: Sequence[float], energies: Sequence[float]) -> StateFit:
    """Returns the minimum of the third-order Birch-Murnaghan equation. volumes: angstrom**3; energies: eV.

    Raises SimulatorError if there is no minimum among the volumes."""
    v = np.asarray(volumes, dtype=float)
    e = np.asarray(energies, dtype=float)
    curve = np.polynomial.Polynomial.fit(v ** (-2 / 3), e, 3)  # x = V^(-2/3)
    roots = np.asarray(curve.deriv().roots(), dtype=complex)
    real_roots = roots[np.abs(roots.imag) < 1e-12].real
    minima = []
    for x in (float(root) for root in real_roots if root > 0):
        is_among_volumes = v.min() <= x**-1.5 <= v.max()
        if is_among_volumes and float(curve.deriv(2)(x)) > 0:
            minima.append(x)
    if not minima:
        raise SimulatorError(Outcome.NOT_CONVERGED, Reason.GEOMETRY_NOT_CONVERGED, "no minimum among the volumes")
    x = minima[0]
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
    """Returns the equation of state of each relaxed ase.Atoms, or the error why there is none.

    The calls of the potential are shared by all crystals and volumes."""
    scaled = []
    for atoms in batch:
        for strain in STRAINS:
            scaled.append(_scaled(atoms, strain))
    relaxed = relax(potential, scaled, fmax, steps, fixed_cells=True)
    fits: list[StateFit | SimulatorError] = []
    # the volumes of a crystal follow one another in `relaxed`
    for first in range(0, len(relaxed), len(STRAINS)):
        points = relaxed[first : first + len(STRAINS)]
        try:
            volumes = [float(point.atoms.cell.volume) for point in points]
            energies = [point.energy_per_atom * len(point.atoms) for point in points]
            fits.append(fit_over_ranges(volumes, energies))
        except SimulatorError as error:
            fits.append(error)
    return fits


def _scaled(atoms: Any, strain: float) -> Any:
    """Returns a copy whose volume is larger by the share `strain`, at the same fractional positions."""
    copy = atoms.copy()
    copy.set_cell(atoms.cell.array * (1 + strain) ** (1 / 3), scale_atoms=True)
    return copy
