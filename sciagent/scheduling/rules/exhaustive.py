"""Exhaustive: runs every rung on every candidate that passes its gates, in the order of arrival.

If a rung has a limit, its places go to the earliest candidates, not to the fastest: a candidate is started only if
every earlier one that may still reach the rung also has a place. The result thus depends on the input alone, not on the
number of workers or their failures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from sciagent.scheduling.candidate_pool import Purchase
from sciagent.scheduling.rules.rule_and_settings_bases import PaidLadder, RungRule, SchedulerSpec, Waiting


class Exhaustive(RungRule):
    def __init__(self, why: str = "exhaustive: next in order") -> None:
        """why: the reason of each purchase, as a decision tells it."""
        self._why = why

    def next(self, waiting: Sequence[Waiting], slots: int) -> list[Purchase]:
        purchases: list[Purchase] = []
        for entry in reversed(waiting):  # the highest rung first, so that answers come sooner
            for taken, row in enumerate(entry.rows[: slots - len(purchases)].tolist()):
                if entry.remaining is not None:
                    n_earlier = taken  # candidates that need a place before this one
                    if entry.undecided is not None:
                        n_earlier = max(n_earlier, int(np.searchsorted(entry.undecided, row)))
                    if n_earlier >= entry.remaining:
                        break
                purchases.append(Purchase(row, entry.rung, index=-float(row), why=self._why))
        return purchases

    def ends_with(self, remaining: int | None) -> bool:
        """Returns False: the rungs below the terminal one are still run on everything."""
        return False


class ExhaustiveSpec(SchedulerSpec):
    """Runs every rung on every candidate, in order of arrival."""

    kind: Literal["exhaustive"] = Field(description="Run everything, in order of arrival.")

    def rule(self, ladder: PaidLadder) -> RungRule:
        return Exhaustive()
