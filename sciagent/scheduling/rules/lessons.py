"""Lessons: rungs that some candidates run before their verification although they would skip them.

Without lessons the law stops learning how well these rungs predict. A rung that has few answers beside a terminal one
seems to tell nothing, and would never be tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sciagent.domain.ladder import PaidIndex
from sciagent.scheduling.candidate_pool import CandidatePool, Purchase

EARLY = 0.04  # largest fraction of the spend for a rung with few answers beside a terminal one,
LATER = 0.01  # and for others
FEW, WORTH = 6, 0.3  # few: fewer answers than this, which cost less than this fraction of a verification together


@dataclass
class Lessons:
    """The lessons of a campaign."""

    spent: float = 0.0
    """Their cost so far, in the unit of the pool's costs."""

    def added(self, pool: CandidatePool, batch: Sequence[Purchase], rungs: Sequence[PaidIndex]) -> list[Purchase]:
        """Returns the batch, with rungs added before terminal ones: first the rung with the fewest answers beside a
        terminal one. None is added after a higher rung: the law would learn that only good candidates have its
        answer."""
        last = pool.paid[-1]
        known = {j: int((pool.answered(j) & pool.answered(last)).sum()) for j in rungs}
        purchases: list[Purchase] = []
        for purchase in batch:
            lessons = []
            for j in sorted(rungs, key=lambda j: known[j]) if purchase.rung == last else ():
                cost, terminal = (float(pool.costs[purchase.of, rung]) for rung in (j, last))
                has_few = known[j] < FEW and known[j] * cost < WORTH * terminal
                share = EARLY if has_few else LATER
                if self.spent + cost <= share * pool.spent and not pool.closed[purchase.of, j:].any():
                    self.spent += cost
                    known[j] += 1
                    lessons.append(replace(purchase, rung=j))
            purchases += [*sorted(lessons, key=lambda one: one.rung), purchase]
        return purchases
