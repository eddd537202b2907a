"""Random: an open candidate, drawn uniformly, gets its next rung. What any cleverer rule has to beat.

The draw depends on the seed and on what waits, on nothing else, so that a resumed campaign draws as one that was never
stopped. The propensity of a choice is the probability with which it was drawn from what could still be drawn then.
At most the window of candidates that a rule is shown takes part, the earliest of each rung.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from sciagent.domain.ports import Choice, OpenCandidates, RungRoom


class Random:
    name = "random"
    by_score = False
    stops_when_terminal_is_spent = True
    skips = False
    leaves_behind = False

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def choose(self, waiting: Sequence[OpenCandidates], room: Sequence[RungRoom], slots: int) -> list[Choice]:
        rng = np.random.default_rng([self._seed, _digest(waiting)])
        open_ids = [list(map(int, rung.ids)) for rung in waiting]
        left = [
            len(ids) if space.remaining is None else space.remaining for ids, space in zip(open_ids, room, strict=True)
        ]
        choices: list[Choice] = []
        while len(choices) < slots:
            drawable = [(k, i) for k, ids in enumerate(open_ids) if left[k] > 0 for i in range(len(ids))]
            if not drawable:
                break
            k, i = drawable[int(rng.integers(len(drawable)))]
            left[k] -= 1
            choices.append(
                Choice(
                    open_ids[k].pop(i),
                    waiting[k].position,
                    index=0.0,
                    propensity=1 / len(drawable),
                    why=f"random: drawn from {len(drawable)} that could run",
                )
            )
        return choices


def _digest(waiting: Sequence[OpenCandidates]) -> int:
    """Tells what waits apart from what waited before."""
    digest = hashlib.blake2b(digest_size=8)
    for rung in waiting:
        digest.update(np.int64(rung.position).tobytes() + np.asarray(rung.ids, dtype=np.int64).tobytes() + b"|")
    return int.from_bytes(digest.digest(), "little")
