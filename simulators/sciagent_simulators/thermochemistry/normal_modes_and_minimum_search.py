"""Normal modes of a molecule: harmonic frequencies from a Hessian, the search for a minimum, and the noise of soft
modes.

Translations and rotations are projected out. Frequencies are in cm^-1; an imaginary frequency is given as a negative
number. Hessians are in eV/angstrom^2.

Source: Wilson, Decius, Cross, Molecular Vibrations, 1955, ch. 2; the projection is that of Miller, Handy, Adams, J.
Chem. Phys. 72, 99 (1980).

A relaxation from a symmetric start may end at a saddle point. A relaxation follows forces, and no force leads away from
the symmetry of its start: GFN2-xTB relaxes acetone from its symmetric conformer to a stationary point with an imaginary
mode, the rotation of its methyl groups. From there the molecule is displaced along the mode, both ways, and relaxed
again; the lower of the two ends is kept.

The frequencies of soft modes differ between relaxations to the same minimum. A relaxation stops where forces are small,
not where they are zero, and along a flat mode it stops anywhere. The squared frequency, which is proportional to the
curvature, scatters by about the same for all modes: by NOISE. A frequency therefore scatters by NOISE / (2 frequency).
This is next to nothing for a stiff mode, and as much as the frequency itself for a mode at 10 cm^-1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.geometry_and_its_checks import Geometry, failure
from sciagent_simulators.thermochemistry.ideal_gas_and_symmetry_number import (
    HC,
    is_linear,
    quasi_harmonic_entropy,
    vibration_energy,
)

Array = NDArray[np.float64]

# cm^-1 of a mode with curvature 1 eV/(angstrom^2 Da): sqrt(e / (1e-20 m^2 * Da)) / (2 pi c), CODATA 2018
WAVENUMBER = 521.4708984

LARGEST_LIMIT = 500.0  # cm^-1; no message proposes a larger `imaginary_limit`, since larger frequencies are no noise


@dataclass(frozen=True, eq=False)
class NormalModes:
    """The vibrations of a molecule of n atoms: 3n - 6 modes, 3n - 5 of a linear molecule, none of an atom."""

    frequencies: Array
    """(m,), cm^-1, ascending; negative for an imaginary frequency."""
    displacements: Array
    """(m, n, 3), Cartesian displacements, each mode normalised to 1."""

    def imaginary(self, limit: float) -> list[int]:
        """Returns the indices of the modes whose imaginary frequency is larger than `limit` (cm^-1)."""
        return [int(k) for k in np.flatnonzero(self.frequencies < -limit)]

    def described(self, mode: int, symbols: list[str]) -> str:
        """Returns the mode's frequency and its most moving atoms, such as `312i cm^-1 (mainly H3, H4)`."""
        frequency = self.frequencies[mode]
        sizes = np.linalg.norm(self.displacements[mode], axis=1)
        largest_first = np.argsort(-sizes, kind="stable")
        moving = [int(k) for k in largest_first[:4] if sizes[k] > 0.3 * sizes.max()]
        atoms = ", ".join(f"{symbols[k]}{k + 1}" for k in sorted(moving))
        imaginary_sign = "i" if frequency < 0 else ""
        return f"{abs(frequency):.0f}{imaginary_sign} cm^-1 (mainly {atoms})"


def normal_modes(geometry: Geometry, hessian: Array) -> NormalModes:
    """Returns the normal modes. hessian: 3n x 3n, eV/angstrom^2; its antisymmetric part is ignored.

    Masses are the standard atomic weights, those of natural abundance.
    """
    n = len(geometry.numbers)
    masses = np.repeat(geometry.atoms.get_masses(), 3)
    weighted = (hessian + hessian.T) / 2 / np.sqrt(np.outer(masses, masses))
    space = vibrational_space(geometry)
    values, modes = np.linalg.eigh(space.T @ weighted @ space)
    frequencies = np.sign(values) * np.sqrt(np.abs(values)) * WAVENUMBER
    cartesian = (space @ modes) / np.sqrt(masses)[:, None]
    cartesian /= np.maximum(np.linalg.norm(cartesian, axis=0), 1e-12)
    return NormalModes(frequencies, cartesian.T.reshape(-1, n, 3))


def real_frequencies(modes: NormalModes, geometry: Geometry, limit: float, tried: str = "") -> tuple[Array, str]:
    """Returns positive frequencies, (m,), cm^-1, and a note on imaginary ones up to `limit`, which are taken as real.

    Small imaginary frequencies of flat modes are numerical noise. Raises SimulatorError unstable
    (imaginary_frequency), which names the modes beyond the limit, what was tried to leave the saddle point, and the
    limit that would accept it.
    """
    symbols = list(geometry.atoms.symbols)
    large = modes.imaginary(limit)
    if large:
        named = ", ".join(modes.described(k, symbols) for k in large)
        plural = "s" if len(large) > 1 else ""
        parts = [f"not a minimum: {len(large)} imaginary mode{plural}: {named}"]
        if tried:
            parts.append(tried)
        largest_imaginary = -modes.frequencies[0]
        accepting_limit = math.floor(largest_imaginary) + 1
        if accepting_limit <= LARGEST_LIMIT:
            pronoun = "them" if len(large) > 1 else "it"
            parts.append(f"imaginary_limit: {accepting_limit} takes {pronoun} as real")
        frequencies = [round(float(frequency), 1) for frequency in modes.frequencies]
        raise failure(Reason.IMAGINARY_FREQUENCY, "; ".join(parts), frequencies=frequencies)
    small = modes.imaginary(0.0)
    named = ", ".join(modes.described(k, symbols) for k in small)
    note = f"imaginary below {limit:g} cm^-1 and taken as real: {named}" if small else ""
    positive: Array = np.maximum(np.abs(modes.frequencies), 1.0)  # the entropy of a frequency of 0 is infinite
    return positive, note


