"""Geometries of molecules as all engines take them, checks of their spin, distances and bonds, and engines' errors.

Module `starting_geometry` makes a geometry from a molecular graph.

Source: covalent radii: Cordero et al., Dalton Trans. 2832 (2008).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError

Positions = NDArray[np.float64]

# Distances are multiples of the sum of two covalent radii. The shortest real bonds (N2, CO, HF) have 0.77 or more.
OVERLAP = 0.6
BROKEN = 1.35  # the long N-N bond of N2O4 is at 1.25
FORMED = 1.15  # the bridgehead atoms of bicyclo[1.1.1]pentane, which are not bonded, are at 1.23
FORMED_ACROSS_ANGLE = 1.04  # atoms with a common neighbour: Si...Si in cyclodisiloxane is at 1.08


@dataclass(frozen=True, eq=False)
class Geometry:
    """A three-dimensional geometry of n atoms."""

    numbers: tuple[int, ...]
    """n atomic numbers."""
    positions: Positions
    """n x 3, angstrom."""
    charge: int = 0
    multiplicity: int = 1
    """2S + 1."""

    @property
    def electrons(self) -> int:
        """Number of electrons."""
        return sum(self.numbers) - self.charge

    @property
    def unpaired(self) -> int:
        """Number of unpaired electrons."""
        return self.multiplicity - 1

    @property
    def atoms(self) -> Any:
        """The atoms as an ASE object, without charge and multiplicity."""
        from ase import Atoms

        return Atoms(numbers=self.numbers, positions=self.positions)

    def moved(self, positions: Positions) -> Geometry:
        """Returns the same atoms, charge and multiplicity at other positions, n x 3, angstrom."""
        return replace(self, positions=np.array(positions, dtype=float))

    def to_xyz(self, comment: str = "") -> str:
        """Returns XYZ text in angstrom, with charge and multiplicity in the comment line."""
        lines = [str(len(self.numbers)), f"charge={self.charge} multiplicity={self.multiplicity} {comment}".strip()]
        for symbol, (x, y, z) in zip(self.atoms.symbols, self.positions, strict=True):
            lines.append(f"{symbol:<2} {x:15.8f} {y:15.8f} {z:15.8f}")
        return "\n".join(lines) + "\n"


OUTCOMES = {
    "element multiplicity missing_basis missing_ecp no_excited_state solvent undefined_stereo": Outcome.REFUSED,
    "not_periodic missing_setup viscosity_unknown no_parameters": Outcome.REFUSED,
    "scf_not_converged geometry_not_converged not_equilibrated no_overlap": Outcome.NOT_CONVERGED,
    "embedding_failed implausible_energy implausible_value not_finite overlapping_atoms": Outcome.IMPLAUSIBLE,
    "exception signal no_result bad_result symmetry_broken": Outcome.CRASHED,
    "memory_limit": Outcome.OUT_OF_MEMORY,
    "wall_limit": Outcome.TIMEOUT,
    "program_missing bad_input licence disk_full": Outcome.BAD_ENVIRONMENT,
}
"""{reasons of engines' errors, separated by blanks: the outcome that they have}."""
OUTCOME_OF_REASON = {Reason(reason): outcome for reasons, outcome in OUTCOMES.items() for reason in reasons.split()}


def failure(reason: Reason, detail: str, **diagnostics: Any) -> SimulatorError:
    """Returns an engine's error with diagnostics. OUTCOMES gives its outcome; reasons not listed are `unstable`."""
    return SimulatorError(OUTCOME_OF_REASON.get(reason, Outcome.UNSTABLE), reason, detail, **diagnostics)


def spin_fault(electrons: int, multiplicity: int) -> str | None:
    """Returns why the multiplicity is impossible for the number of electrons; None if it is possible.

    xtb and tblite compute some impossible multiplicities without an error.
    """
    if electrons < 1:
        return f"{electrons} electrons"
    if multiplicity < 1 or multiplicity - 1 > electrons:
        return f"multiplicity {multiplicity} with {electrons} electrons"
    if (electrons - multiplicity + 1) % 2:
        parity = "odd" if electrons % 2 else "even"
        return f"multiplicity {multiplicity} does not fit an {parity} number of electrons ({electrons})"
    return None


def check(geometry: Geometry) -> None:
    """Raises SimulatorError for a bad geometry: refused (multiplicity), implausible (not_finite, overlapping_atoms)."""
    fault = spin_fault(geometry.electrons, geometry.multiplicity)
    if fault:
        raise failure(Reason.MULTIPLICITY, fault)
    if not np.isfinite(geometry.positions).all():
        raise failure(Reason.NOT_FINITE, "a coordinate is NaN or infinite")
    relative = _relative_distances(geometry)
    if len(geometry.numbers) > 1 and relative.min() < OVERLAP:
        nearest = np.unravel_index(int(relative.argmin()), relative.shape)
        i = int(nearest[0])
        j = int(nearest[1])
        distance = float(np.linalg.norm(geometry.positions[i] - geometry.positions[j]))
        raise failure(Reason.OVERLAPPING_ATOMS, f"atoms {i} and {j} are {distance:.3f} angstrom apart")


def check_bonds(
    geometry: Geometry, bonds: Iterable[tuple[int, int]], reason: Reason = Reason.BOND_CHANGED, what: str = ""
) -> None:
    """Checks that bonded atoms are near each other and all other pairs are not.

    bonds: pairs of atom indices, hydrogens included. Raises SimulatorError with `reason`; its detail starts with
    `what`.
    """
    n = len(geometry.numbers)
    bonded = np.zeros((n, n), dtype=bool)
    for i, j in bonds:
        bonded[i, j] = True
        bonded[j, i] = True
    n_common_neighbours = bonded.astype(int) @ bonded.astype(int)
    formed_below = np.where(n_common_neighbours > 0, FORMED_ACROSS_ANGLE, FORMED)
    relative = _relative_distances(geometry)
    broken = bonded & (relative > BROKEN)
    formed = ~bonded & (relative < formed_below)
    for change, is_changed in (("broke", broken), ("formed", formed)):
        pairs = [(int(i), int(j)) for i, j in np.argwhere(is_changed) if i < j]
        if pairs:
            text = ", ".join(f"{i}-{j} at {relative[i, j]:.2f} covalent radii sums" for i, j in pairs[:3])
            raise failure(reason, f"{what}{len(pairs)} bond(s) {change}: {text}", pairs=pairs)


def bonds_of(mol: Any) -> list[tuple[int, int]]:
    """Returns the bonded atom pairs of an RDKit molecule or SMILES, hydrogens included, numbered as in `embed`."""
    from rdkit import Chem

    molecule = Chem.MolFromSmiles(mol) if isinstance(mol, str) else mol
    return [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in Chem.AddHs(molecule).GetBonds()]


def _relative_distances(geometry: Geometry) -> Positions:
    """Returns the distances divided by the sums of covalent radii, n x n; the diagonal is infinite."""
    from ase.data import covalent_radii

    radii = np.array(covalent_radii)[list(geometry.numbers)]
    distances = np.linalg.norm(geometry.positions[:, None] - geometry.positions[None], axis=-1)
    relative: Positions = distances / (radii[:, None] + radii[None])
    np.fill_diagonal(relative, np.inf)
    return relative
