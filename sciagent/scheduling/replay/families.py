"""Synthetic families of ladders, each with something that a scheduler must cope with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sciagent.scheduling.replay.simulate import Truth

Array = NDArray[np.float64]

STEEP, FLAT = (1.0, 10.0, 100.0, 1000.0), (1.0, 3.0, 10.0, 30.0)


def gaussian(rng: np.random.Generator, n: int, loads: tuple[float, ...]) -> Array:
    """(n, len(loads) + 1): answers with the correlations `loads` to the last column, independent given it."""
    y = rng.standard_normal(n)
    rho = np.array(loads)
    noise = rng.standard_normal((n, len(rho)))
    return np.column_stack([rho * y[:, None] + np.sqrt(1 - rho**2) * noise, y])


def family(name: str, n: int, seed: int, top: float = 0.01) -> Truth:
    rng = np.random.default_rng([seed, n])
    loads = {"weak": (0.3, 0.5, 0.7), "worthless-middle": (0.5, 0.05, 0.9)}.get(name, (0.5, 0.7, 0.9))
    scores = gaussian(rng, n, loads)
    costs = np.tile(FLAT if name == "flat" else STEEP, (n, 1))
    threshold = np.quantile(scores[:, -1], 1 - top)
    return Truth(scores, costs, scores[:, -1] >= threshold)