def vibrational_space(geometry: Geometry) -> Array:
    """Returns an orthonormal basis, 3n x m, of mass-weighted displacements without translation and rotation."""
    atoms = geometry.atoms
    root_masses = np.sqrt(atoms.get_masses())[:, None]
    arms = geometry.positions - atoms.get_center_of_mass()
    translations = [(root_masses * axis).ravel() for axis in np.eye(3)]
    rotations = [(root_masses * np.cross(axis, arms)).ravel() for axis in np.eye(3)]
    rigid_motions = np.array(translations + rotations).T
    basis, _, _ = np.linalg.svd(rigid_motions, full_matrices=True)  # the rigid motions come first
    if len(arms) == 1:
        n_rigid = 3
    elif is_linear(geometry):
        n_rigid = 5
    else:
        n_rigid = 6
    space: Array = basis[:, n_rigid:]
    return space


def numerical_hessian(forces: Callable[[Array], Array], positions: Array, step: float) -> Array:
    """Returns the Hessian by central differences, 3n x 3n, eV/angstrom^2, not symmetrised.

    forces: returns n x 3, eV/angstrom, at positions n x 3. step: angstrom.
    """
    rows = []
    for k in range(positions.size):
        forces_of_both = []
        for sign in (1, -1):
            moved = positions.copy()
            moved.flat[k] += sign * step
            forces_of_both.append(forces(moved).ravel())
        forces_forward, forces_backward = forces_of_both
        rows.append((forces_backward - forces_forward) / (2 * step))
    return np.array(rows)


DISPLACEMENT = 0.3  # angstrom, of the atom that moves most; 0.1 leaves acetone at another flat point, with 44i cm^-1
MAX_ROUNDS = 3  # displacements from saddle points


class HasEnergy(Protocol):
    """The result of a relaxation."""

    @property
    def energy(self) -> float:
        """The energy of the geometry, eV."""


Result = TypeVar("Result", bound=HasEnergy)


@dataclass(frozen=True, eq=False)
class Stationary(Generic[Result]):
    """The stationary point at which a search ended: a minimum, unless it has imaginary modes beyond the limit."""

    geometry: Geometry
    result: Result
    """Result of the relaxation for the geometry."""
    modes: NormalModes
    tried: str
    """The attempts to leave saddle points; empty if the first relaxation ended at a minimum."""


def minimum(
    start: Geometry,
    relaxed: Callable[[Geometry], tuple[Geometry, Result]],
    modes_of: Callable[[Geometry, Result], NormalModes],
    limit: float,
) -> Stationary[Result]:
    """Returns the minimum next to the start, or the last saddle point after MAX_ROUNDS displacements.

    relaxed: relaxes a geometry and checks its bonds; an end that raises SimulatorError after a displacement is left
    out. limit: imaginary frequencies up to this, cm^-1, are none. Raises SimulatorError as `relaxed` does from the
    start, and as `modes_of` does.
    """
    geometry, result = relaxed(start)
    modes = modes_of(geometry, result)
    followed_modes: list[str] = []
    while modes.imaginary(limit) and len(followed_modes) < MAX_ROUNDS:
        followed_modes.append(modes.described(0, list(geometry.atoms.symbols)))
        displacement = modes.displacements[0]
        step = displacement * DISPLACEMENT / np.linalg.norm(displacement, axis=1).max()
        ends = []
        for sign in (1, -1):
            try:
                ends.append(relaxed(geometry.moved(geometry.positions + sign * step)))
            except SimulatorError:
                continue
        if not ends:
            break
        geometry, result = min(ends, key=lambda end: end[1].energy)
        modes = modes_of(geometry, result)
    return Stationary(geometry, result, modes, tried=_attempts(followed_modes))


def _attempts(followed_modes: list[str]) -> str:
    """Returns the text on the attempts to leave saddle points along these modes."""
    if not followed_modes:
        return ""
    times = "" if len(followed_modes) == 1 else f", {len(followed_modes)} times"
    return f"displaced both ways along {followed_modes[0]} and relaxed again{times}"


# Standard deviation of the squared lowest frequency, cm^-2: root mean square over the molecules of
# benchmarks/soft_modes, GFN2-xTB, six relaxations each.
NOISE = 240.0


@dataclass(frozen=True)
class SoftModeScatter:
    """Standard uncertainties by the noise of all modes. Modes err independently."""

    lowest: float | None
    """Standard uncertainty of the lowest frequency, cm^-1; None for an atom."""
    zero_point: float
    """Standard uncertainty of the zero-point energy, eV."""
    enthalpy: float
    """Standard uncertainty of the enthalpy, eV."""
    gibbs: float
    """Standard uncertainty of the free energy, eV."""


def soft_mode_scatter(frequencies: Array, temperature: float) -> SoftModeScatter:
    """Returns how far the noise moves the values. frequencies: (m,), cm^-1, positive; temperature: K."""
    if not frequencies.size:
        return SoftModeScatter(lowest=None, zero_point=0.0, enthalpy=0.0, gibbs=0.0)
    shifted = np.sqrt(frequencies**2 + NOISE)
    shift = shifted - frequencies
    energy_shift = vibration_energy(shifted, temperature) - vibration_energy(frequencies, temperature)
    entropy_shift = quasi_harmonic_entropy(shifted, temperature) - quasi_harmonic_entropy(frequencies, temperature)
    return SoftModeScatter(
        lowest=float(shift[frequencies.argmin()]),
        zero_point=float(np.linalg.norm(0.5 * HC * shift)),
        enthalpy=float(np.linalg.norm(energy_shift)),
        gibbs=float(np.linalg.norm(energy_shift - temperature * entropy_shift)),
    )
