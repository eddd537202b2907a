"""Halving: promotes the best 1/eta of the candidates that a rung has answered, without waiting for a full round.

The highest rungs come first. The best candidate is promoted while started(next rung) < floor(answered(rung) / eta). If
no higher rung has a place, the first paid rung takes the next waiting candidate. Other candidates keep waiting, and may
be promoted later, when there are more answers.

Source: Li et al., MLSys 2020, arXiv 1810.05934 (ASHA), with one change: theirs promotes every candidate among the best
1/eta, even if 1/eta of all were promoted already; here the share is kept, since each rung costs more than the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.candidate_pool import Purchase
from sciagent.scheduling.rules.rule_and_settings_bases import PaidLadder, RungRule, SchedulerSpec, Waiting


class Halving(RungRule):
    def __init__(self, eta: float) -> None:
        """eta: above 1."""
        self._eta = eta

    def next(self, waiting: Sequence[Waiting], slots: int) -> list[Purchase]:
        purchases: list[Purchase] = []
        for k in range(len(waiting) - 1, -1, -1):  # the highest rung first
            entry = waiting[k]
            places = entry.places(slots - len(purchases))
            answered = 0
            if k > 0:
                answered = waiting[k - 1].started - waiting[k - 1].running
                places = min(places, math.floor(answered / self._eta) - entry.started)
            for taken, i in enumerate(entry.best(max(places, 0))):
                why = "halving: next in order at the first paid rung"
                if k > 0:
                    place = entry.started + taken + 1
                    why = (
                        f"halving: best of those waiting; place {place} on {answered} answers below, eta {self._eta:g}"
                    )
                purchases.append(Purchase(int(entry.rows[i]), entry.rung, float(entry.index[i]), why=why))
        return purchases

    def leaves(self, rung: PaidIndex) -> bool:
        return rung > 0


class HalvingSpec(SchedulerSpec):
    """The best 1/eta of the candidates that a paid rung has answered go on to the next one, asynchronously."""

    kind: Literal["halving"] = Field(description="The best 1/eta of each paid rung go on.")
    eta: Annotated[float, Field(strict=True, gt=1, le=1000)] = Field(
        3.0, description="One in eta candidates goes on to the next paid rung."
    )

    def rule(self, ladder: PaidLadder) -> RungRule:
        return Halving(self.eta)
