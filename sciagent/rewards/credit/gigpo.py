"""Credit by outcome and by turns that began in the same state.

Source: Feng, Xue, Liu and An (2025), "Group-in-group policy optimization for LLM agent training", arXiv:2505.10978;
here without the division by a standard deviation, and with means over the other siblings instead of over all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

from sciagent.rewards.credit import outcome
from sciagent.rewards.credit.returns import Group, mean_of, plus, returns


def advantages(rewards: Group, states: Sequence[Sequence[Hashable]], weight: float = 1.0) -> list[list[float | None]]:
    """Returns the outcome's advantage plus `weight` times the advantage among siblings' turns in the same state.

    states: (siblings, turns) the anchor state in which each turn began. A turn whose state no other sibling met has no
    second part. Shape (siblings, turns). Raises ValueError if the shapes differ.
    """
    met: dict[Hashable, list[tuple[int, float | None]]] = defaultdict(list)  # sibling, return-to-go
    to_go = [returns(episode) for episode in rewards]
    for sibling, (values, known) in enumerate(zip(to_go, states, strict=True)):
        for value, state in zip(values, known, strict=True):
            met[state].append((sibling, value))
    return [
        [
            plus(first, _among(value, [other for place, other in met[state] if place != sibling], weight))
            for first, value, state in zip(firsts, to_go[sibling], states[sibling], strict=True)
        ]
        for sibling, firsts in enumerate(outcome.advantages(rewards))
    ]


def _among(value: float | None, others: Sequence[float | None], weight: float) -> float | None:
    if value is None:
        return None
    baseline = mean_of(others)
    return 0.0 if baseline is None else weight * (value - baseline)
