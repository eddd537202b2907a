"""Credit with a value head: generalised advantage estimation.

Source: Schulman, Moritz, Levine, Jordan and Abbeel (2016), "High-dimensional continuous control using generalized
advantage estimation", arXiv:1506.02438, equation 16.
"""

from __future__ import annotations

from collections.abc import Sequence

from sciagent.rewards.credit.returns_and_baselines import Numbers, plus


def advantages(
    rewards: Numbers, values: Sequence[float], *, discount: float = 1.0, decay: float = 0.95
) -> list[float | None]:
    """Returns the advantages of one episode's turns: (turns,).

    values: (turns,) what the value head expects from each turn on; the end of an episode is worth 0. discount: gamma.
    decay: lambda; 0 trusts the value head, 1 trusts the rewards. An undecided reward leaves the advantages of its own
    turn and of earlier turns undecided. Raises ValueError if the lengths differ.
    """
    advantages_from_end: list[float | None] = []
    later_advantage: float | None = 0.0
    later_value = 0.0
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        surprise = None if reward is None else reward + discount * later_value - value
        carried = None if later_advantage is None else discount * decay * later_advantage
        later_advantage = plus(surprise, carried)
        later_value = value
        advantages_from_end.append(later_advantage)
    return advantages_from_end[::-1]
