"""Waiting candidates as the rules see them, in one line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.rules.rule_and_settings_bases import Waiting

NAN = float("nan")


def waiting(
    rung: int,
    rows: Sequence[int],
    expected: Sequence[float] | None = None,
    remaining: int | None = None,
    started: int = 0,
    running: int = 0,
) -> Waiting:
    """Candidates that wait for a rung, in the order in which they came. expected: expected utilities."""
    utilities = np.array([NAN] * len(rows) if expected is None else expected, dtype=np.float64)
    return Waiting(PaidIndex(rung), np.array(rows, dtype=np.intp), worths(utilities), remaining, started, running)


def worths(expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, 4) chance 0, the expected utility, margin 0 and no P(hit); NaN where it is unknown."""
    zero = np.where(np.isnan(expected), NAN, 0.0)
    return np.column_stack((zero, expected, zero, np.full(len(zero), NAN)))
