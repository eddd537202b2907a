"""Lottery: runs the terminal rung on each candidate with the same known chance, and the rungs below on all.

Each candidate has a fixed lot, a number in (0, 1) that depends on the campaign's seed and the candidate's key alone. It
is verified if its lot is below the chance. What the rungs below said plays no part, so that the verified candidates
stand for all that got so far. Rewards with `unsettled: robust` need this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.candidate_pool import Purchase
from sciagent.scheduling.rules.rule_and_settings_bases import PaidLadder, RungRule, SchedulerSpec, Waiting


class Lottery(RungRule):
    def __init__(self, chance: float, rungs: int) -> None:
        """chance: in (0, 1], of the terminal rung. rungs: number of paid rungs."""
        self._chance = chance
        self._terminal = PaidIndex(rungs - 1)

    def next(self, waiting: Sequence[Waiting], slots: int) -> list[Purchase]:
        purchases: list[Purchase] = []
        for entry in reversed(waiting):  # the highest rung first, so that answers come sooner
            rows = entry.rows
            chance = 1.0
            why = "lottery: the next rung of all"
            if entry.rung == self._terminal:
                chance = self._chance
                why = f"lottery: drawn with a chance of {chance:g}"
                if entry.lots is not None:
                    rows = rows[entry.lots < chance]
            # in order of arrival
            for row in np.sort(rows)[: entry.places(slots - len(purchases))].tolist():
                purchases.append(Purchase(row, entry.rung, index=-float(row), propensity=chance, why=why))
        return purchases

    def leaves(self, rung: PaidIndex) -> bool:
        return rung == self._terminal


class LotterySpec(SchedulerSpec):
    """The terminal rung runs on each candidate with the same chance, whatever the rungs below said."""

    knows_chance = True

    kind: Literal["lottery"] = Field(description="Draw for the terminal rung with a known chance.")
    chance: Annotated[float, Field(strict=True, ge=0.01, le=1)] = Field(
        0.2, description="Chance of a candidate that passes the gates below to be verified."
    )

    def rule(self, ladder: PaidLadder) -> RungRule:
        return Lottery(self.chance, len(ladder.labels))

    def terminal_chance(self) -> float:
        return self.chance
