"""Exhaustive: everything that passes its gates is run, first come, first served.

Where a rung is limited by count, its places go to the earliest candidates and not to the fastest: a candidate is
started only if every earlier one that may still come would find a place too. What is found then depends on the
input alone, not on how many workers there were or how often they were killed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sciagent.scheduling.candidate_pool import Purchase
from sciagent.scheduling.rules.rung_by_rung import RungRule, Waiting


class Exhaustive(RungRule):
    name = "exhaustive"

    def next(self, waiting: Sequence[Waiting], slots: int) -> list[Purchase]:
        purchases: list[Purchase] = []
        for at in reversed(waiting):  # the highest rung first: answers come sooner
            for taken, row in enumerate(at.rows[: slots - len(purchases)].tolist()):
                if at.remaining is not None:
                    # earlier candidates that are undecided; those chosen in this call are among them
                    earlier = 0 if at.undecided is None else int(np.searchsorted(at.undecided, row))
                    if max(earlier, taken) >= at.remaining:
                        break
                purchases.append(Purchase(row, at.rung, -float(row), why="exhaustive: next in order"))
        return purchases

    def ends_with(self, remaining: int | None) -> bool:
        """Never: the rungs below the terminal one are still run on everything."""
        return False
