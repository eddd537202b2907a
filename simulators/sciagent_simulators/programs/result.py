"""The result of a self-consistent field by an external program, and the checks that every result has to pass."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sciagent.domain.outcomes import Reason
from sciagent_simulators.geometry import Geometry, Positions, failure

SPIN_TOLERANCE = 0.1  # largest accepted <S^2> - S(S+1)
SAME_PLACE = 0.01  # angstrom


@dataclass(frozen=True)
class ProgramResult:
    """The values that a program computed. HOMO and LUMO are the highest and the lowest of both spins."""

    energy: float
    """eV; in a solvent it includes the free energy of solvation."""
    homo: float | None
    """eV; None if no orbital is occupied."""
    lumo: float | None
    """eV; None if no orbital is empty."""
    dipole: float
    """Norm in debye; for an ion, about its centre of mass."""
    geometry: Geometry
    """The geometry of these values: the one handed in, or the relaxed one."""
    diagnostics: dict[str, Any] = field(default_factory=dict)
    """Facts of the calculation, such as the number of cycles."""

    @property
    def gap(self) -> float | None:
        return None if self.homo is None or self.lumo is None else self.lumo - self.homo


def scf_facts(n_energies: int, s_squared: float | None) -> dict[str, Any]:
    """Returns diagnostics. n_energies: energies in the output, one for each geometry. s_squared: <S^2> if printed."""
    facts = {"relax_steps": n_energies - 1} if n_energies > 1 else {}
    return facts if s_squared is None else {**facts, "s_squared": s_squared}


def checked(result: ProgramResult, asked: Geometry, relaxed: bool) -> ProgramResult:
    """Returns the result if it can belong to the geometry that was handed in.

    relaxed: whether the program was asked to move the atoms.
    Raises SimulatorError: crashed (bad_result) for other atoms, charge or multiplicity, implausible (not_finite,
    implausible_energy), unstable (spin_contaminated).
    """
    got = result.geometry
    if got.numbers != asked.numbers:
        raise failure(Reason.BAD_RESULT, f"{len(got.numbers)} atoms in the output, {len(asked.numbers)} were asked for")
    if (got.charge, got.multiplicity) != (asked.charge, asked.multiplicity):
        detail = f"charge {got.charge}, multiplicity {got.multiplicity} in the output"
        raise failure(Reason.BAD_RESULT, f"{detail}; asked for {asked.charge} and {asked.multiplicity}")
    numbers = [result.energy, result.dipole, *(value for value in (result.homo, result.lumo) if value is not None)]
    if not (all(map(math.isfinite, numbers)) and np.isfinite(got.positions).all()):
        raise failure(Reason.NOT_FINITE, "a value of the result is NaN or infinite")
    if not relaxed and np.abs(_distances(got) - _distances(asked)).max() > SAME_PLACE:
        raise failure(Reason.BAD_RESULT, "the distances between the atoms are not those of the geometry asked for")
    if result.energy >= 0:
        raise failure(Reason.IMPLAUSIBLE_ENERGY, f"total energy {result.energy:.3f} eV is not negative")
    spin, s_squared = asked.unpaired / 2, result.diagnostics.get("s_squared")
    if s_squared is not None and s_squared - spin * (spin + 1) > SPIN_TOLERANCE:
        detail = f"<S^2> is {s_squared:.3f}; a pure multiplicity {asked.multiplicity} has {spin * (spin + 1):.3f}"
        raise failure(Reason.SPIN_CONTAMINATED, detail, s_squared=s_squared)
    return result


def _distances(geometry: Geometry) -> Positions:
    distances: Positions = np.linalg.norm(geometry.positions[:, None] - geometry.positions[None], axis=-1)
    return distances
