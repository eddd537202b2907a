"""Best rung: one cheap rung ranks all, the best go straight to the terminal rung; other rungs are never run.

The strongest simple baseline wherever one cheap rung ranks well. The terminal rung is run while nothing waits to be
ranked, so that its places go to the best of all that were proposed and not to the first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sciagent.domain.ports import Choice, OpenCandidates, RungRoom


class BestRung:
    """rung: position of the rung that ranks; equal to `terminal` where there is no other."""

    name = "best_rung"
    by_score = True
    stops_when_terminal_is_spent = True
    skips = True
    leaves_behind = False

    def __init__(self, rung: int, terminal: int) -> None:
        if rung > terminal:
            raise ValueError(f"the rung that ranks, {rung}, comes after the terminal one, {terminal}")
        self._rung = rung
        self._terminal = terminal

    def choose(self, waiting: Sequence[OpenCandidates], room: Sequence[RungRoom], slots: int) -> list[Choice]:
        choices: list[Choice] = []
        space = {rung.position: one.remaining for rung, one in zip(waiting, room, strict=True)}
        what = {self._rung: "ranked by this rung alone", self._terminal: "best of those that wait"}
        for target in what:
            stage = [r for r in waiting if (r.position <= self._rung) == (target == self._rung)]
            if not stage or len(choices) == slots:
                continue
            ids, seq, score = (np.concatenate([getattr(r, part) for r in stage]) for part in ("ids", "seq", "score"))
            score = np.where(np.isnan(score), -1.0, score)
            remaining = space.get(target)
            free = slots - len(choices) if remaining is None else min(slots - len(choices), remaining)
            for i in np.lexsort((seq, -score))[: max(free, 0)]:
                shown = f"; score {score[i]:.3f}" if score[i] >= 0 else ""
                choices.append(
                    Choice(int(ids[i]), target, index=float(score[i]), why=f"best_rung: {what[target]}{shown}")
                )
        return choices
