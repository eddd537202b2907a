"""Thermal corrections of a molecule: ideal gas, rigid rotor, harmonic oscillator, and Grimme's quasi-harmonic entropy.

The enthalpy has the harmonic vibrations with their zero-point energy. The entropy of a vibration is interpolated
between that of a harmonic oscillator (high frequencies) and of a free rotor with the same frequency (low ones), since
the harmonic entropy of a soft mode grows without limit.

Energies are in eV, entropies in eV/K, frequencies in cm^-1. The electronic entropy is that of the multiplicity 2S + 1;
degeneracy in space (as in the radical NO) is not counted, nor are mirror images.

Sources: McQuarrie, Statistical Mechanics, 1976, ch. 5, 6 and 8. Interpolation: Grimme, Chem. Eur. J. 18, 9955 (2012),
eqs. 3 to 8, with 100 cm^-1, exponent 4 and the limiting moment of inertia 1e-44 kg m^2.

The rotational symmetry number of a geometry is the number of proper rotations that leave it unchanged.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sciagent_simulators.geometry_and_its_checks import Geometry

Array = NDArray[np.float64]

TOLERANCE = 0.1  # angstrom; the largest distance of a rotated atom from an atom of its element
ROUGH_TOLERANCE = 0.5  # angstrom; the same for the first estimate of a rotation, which rests on two atoms


def symmetry_number(geometry: Geometry, tolerance: float = TOLERANCE) -> int:
    """Returns the rotational symmetry number: 2 for water, 3 for ammonia, 12 for benzene, 1 for an atom.

    Two atoms that are not collinear with the centre, and their images, give a first estimate of a rotation. The
    estimate tells the image of each atom; the rotation that brings all atoms best to their images counts if it does so
    within the tolerance. A linear molecule has 2 with an inversion centre, otherwise 1.
    """
    arms = geometry.positions - geometry.atoms.get_center_of_mass()
    numbers = np.array(geometry.numbers)
    if len(numbers) == 1:
        return 1
    if is_linear(geometry):
        return 2 if _permutation(-arms, arms, numbers, tolerance) is not None else 1
    first, second = _reference_atoms(arms, numbers)
    frame = _frame(arms[first], arms[second])
    distance = np.linalg.norm(arms[first] - arms[second])
    permutations: set[tuple[int, ...]] = set()
    images_of_first = _atoms_like(arms, numbers, first)
    images_of_second = _atoms_like(arms, numbers, second)
    for a, b in itertools.product(images_of_first, images_of_second):
        # a rotation keeps the distance of the two atoms
        if a == b or abs(np.linalg.norm(arms[a] - arms[b]) - distance) > ROUGH_TOLERANCE:
            continue
        if _sine(arms[a], arms[b]) < 1e-3:  # collinear with the centre
            continue
        rotation_estimate = _frame(arms[a], arms[b]) @ frame.T
        permutation = _permutation(arms @ rotation_estimate.T, arms, numbers, ROUGH_TOLERANCE)
        if permutation is not None and _largest_deviation(arms, arms[list(permutation)]) < tolerance:
            permutations.add(permutation)
    return max(1, len(permutations))


def is_linear(geometry: Geometry) -> bool:
    """Returns whether all atoms lie on a line, within one percent of its length; an atom is not linear."""
    arms = geometry.positions - geometry.positions.mean(axis=0)
    if len(arms) < 2:
        return False
    sizes = np.linalg.svd(arms, compute_uv=False)
    return bool(sizes[1] < 0.01 * sizes[0])


def _reference_atoms(arms: Array, numbers: NDArray[np.int_]) -> tuple[int, int]:
    """Returns two atoms that are not collinear with the centre and have few possible images."""
    order = [k for k in range(len(arms)) if np.linalg.norm(arms[k]) > ROUGH_TOLERANCE]
    order.sort(key=lambda k: len(_atoms_like(arms, numbers, k)))
    for i, j in itertools.combinations(order, 2):
        if _sine(arms[i], arms[j]) > 0.2:
            return i, j

    # in a small or nearly linear molecule: the two atoms that span the largest triangle with the centre
    def area(pair: tuple[int, int]) -> float:
        return float(np.linalg.norm(np.cross(arms[pair[0]], arms[pair[1]])))

    return max(itertools.combinations(range(len(arms)), 2), key=area)


def _sine(a: Array, b: Array) -> float:
    """Returns the sine of the angle between two vectors."""
    return float(np.linalg.norm(np.cross(a, b)) / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-12))


def _atoms_like(arms: Array, numbers: NDArray[np.int_], atom: int) -> list[int]:
    """Returns the atoms of the same element at about the same distance from the centre."""
    radii = np.linalg.norm(arms, axis=1)
    is_alike = (numbers == numbers[atom]) & (np.abs(radii - radii[atom]) < ROUGH_TOLERANCE)
    return [int(k) for k in np.flatnonzero(is_alike)]


def _frame(a: Array, b: Array) -> Array:
    """Returns right-handed orthonormal axes as columns: the first between a and b, the third normal to both."""
    bisector = a / np.linalg.norm(a) + b / np.linalg.norm(b)
    bisector = bisector / np.linalg.norm(bisector)
    normal = np.cross(a, b)
    normal = normal / np.linalg.norm(normal)
    return np.array([bisector, np.cross(normal, bisector), normal]).T


def _permutation(turned: Array, arms: Array, numbers: NDArray[np.int_], tolerance: float) -> tuple[int, ...] | None:
    """Returns the atom of the same element on which each turned atom falls, or None if one falls on none."""
    distances = np.linalg.norm(turned[:, None] - arms[None], axis=-1)
    distances[numbers[:, None] != numbers[None]] = np.inf
    nearest = tuple(int(k) for k in distances.argmin(axis=1))
    is_near = distances.min(axis=1).max() < tolerance
    is_one_to_one = len(set(nearest)) == len(arms)
    return nearest if is_near and is_one_to_one else None


def _largest_deviation(arms: Array, images: Array) -> float:
    """Returns the largest distance of an atom from its image after the best proper rotation, angstrom."""
    left, _, right = np.linalg.svd(arms.T @ images)
    without_reflection = np.diag([1.0, 1.0, np.sign(np.linalg.det(left @ right))])
    rotated = arms @ left @ without_reflection @ right
    return float(np.linalg.norm(rotated - images, axis=1).max())


# CODATA 2018
K = 8.617333262e-5  # eV/K
HC = 1.239841984e-4  # eV cm
PLANCK = 6.62607015e-34  # J s
K_SI = 1.380649e-23  # J/K
DALTON = 1.66053906660e-27  # kg
LIGHT = 2.99792458e10  # cm/s
ATMOSPHERE = 101325.0  # Pa
LITRE_OF_MOLES = 6.02214076e26  # molecules per m^3 at 1 mol/L

CROSSOVER = 100.0  # cm^-1; at this frequency oscillator and free rotor have equal shares in the entropy
LIMITING_MOMENT = 1e-44  # kg m^2; largest moment of inertia of a free rotor


@dataclass(frozen=True)
class Conditions:
    """Temperature and standard state."""

    temperature: float = 298.15
    """K."""
    pressure: float | None = 1.0
    """Pressure in atm; None for a concentration of 1 mol/L."""

    @property
    def volume(self) -> float:
        """The volume of one molecule, m^3."""
        if self.pressure is None:
            return 1 / LITRE_OF_MOLES
        return K_SI * self.temperature / (self.pressure * ATMOSPHERE)

    @property
    def label(self) -> str:
        state = "1 mol/L" if self.pressure is None else f"{self.pressure:g} atm"
        return f"{self.temperature:g} K, {state}"


@dataclass(frozen=True)
class Thermal:
    """The thermal functions of a molecule above its electronic energy."""

    zero_point: float
    """Energy of the vibrations at 0 K, eV."""
    enthalpy: float
    """H(T) - E(electronic), with the zero-point energy and kT for the volume, eV."""
    entropy: float
    """Quasi-harmonic entropy, eV/K."""
    harmonic_entropy: float
    """Entropy with harmonic oscillators only, eV/K."""
    symmetry: int
    """Rotational symmetry number."""

    def gibbs(self, temperature: float) -> float:
        """Returns G(T) - E(electronic), eV."""
        return self.enthalpy - temperature * self.entropy


def thermal(geometry: Geometry, frequencies: Array, conditions: Conditions, symmetry: int | None = None) -> Thermal:
    """Returns the thermal functions. frequencies: (m,), cm^-1, positive.

    symmetry: rotational symmetry number; None computes it from the geometry.

    Raises ValueError for a frequency that is not positive.
    """
    if (frequencies <= 0).any():
        raise ValueError(f"frequencies must be positive: {frequencies.min():.1f} cm^-1")
    temperature = conditions.temperature
    if symmetry is None:
        symmetry = symmetry_number(geometry)
    rotation_energy, rotation_entropy = rotation(geometry, temperature, symmetry)
    zero_point = 0.5 * HC * float(frequencies.sum())
    vibration = float(vibration_energy(frequencies, temperature).sum())
    electronic_entropy = K * math.log(geometry.multiplicity)
    other_entropy = translation_entropy(geometry, conditions) + rotation_entropy + electronic_entropy
    harmonic = oscillator_entropy(frequencies, temperature)
    mixed = quasi_harmonic_entropy(frequencies, temperature)
    return Thermal(
        zero_point=zero_point,
        enthalpy=2.5 * K * temperature + rotation_energy + vibration,  # translation 3/2 kT, volume kT
        entropy=other_entropy + float(mixed.sum()),
        harmonic_entropy=other_entropy + float(harmonic.sum()),
        symmetry=symmetry,
    )


def translation_entropy(geometry: Geometry, conditions: Conditions) -> float:
    """Returns the entropy of translation by Sackur and Tetrode, eV/K."""
    mass = float(geometry.atoms.get_masses().sum()) * DALTON
    states = (2 * math.pi * mass * K_SI * conditions.temperature / PLANCK**2) ** 1.5 * conditions.volume
    return K * (math.log(states) + 2.5)


def rotation(geometry: Geometry, temperature: float, symmetry: int) -> tuple[float, float]:
    """Returns energy (eV) and entropy (eV/K) of a classical rigid rotor; both are 0 for an atom."""
    if len(geometry.numbers) == 1:
        return 0.0, 0.0
    moments = np.sort(geometry.atoms.get_moments_of_inertia()) * DALTON * 1e-20  # kg m^2
    factors = 8 * math.pi**2 * moments * K_SI * temperature / PLANCK**2
    if is_linear(geometry):  # the smallest moment is 0, the others are equal
        return K * temperature, K * (math.log(factors[2] / symmetry) + 1)
    states = math.sqrt(math.pi * float(np.prod(factors))) / symmetry
    return 1.5 * K * temperature, K * (math.log(states) + 1.5)


def vibration_energy(frequencies: Array, temperature: float) -> Array:
    """Returns the energy of each harmonic oscillator with its zero-point energy, (m,), eV."""
    energy: Array = HC * frequencies * (0.5 + 1 / np.expm1(HC * frequencies / (K * temperature)))
    return energy


def quasi_harmonic_entropy(frequencies: Array, temperature: float) -> Array:
    """Returns Grimme's entropy of each mode, between harmonic oscillator and free rotor, (m,), eV/K."""
    share = rotor_share(frequencies)
    harmonic = oscillator_entropy(frequencies, temperature)
    free = free_rotor_entropy(frequencies, temperature)
    mixed: Array = (1 - share) * harmonic + share * free
    return mixed


def oscillator_entropy(frequencies: Array, temperature: float) -> Array:
    """Returns the entropy of each harmonic oscillator, (m,), eV/K."""
    x = HC * frequencies / (K * temperature)
    entropy: Array = K * (x / np.expm1(x) - np.log(-np.expm1(-x)))
    return entropy


def free_rotor_entropy(frequencies: Array, temperature: float) -> Array:
    """Returns the entropy of a free rotor with each frequency, (m,), eV/K."""
    moment = PLANCK / (8 * math.pi**2 * frequencies * LIGHT)
    moment = moment * LIMITING_MOMENT / (moment + LIMITING_MOMENT)
    states = np.sqrt(8 * math.pi**3 * moment * K_SI * temperature / PLANCK**2)
    entropy: Array = K * (0.5 + np.log(states))
    return entropy


def rotor_share(frequencies: Array) -> Array:
    """Returns the weight of the free rotor in each mode's entropy, (m,): 1/2 at CROSSOVER."""
    share: Array = 1 / (1 + (frequencies / CROSSOVER) ** 4)
    return share
