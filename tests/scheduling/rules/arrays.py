"""Waiting candidates as the rules see them, in one line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.rules.rule_and_settings_bases import Waiting

NAN = float("nan")


def waiting(
    rung: int,
    rows: Sequence[int],
    scores: Sequence[float] | None = None,
    remaining: int | None = None,
    started: int = 0,
    running: int = 0,
) -> Waiting:
    """Candidates that wait for a rung, in the order in which they came."""
    score = np.array([NAN] * len(rows) if scores is None else scores, dtype=np.float64)
    return Waiting(PaidIndex(rung), np.array(rows, dtype=np.intp), score, remaining, started, running)
