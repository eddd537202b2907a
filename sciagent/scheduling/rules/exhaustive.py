"""Exhaustive: everything that passes its gates is run, first come, first served.

Where a rung is limited by count, its places go to the earliest candidates and not to the fastest: a candidate is
started only if every earlier one that may still come would find a place too. What is found then depends on the
input alone, not on how many workers there were or how often they were killed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sciagent.domain.ports import Choice, OpenCandidates, RungRoom


class Exhaustive:
    name = "exhaustive"
    by_score = False
    stops_when_terminal_is_spent = False  # the rungs below are still run on everything
    skips = False
    leaves_behind = False

    def choose(self, waiting: Sequence[OpenCandidates], room: Sequence[RungRoom], slots: int) -> list[Choice]:
        choices: list[Choice] = []
        for rung, space in zip(reversed(waiting), reversed(room), strict=True):  # deepest first: answers sooner
            for taken, (candidate, seq) in enumerate(zip(rung.ids, rung.seq, strict=True)):
                if len(choices) == slots:
                    return choices
                if space.remaining is not None:
                    # earlier candidates that are undecided; those chosen in this call are among them
                    earlier = int(np.searchsorted(space.undecided_seqs, seq))
                    if max(earlier, taken) >= space.remaining:
                        break
                choices.append(
                    Choice(int(candidate), rung.position, index=-float(seq), why="exhaustive: next in order")
                )
        return choices
