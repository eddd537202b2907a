"""Credit by the return-to-go: what an episode earned from a turn on, compared with its siblings from the same turn on.

The mean is taken after the rewards are summed. If rewards were centred turn by turn and then summed, the gradient would
be biased wherever the policy decides when an episode ends.
"""

from __future__ import annotations

from sciagent.rewards.credit.returns_and_baselines import Group, above_others, returns


def advantages(rewards: Group) -> list[list[float | None]]:
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
