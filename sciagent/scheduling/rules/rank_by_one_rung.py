"""Best rung: one cheap rung ranks all candidates; the best go to the terminal rung. Other rungs are not run.

The strongest simple baseline if one cheap rung ranks well. The terminal rung runs only when no candidate waits to be
ranked, so that its places go to the best candidates proposed, not to the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from pydantic import Field

from sciagent.domain.rung_positions_and_tiers import PaidIndex, Tier
from sciagent.scheduling.candidate_pool import Purchase
from sciagent.scheduling.rules.rule_and_settings_bases import PaidLadder, RungRule, SchedulerSpec, Waiting


class BestRung(RungRule):
    def __init__(self, rung: PaidIndex, terminal: PaidIndex) -> None:
        """rung: the ranking rung, below `terminal`, or equal to it if there is no other."""
        self.first_rung = rung
        self._terminal = terminal

    def next(self, waiting: Sequence[Waiting], slots: int) -> list[Purchase]:
        purchases: list[Purchase] = []
        reasons = {self.first_rung: "ranked by this rung alone", self._terminal: "best of those that wait"}
        for target, reason in reasons.items():
            is_first = target == self.first_rung
            # the candidates that have not been ranked, or, for the terminal rung, those that have been
            stage = [entry for entry in waiting if (entry.rung <= self.first_rung) == is_first]
            if not stage:
                continue
            rows = np.concatenate([entry.rows for entry in stage])
            worth = np.concatenate([entry.worth for entry in stage])
            order = np.argsort(rows, kind="stable")
            merged = replace(waiting[target], rows=rows[order], worth=worth[order])
            for i in merged.best(merged.places(slots - len(purchases))):
                why = f"best_rung: {reason}{merged.words(i)}"
                purchases.append(Purchase(int(merged.rows[i]), target, float(merged.index[i]), why=why))
        return purchases


class BestRungSpec(SchedulerSpec):
    """One paid rung ranks all candidates, and the best go straight to the terminal rung."""

    may_skip = True

    kind: Literal["best_rung"] = Field(description="Rank by one rung, then run the terminal one.")
    rung: str | None = Field(
        None,
        description="Label of the paid rung that ranks; default: the last one before the terminal. Paid rungs other "
        "than this one and the terminal one are not run.",
    )

    def rule(self, ladder: PaidLadder) -> RungRule:
        """Returns the rule. Without a named rung, the last one below the terminal that is not fast ranks."""
        if self.rung is not None:
            return BestRung(PaidIndex(ladder.labels.index(self.rung)), ladder.terminal)
        below = [j for j, tier in enumerate(ladder.tiers[: ladder.terminal]) if tier is not Tier.FAST]
        return BestRung(PaidIndex(max(below, default=ladder.terminal)), ladder.terminal)
