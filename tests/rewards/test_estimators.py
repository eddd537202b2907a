from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sciagent.errors import SpecError
from sciagent.rewards.estimators import CandidateState, Settlement, worth
from sciagent.rewards.spec import RewardSpec, load_rewards


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


def test_mistakes_in_a_file_are_named_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "rewards.yaml"
    file.write_text("prices:\n  core_second: 0.001\nunsetled: robust\n")
    with pytest.raises(SpecError) as caught:
        load_rewards(file)
    text = str(caught.value)
    assert "core_seconds" in text
    assert 'did you mean "unsettled"' in text
    file.write_text("prices: {core_seconds: 0.0}\n")
    with pytest.raises(SpecError, match="waste would cost nothing"):
        load_rewards(file)


def test_a_limit_on_promises_would_bias_the_robust_estimate(tmp_path: Path) -> None:
    file = tmp_path / "rewards.yaml"
    file.write_text("prices: {core_seconds: 0.001}\nunsettled: robust\nunsettled_limit: 0.5\n")
    with pytest.raises(SpecError, match="unsettled_limit: a limit would bias"):
        load_rewards(file)


def test_a_description_from_before_a_key_keeps_its_hash() -> None:
    before = "89b69f9749db3d5293a457e55061ba512739ca6241cc8fbd3f06d19ddda3baf5"
    assert RewardSpec(prices={"core_seconds": 0.001}).hash == before


def test_the_hash_follows_the_content(tmp_path: Path) -> None:
    file = tmp_path / "rewards.yaml"
    file.write_text("prices: {core_seconds: 0.001}\n")
    spec = load_rewards(file)
    assert spec.hash == load_rewards(file).hash
    assert spec.model_copy(update={"unsettled": "robust"}).hash != spec.hash
