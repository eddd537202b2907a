from __future__ import annotations

import numpy as np
import pytest

from sciagent.rewards.reward_term_contract import CandidateState, Settlement
from sciagent.rewards.turn_rewards import worth


@pytest.mark.parametrize(
    ("state", "settled", "posterior", "robust"),
    [
        (CandidateState(Settlement.ANSWERED, payoff=1.0, expected=0.4, chance=0.5), 1.0, 1.0, 0.4 + 0.6 / 0.5),
        (CandidateState(Settlement.REFUSED, expected=0.4, chance=0.5), 0.0, 0.0, 0.4 - 0.4 / 0.5),
        (CandidateState(Settlement.REFUSED), 0.0, 0.0, 0.0),
        (CandidateState(Settlement.OPEN, expected=0.4, chance=0.5), None, 0.4, 0.4),
        (CandidateState(Settlement.OPEN, expected=0.4), None, 0.4, None),
        (CandidateState(Settlement.UNDECIDED, expected=0.4, chance=0.5), None, None, None),
        (CandidateState(Settlement.KNOWN, payoff=1.0), 0.0, 0.0, 0.0),
    ],
)
def test_the_worth_of_a_candidate(
    state: CandidateState, settled: float | None, posterior: float | None, robust: float | None
) -> None:
    found = worth(state, "settled"), worth(state, "posterior"), worth(state, "robust")
    assert found == (settled, posterior, pytest.approx(robust) if robust is not None else None)


def test_robust_has_no_bias_whatever_the_law_expects() -> None:
    rng = np.random.default_rng(0)
    n, chance = 20_000, 0.2
    truth = (rng.random(n) < 0.1).astype(float)
    expected = 0.5 + 0.4 * rng.random(n)  # a law that is far too hopeful
    drawn = rng.random(n) < chance
    found = [
        worth(
            CandidateState(Settlement.ANSWERED, u, e, chance)
            if is_drawn
            else CandidateState(Settlement.OPEN, None, e, chance),
            "robust",
        )
        for u, e, is_drawn in zip(truth, expected, drawn, strict=True)
    ]
    errors = np.array(found, dtype=float) - truth
    assert abs(errors.mean()) < 2 * errors.std(ddof=1) / np.sqrt(n)
    assert (expected - truth).mean() > 0.5
