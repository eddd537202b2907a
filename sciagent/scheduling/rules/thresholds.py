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
from sciagent.scheduling.rules.rule_and_settings_bases import UNSCORED, PaidLadder, RungRule, SchedulerSpec, Waiting


class Thresholds(RungRule):
    def next(self, waiting: Sequence[Waiting], slots: int) -> list[Purchase]:
        purchases: list[Purchase] = []
        for entry in waiting:
            for i in entry.best(entry.places(slots - len(purchases))):
                index = UNSCORED
                why = "thresholds: passed the cheaper rungs"
                if not math.isnan(entry.score[i]):
                    index = float(entry.score[i])
                    why += f"; score {index:.3f}"
                purchases.append(Purchase(int(entry.rows[i]), entry.rung, index, why=why))
        return purchases


class ThresholdsSpec(SchedulerSpec):
    """A candidate goes on to the next rung if it passes the gate of the last one."""

    kind: Literal["thresholds"] = Field(description="Promote by gates.")

    def rule(self, ladder: PaidLadder) -> RungRule:
        return Thresholds()
