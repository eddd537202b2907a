"""Rows of a bent plane, with unequal noise, for the processes of the law."""

from __future__ import annotations

import numpy as np

from sciagent.scheduling.law.gaussian_process import Hyper, Rows, squared_distance

A1, A2, LENGTH, A3, NOISE = 0.8, 0.6, 1.3, 0.7, 0.25
HYPER = Hyper(np.log([A1, A2, LENGTH, A3, NOISE]))
N, D = 40, 2


def rows(structure: bool = False) -> Rows:
    """A bent plane, with rows of unequal noise."""
    rng = np.random.default_rng(0)
    z, place = rng.standard_normal((N, D)), rng.standard_normal((N, 2))
    y = z @ [0.7, -0.4] + 0.5 * np.sin(2 * z[:, 0]) + NOISE * rng.standard_normal(N) + np.sin(place[:, 0])
    extra = np.where(rng.random(N) < 0.3, 0.2, 0.0)
    return Rows(z, y, extra, np.exp(-squared_distance(place, place)) if structure else None)
