"""Waiting candidates as the rules see them, in one line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sciagent.domain.ports import OpenCandidates, RungRoom

NAN = float("nan")


def waiting(position: int, ids: Sequence[int], scores: Sequence[float] | None = None) -> OpenCandidates:
    """ids double as the order of arrival."""
    return OpenCandidates(
        position,
        np.array(ids, dtype=np.int64),
        np.array(ids, dtype=np.int64),
        np.array([NAN] * len(ids) if scores is None else scores, dtype=np.float64),
        np.zeros(len(ids)),
    )


def room(remaining: int | None = None, started: int = 0, running: int = 0) -> RungRoom:
    return RungRoom(remaining, np.array([], dtype=np.int64), started, running)
