"""Credit by outcome and by turns that began in the same state.

Source: Feng, Xue, Liu and An (2025), "Group-in-group policy optimization for LLM agent training", arXiv:2505.10978;
here without the division by a standard deviation, and with means over the other siblings instead of over all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

from sciagent.rewards.credit import outcome
from sciagent.rewards.credit.returns_and_baselines import Group, mean_of, plus, returns


def advantages(rewards: Group, states: Sequence[Sequence[Hashable]], weight: float = 1.0) -> list[list[float | None]]:
    """Returns the outcome's advantage plus `weight` times the advantage among siblings' turns in the same state.

    states: (siblings, turns) the anchor state in which each turn began. A turn whose state no other sibling met has no
    second part. Shape (siblings, turns). Raises ValueError if the shapes differ.
    """
    to_go = [returns(episode) for episode in rewards]
    turns_by_state: dict[Hashable, list[tuple[int, float | None]]] = defaultdict(list)  # sibling, return-to-go
    for sibling, (values, states_of_episode) in enumerate(zip(to_go, states, strict=True)):
        for value, state in zip(values, states_of_episode, strict=True):
            turns_by_state[state].append((sibling, value))
    result = []
    for sibling, outcome_advantages in enumerate(outcome.advantages(rewards)):
        sums = []
        turns = zip(outcome_advantages, to_go[sibling], states[sibling], strict=True)
        for outcome_advantage, value, state in turns:
            others = [other_value for other, other_value in turns_by_state[state] if other != sibling]
            state_advantage = _above_mean(value, others, weight)
            sums.append(plus(outcome_advantage, state_advantage))
        result.append(sums)
    return result


def _above_mean(value: float | None, others: Sequence[float | None], weight: float) -> float | None:
    """Returns the weighted advantage of a return over the mean of the others; 0 without others, None if undecided."""
    if value is None:
        return None
    baseline = mean_of(others)
    return 0.0 if baseline is None else weight * (value - baseline)
