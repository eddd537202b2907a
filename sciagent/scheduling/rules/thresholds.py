"""Thresholds: the gates decide who may go on; cheap rungs run first, and within a rung the most central go first.

The usual screening funnel. A dear rung is run while no candidate waits for a cheaper one, so that its places go to the
best of those that wait and not to the first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sciagent.domain.ports import Choice, OpenCandidates, RungRoom


class Thresholds:
    name = "thresholds"
    by_score = True
    stops_when_terminal_is_spent = True
    skips = False
    leaves_behind = False

    def choose(self, waiting: Sequence[OpenCandidates], room: Sequence[RungRoom], slots: int) -> list[Choice]:
        choices: list[Choice] = []
        for rung, space in zip(waiting, room, strict=True):
            free = slots - len(choices) if space.remaining is None else min(slots - len(choices), space.remaining)
            score = np.where(np.isnan(rung.score), -1.0, rung.score)
            for i in np.lexsort((rung.seq, -score))[: max(free, 0)]:
                why = f"thresholds: passed the gates below; score {score[i]:.3f}" if score[i] >= 0 else "thresholds"
                choices.append(Choice(int(rung.ids[i]), rung.position, index=float(score[i]), why=why))
            if len(choices) == slots:
                break
        return choices
