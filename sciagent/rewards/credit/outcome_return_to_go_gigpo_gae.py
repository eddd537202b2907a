"""Credit by the outcome, by the return-to-go, by turns that began in the same state (GiGPO), and with a
value head (GAE).

By the outcome, all turns of an episode have the same advantage. By the return-to-go, what an episode earned from a turn
on is compared with its siblings from the same turn on. The mean is taken after the rewards are summed: if rewards were
centred turn by turn and then summed, the gradient would be biased wherever the policy decides when an episode ends.

Sources: the leave-one-out baseline of Kool, van Hoof and Welling (2019), "Buy 4 REINFORCE samples, get a baseline for
free!". For n siblings it is n / (n - 1) times the advantage of GRPO (Shao et al. 2024, arXiv:2402.03300) without the
division by a standard deviation. Feng, Xue, Liu and An (2025), "Group-in-group policy optimization for LLM agent
training", arXiv:2505.10978; here without the division by a standard deviation, and with means over the other siblings
instead of over all. Schulman, Moritz, Levine, Jordan and Abbeel (2016), "High-dimensional continuous control using
generalized advantage estimation", arXiv:1506.02438, equation 16.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

from sciagent.rewards.credit.returns_and_baselines import (
    Group,
    Numbers,
    above_others,
    mean_of,
    outcome_of,
    plus,
    returns,
)


def outcome_advantages(rewards: Group) -> list[list[float | None]]:
    """Returns how far each episode's outcome is above the mean outcome of its siblings: (siblings, turns).

    An episode with an undecided reward has undecided advantages and is left out of the means of the others.
    """
    centred = above_others([outcome_of(episode) for episode in rewards])
    return [[advantage] * len(episode) for advantage, episode in zip(centred, rewards, strict=True)]


def return_to_go_advantages(rewards: Group) -> list[list[float | None]]:
    """Returns for each turn the return-to-go minus its mean over the other siblings that reached the turn.

    Shape (siblings, turns). A turn that no sibling reached is compared with 0, the reward that an ended episode still
    earns. A turn whose siblings are all undecided has no advantage.
    """
    to_go = [returns(episode) for episode in rewards]
    centred: list[list[float | None]] = [[] for _ in to_go]
    n_turns = max((len(episode) for episode in to_go), default=0)
    for turn in range(n_turns):
        siblings = [sibling for sibling, episode in enumerate(to_go) if turn < len(episode)]
        differences = above_others([to_go[sibling][turn] for sibling in siblings])
        for sibling, advantage in zip(siblings, differences, strict=True):
            centred[sibling].append(advantage)
    return centred


def gigpo_advantages(
    rewards: Group, states: Sequence[Sequence[Hashable]], weight: float = 1.0
) -> list[list[float | None]]:
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
    for sibling, by_outcome in enumerate(outcome_advantages(rewards)):
        sums = []
        turns = zip(by_outcome, to_go[sibling], states[sibling], strict=True)
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


def gae_advantages(
    rewards: Numbers, values: Sequence[float], *, discount: float = 1.0, decay: float = 0.95
) -> list[float | None]:
    """Returns the advantages of one episode's turns: (turns,).

    values: (turns,) what the value head expects from each turn on; the end of an episode is worth 0. discount: gamma.
    decay: lambda; 0 trusts the value head, 1 trusts the rewards. An undecided reward leaves the advantages of its own
    turn and of earlier turns undecided. Raises ValueError if the lengths differ.
    """
    from_end: list[float | None] = []
    later_advantage: float | None = 0.0
    later_value = 0.0
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        surprise = None if reward is None else reward + discount * later_value - value
        carried = None if later_advantage is None else discount * decay * later_advantage
        later_advantage = plus(surprise, carried)
        later_value = value
        from_end.append(later_advantage)
    return from_end[::-1]
