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

from sciagent.domain.campaigns.ladder import PaidIndex
from sciagent.scheduling.candidate_pool import Purchase
from sciagent.scheduling.rules.rung_by_rung import RungRule, Waiting


class Halving(RungRule):
    name = "halving"

    def __init__(self, eta: float) -> None:
        if eta <= 1:
            raise ValueError(f"eta = {eta}; it must be larger than 1")
        self._eta = eta

    def next(self, waiting: Sequence[Waiting], slots: int) -> list[Purchase]:
        purchases: list[Purchase] = []
        for k in range(len(waiting) - 1, -1, -1):
            at, places, answered = waiting[k], waiting[k].places(slots - len(purchases)), 0
            if k > 0:
                answered = waiting[k - 1].started - waiting[k - 1].running
                places = min(places, math.floor(answered / self._eta) - at.started)
            for taken, i in enumerate(at.best(max(places, 0))):
                why = "halving: next in order at the first paid rung"
                if k > 0:
                    place = at.started + taken + 1
                    why = (
                        f"halving: best of those waiting; place {place} on {answered} answers below, eta {self._eta:g}"
                    )
                purchases.append(
                    Purchase(int(at.rows[i]), at.rung, float(np.nan_to_num(at.score[i], nan=-1.0)), why=why)
                )
        return purchases

    def leaves(self, rung: PaidIndex) -> bool:
        return rung > 0
