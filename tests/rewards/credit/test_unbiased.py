"""Estimators of advantages against gradients that are known exactly."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from sciagent.rewards.credit import contribution_to_group
from sciagent.rewards.credit.contribution_to_group import Find
from sciagent.rewards.credit.outcome_return_to_go_gigpo_gae import outcome_advantages, return_to_go_advantages
from sciagent.rewards.credit.returns_and_baselines import Group

SIBLINGS, TURNS = 8, 6
GO_ON = 0.6  # probability; its logit is the only parameter of the policy
Estimator = Callable[[Group], list[list[float | None]]]


def centred_turn_by_turn(rewards: Group) -> list[list[float | None]]:
    """Returns the sum of rewards that are centred at each turn among those that reached it, as is often done."""
    result: list[list[float | None]] = []
    for place, episode in enumerate(rewards):
        others = [other for i, other in enumerate(rewards) if i != place]
        centred = []
        for turn, reward in enumerate(episode):
            met = [other[turn] or 0.0 for other in others if turn < len(other)]
            centred.append((reward or 0.0) - (sum(met) / len(met) if met else 0.0))
        result.append([sum(centred[turn:]) for turn in range(len(centred))])
    return result


def exact_gradient(reward: float) -> float:
    """Returns the derivative of an episode's expected return: going on brings `reward`, stopping from turn 2 on 1."""

    def value(p: float) -> float:
        worth = 0.0
        for turn in reversed(range(TURNS)):
            worth = p * (reward + worth) + (1 - p) * float(turn >= 2)
        return worth

    step = 1e-6
    return (value(GO_ON + step) - value(GO_ON - step)) / (2 * step) * GO_ON * (1 - GO_ON)


def sampled_gradients(estimator: Estimator, reward: float, groups: int) -> NDArray[np.float64]:
    """Returns one estimate of the gradient for each group: (groups,)."""
    rng = np.random.default_rng(1)
    found = []
    for draws in rng.random((groups, SIBLINGS, TURNS)) < GO_ON:
        lengths = [int(np.argmin(goes)) + 1 if not goes.all() else TURNS for goes in draws]
        rewards = [
            [reward if goes[t] else float(t >= 2) for t in range(n)] for goes, n in zip(draws, lengths, strict=True)
        ]
        pairs = zip(draws, estimator(rewards), strict=True)
        scored = ((goes[t] - GO_ON) * (a or 0.0) for goes, row in pairs for t, a in enumerate(row))
        found.append(sum(scored) / SIBLINGS)
    return np.array(found)


def errors(found: NDArray[np.float64], exact: float) -> float:
    """Returns how many standard errors the mean of the estimates is away from the exact gradient."""
    return float(abs(found.mean() - exact) / (found.std(ddof=1) / np.sqrt(len(found))))


@pytest.mark.parametrize("reward", [0.3, -0.3])
def test_where_the_policy_decides_when_to_stop_returns_to_go_have_no_bias(reward: float) -> None:
    exact = exact_gradient(reward)
    by_estimator = {e: sampled_gradients(e, reward, 2500) for e in (return_to_go_advantages, outcome_advantages)}
    assert all(errors(found, exact) < 4 for found in by_estimator.values())
    assert by_estimator[return_to_go_advantages].std() < by_estimator[outcome_advantages].std()
    assert errors(sampled_gradients(centred_turn_by_turn, reward, 2500), exact) > 10


VALUES = {"a": 1.0, "b": 0.6, "c": 0.5}
SCAFFOLDS = {"a": "ring", "b": "ring", "c": "chain"}
CHANCES = np.array([0.5, 0.3, 0.2])
COST = 0.1


def finds(turns: Sequence[int]) -> list[list[Find]]:
    return [[Find(key, (SCAFFOLDS[key],), VALUES[key])] for key in ("abc"[turn] for turn in turns)]


def test_the_marginal_credit_follows_the_worth_of_what_a_group_finds_together() -> None:
    siblings, turns = 3, 2
    exact = np.zeros(3)
    for picks in itertools.product(range(3), repeat=siblings * turns):
        together = contribution_to_group.worth(find for [find] in finds(picks))
        assert together is not None
        score = sum(np.eye(3)[pick] - CHANCES for pick in picks)
        exact += np.prod(CHANCES[list(picks)]) * together * score
    rng, found, own = np.random.default_rng(2), [], []
    for picks in rng.choice(3, p=CHANCES, size=(4000, siblings, turns)):
        group = [finds(episode) for episode in picks]
        credit = contribution_to_group.advantages(group, [[COST] * turns] * siblings)
        alone = outcome_advantages([[f.value for [f] in episode] for episode in group])
        scores = np.eye(3)[picks] - CHANCES
        found.append(np.einsum("stc,st->c", scores, np.array(credit, dtype=float)))
        own.append(np.einsum("stc,st->c", scores, np.array(alone, dtype=float)))
    for place in range(3):
        assert errors(np.array(found)[:, place], exact[place]) < 4
    assert max(errors(np.array(own)[:, place], exact[place]) for place in range(3)) > 10
