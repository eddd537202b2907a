"""Thresholds: the usual screening funnel. Gates decide which candidates continue; cheap rungs run first.

Within a rung, the best candidates go first. An expensive rung runs only when no candidate waits for a cheaper one, so
that its places go to the best waiting candidates, not to the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from sciagent.scheduling.candidate_pool import Purchase
from sciagent.scheduling.rules.rule_and_settings_bases import PaidLadder, RungRule, SchedulerSpec, Waiting


class Thresholds(RungRule):
    def next(self, waiting: Sequence[Waiting], slots: int) -> list[Purchase]:
        purchases: list[Purchase] = []
        # in ladder order: an expensive rung gets the slots that candidates for cheaper rungs leave free
        for entry in waiting:
            free_places = entry.places(slots - len(purchases))  # fewer than the slots if the rung's jobs are limited
            for i in entry.best(free_places):
                why = f"thresholds: passed the cheaper rungs{entry.words(i)}"
                purchases.append(Purchase(int(entry.rows[i]), entry.rung, index=float(entry.index[i]), why=why))
        return purchases


class ThresholdsSpec(SchedulerSpec):
    """A candidate goes on to the next rung if it passes the gate of the last one."""

    kind: Literal["thresholds"] = Field(description="Promote by gates.")

    def rule(self, ladder: PaidLadder) -> RungRule:
        return Thresholds()
