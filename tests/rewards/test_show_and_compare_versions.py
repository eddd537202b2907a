"""Versions of rewards as they are shown, and the difference of two."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.errors import UnknownNameError, UsageError
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.rewards.show_and_compare_versions import difference, show
from tests.support.rewarded import HIT, Rewarded, rewarded

PRICE = 0.001
SPEC = RewardSpec(prices={"core_seconds": PRICE, "llm_tokens": 1e-5}, unsettled="settled")
GAP = "homo_lumo_gap"


def test_a_candidate_shows_its_cost_as_a_number_and_by_resource(made: Rewarded) -> None:
    made.episode(1, [["CCO"]], tokens=10.0)
    made.settle("CCO", HIT)
    [candidate] = show(made.ledger, publish(made.ledger, "small", SPEC).version).episodes[0].turns[0].candidates
    assert candidate.cost == pytest.approx(101 * PRICE) and candidate.resources == {"core_seconds": 101.0}


def test_versions_of_two_campaigns_have_no_difference(made: Rewarded, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = rewarded(made.ledger, tmp_path / "other", name="other")
    made.episode(1, [["CCO"]])
    other.episode(1, [["CCO"]])
    numbers = [publish(made.ledger, name, SPEC).version for name in ("small", "other")]
    with pytest.raises(UsageError, match="belong to two campaigns"):
        difference(made.ledger, *numbers)
    with pytest.raises(UnknownNameError):
        difference(made.ledger, numbers[0], 17)


def test_names_stand_in_one_order_on_both_databases(made: Rewarded) -> None:
    made.episode(1, [["CCO"]], tokens=10.0)
    made.settle("CCO", HIT)
    terms = SPEC.model_copy(update={"terms": {"refused": -0.1, "diversity": 0.1}})
    [turn] = show(made.ledger, publish(made.ledger, "small", terms).version).episodes[0].turns
    assert list(turn.terms) == ["cost", "diversity", "evidence", "refused"]
