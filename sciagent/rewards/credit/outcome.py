"""Credit by the outcome: all turns of an episode have the same advantage.

Source: the leave-one-out baseline of Kool, van Hoof and Welling (2019), "Buy 4 REINFORCE samples, get a baseline for
free!". For n siblings it is n / (n - 1) times the advantage of GRPO (Shao et al. 2024, arXiv:2402.03300) without the
division by a standard deviation.
"""

from __future__ import annotations

from sciagent.rewards.credit.returns_and_baselines import Group, above_others, outcome_of


def advantages(rewards: Group) -> list[list[float | None]]:
    """Returns how far each episode's outcome is above the mean outcome of its siblings: (siblings, turns).

    An episode with an undecided reward has undecided advantages and is left out of the means of the others.
    """
    centred = above_others([outcome_of(episode) for episode in rewards])
    return [[advantage] * len(episode) for advantage, episode in zip(centred, rewards, strict=True)]
