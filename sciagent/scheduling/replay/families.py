"""Synthetic families of ladders, each with something that a scheduler must cope with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sciagent.scheduling.replay.simulate import Truth

Array = NDArray[np.float64]

STEEP, FLAT = (1.0, 10.0, 100.0, 1000.0), (1.0, 3.0, 10.0, 30.0)


def gaussian(rng: np.random.Generator, n: int, loads: tuple[float, ...]) -> Array:
    """(n, len(loads) + 1): answers with the correlations `loads` to the last column. Each rung that is better than all
    below it is seen by those through it: a cheap method approximates the next dearer one, and adds nothing to it."""
    columns = [rng.standard_normal(n)]
    best, rho = columns[0], 1.0
    for load in reversed(loads):
        through, to = (best, load / rho) if load <= rho else (columns[0], load)
        columns.append(to * through + np.sqrt(1 - to**2) * rng.standard_normal(n))
        if load > 0.2:
            best, rho = columns[-1], load
    return np.column_stack(columns[::-1])


def family(name: str, n: int, seed: int, top: float = 0.01) -> Truth:
    rng = np.random.default_rng([seed, n])
    loads = {"weak": (0.3, 0.5, 0.7), "worthless-middle": (0.5, 0.05, 0.9)}.get(name, (0.5, 0.7, 0.9))
    scores = gaussian(rng, n, loads)
    costs = np.tile(FLAT if name == "flat" else STEEP, (n, 1))
    threshold = np.quantile(scores[:, -1], 1 - top)
    return Truth(scores, costs, scores[:, -1] >= threshold)
