"""Thresholds: the usual screening funnel. Gates decide which candidates continue; cheap rungs run first.

Within a rung, the best scores go first. An expensive rung runs only when no candidate waits for a cheaper one, so that
its places go to the best waiting candidates, not to the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from sciagent.scheduling.candidate_pool import Purchase
from sciagent.scheduling.rules.rung_by_rung import PaidLadder, RungRule, SchedulerSpec, Waiting


class Thresholds(RungRule):
    def next(self, waiting: Sequence[Waiting], slots: int) -> list[Purchase]:
        purchases: list[Purchase] = []
        for at in waiting:
            for i in at.best(at.places(slots - len(purchases))):
                score = float(at.score[i])
                why = "thresholds: passed the cheaper rungs" + ("" if math.isnan(score) else f"; score {score:.3f}")
                purchases.append(Purchase(int(at.rows[i]), at.rung, -1.0 if math.isnan(score) else score, why=why))
        return purchases


class ThresholdsSpec(SchedulerSpec):
    """A candidate goes on to the next rung if it passes the gate of the last one."""

    kind: Literal["thresholds"] = Field(description="Promote by gates.")

    def rule(self, ladder: PaidLadder) -> RungRule:
        return Thresholds()
