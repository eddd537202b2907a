"""Cutting a trajectory into training rows changes neither loss nor gradient."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sciagent.agent.turns_to_token_rows import Join, RecordedCall, linearise
from sciagent.rewards.credit.outcome_return_to_go_gigpo_gae import return_to_go_advantages

WORDS, WIDTH = 12, 5
Array = NDArray[np.float64]


def loss_and_gradient(weights: Array, ids: list[int], advantages: dict[int, float]) -> tuple[float, Array]:
    """Returns the policy loss of the tokens at these places, and its gradient.

    The model is causal: the logits of a token are `weights` (WORDS, WIDTH) times the mean embedding of all before it.
    """
    embedding = np.random.default_rng(0).normal(size=(WORDS, WIDTH))
    loss, gradient = 0.0, np.zeros_like(weights)
    for place, advantage in advantages.items():
        context = embedding[ids[:place]].mean(axis=0)
        logits = weights @ context
        chances = np.exp(logits - logits.max())
        chances /= chances.sum()
        loss -= advantage * float(np.log(chances[ids[place]]))
        gradient += advantage * np.outer(chances - np.eye(WORDS)[ids[place]], context)
    return loss, gradient


def test_loss_and_gradient_stay_the_same() -> None:
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(WORDS, WIDTH))
    calls: list[RecordedCall] = []
    held: tuple[int, ...] = (1, 2, 3)
    for turn in range(6):
        sampled = tuple(int(i) for i in rng.integers(WORDS, size=4))
        calls.append(RecordedCall(turn, held, sampled, (-1.0,) * 4, (False, False, True, False)))
        seen = (*held, *sampled)
        if turn == 1:  # the end of an answer was tokenised anew
            seen = (*seen[:-2], (seen[-2] + 1) % WORDS)
        if turn == 3:  # the conversation was cut
            seen = seen[5:]
        held = (*seen, 4, 5)
    linearised = linearise(calls)
    assert linearised.joins[Join.REALIGN] == 1
    assert linearised.joins[Join.FORK] == 1
    assert len(linearised.rows) == 3
    [by_turn] = return_to_go_advantages([[0.5, -1.0, 0.0, 2.0, 0.25, 1.0]])

    whole = [
        loss_and_gradient(
            weights,
            [*call.prompt_ids, *call.output_ids],
            {len(call.prompt_ids) + i: by_turn[call.turn] or 0.0 for i in range(4) if not call.forced[i]},
        )
        for call in calls
    ]
    rows = [
        loss_and_gradient(
            weights, list(row.ids), {i: by_turn[row.turns[i]] or 0.0 for i, on in enumerate(row.mask) if on}
        )
        for row in linearised.rows
    ]
    assert abs(sum(loss for loss, _ in whole)) > 1
    assert np.isclose(sum(loss for loss, _ in rows), sum(loss for loss, _ in whole), rtol=0, atol=1e-6)
    np.testing.assert_allclose(sum(g for _, g in rows), sum(g for _, g in whole), rtol=0, atol=1e-6)
