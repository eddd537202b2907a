"""The search for a minimum from a symmetric start, where a relaxation may end at a saddle point.

A relaxation follows forces, and no force leads away from the symmetry of its start: GFN2-xTB relaxes acetone from its
symmetric conformer to a stationary point with an imaginary mode, the rotation of its methyl groups. From there the
molecule is displaced along the mode, both ways, and relaxed again; the lower of the two ends is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from sciagent.errors import SimulatorError
from sciagent_simulators.geometry import Geometry
from sciagent_simulators.thermochemistry.normal_modes import NormalModes

DISPLACEMENT = 0.3  # angstrom, of the atom that moves most; 0.1 leaves acetone at another flat point, with 44i cm^-1
ROUNDS = 3


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
    """Returns the minimum next to the start, or the last saddle point after ROUNDS displacements.

    relaxed: relaxes a geometry and checks its bonds; an end that raises SimulatorError after a displacement is left
    out. limit: imaginary frequencies up to this, cm^-1, are none. Raises SimulatorError as `relaxed` does from the
    start, and as `modes_of` does.
    """
    geometry, result = relaxed(start)
    modes = modes_of(geometry, result)
    left: list[str] = []
    while modes.imaginary(limit) and len(left) < ROUNDS:
        left.append(modes.described(0, list(geometry.atoms.symbols)))
        step = modes.displacements[0] * DISPLACEMENT / np.linalg.norm(modes.displacements[0], axis=1).max()
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
    return Stationary(geometry, result, modes, _described(left))


def _described(left: list[str]) -> str:
    if not left:
        return ""
    times = "" if len(left) == 1 else f", {len(left)} times"
    return f"displaced both ways along {left[0]} and relaxed again{times}"
