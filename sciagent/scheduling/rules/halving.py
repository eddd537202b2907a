"""Halving: of all that a rung has answered, the best 1/eta go on to the next; asynchronous: nobody waits for a round.

The rung that is furthest up comes first: its best candidate goes on as soon as there is a place for it, that is while
    started(next rung) < floor(answered(this rung) / eta).
When no rung has a place, the first paid rung takes the next that waits. What is not promoted stays where it is and may
be promoted later, when more has been answered.

Source: Li et al., MLSys 2020, arXiv 1810.05934 (ASHA), with one change: theirs promotes whoever is among the best 1/eta
of all, even if 1/eta of all have gone on already; here the share is kept, because each rung is dearer than the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sciagent.domain.ports import Choice, OpenCandidates, RungRoom


class Halving:
    name = "halving"
    by_score = True
    stops_when_terminal_is_spent = True
    skips = False
    leaves_behind = True

    def __init__(self, eta: float) -> None:
        if eta <= 1:
            raise ValueError(f"eta = {eta}; it must be larger than 1")
        self._eta = eta

    def choose(self, waiting: Sequence[OpenCandidates], room: Sequence[RungRoom], slots: int) -> list[Choice]:
        choices: list[Choice] = []
        for k in range(len(waiting) - 1, -1, -1):
            rung, space = waiting[k], room[k]
            places = slots - len(choices)
            if space.remaining is not None:
                places = min(places, space.remaining)
            answered = 0
            if k > 0:
                answered = room[k - 1].started - room[k - 1].running
                places = min(places, math.floor(answered / self._eta) - space.started)
            score = np.where(np.isnan(rung.score), -1.0, rung.score)
            for taken, i in enumerate(np.lexsort((rung.seq, -score))[: max(places, 0)]):
                why = "halving: next in order at the first paid rung"
                if k > 0:
                    place = space.started + taken + 1
                    why = (
                        f"halving: best of those waiting; place {place} on {answered} answers below, eta {self._eta:g}"
                    )
                choices.append(Choice(int(rung.ids[i]), rung.position, index=float(score[i]), why=why))
        return choices
