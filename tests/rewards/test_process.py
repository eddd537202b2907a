from __future__ import annotations

import pytest

from sciagent.domain.cost import Cost
from sciagent.rewards.credit.returns import returns
from sciagent.rewards.process import ProposedCandidate, TurnFacts, turn_rewards
from sciagent.rewards.spec import RewardSpec

SPEC = RewardSpec(prices={"core_seconds": 0.01, "llm_tokens": 0.001})


def proposed(key: str, worth: float | None, cost: float = 0.0, scaffold: str = "") -> ProposedCandidate:
    return ProposedCandidate(key, scaffold or key, worth, True, Cost(core_seconds=cost))


def values(episode: list[TurnFacts], spec: RewardSpec = SPEC) -> list[float | None]:
    return [reward.value for reward in turn_rewards(episode, spec)]


def test_a_wasted_verification_lowers_the_return_of_its_turn_by_price_times_cost() -> None:
    plain = [TurnFacts([proposed("a", 1.0)]), TurnFacts([proposed("b", 0.0)]), TurnFacts()]
    wasted = [plain[0], TurnFacts([proposed("b", 0.0, cost=25.0)]), plain[2]]
    assert returns(values(plain)) == [1.0, 0.0, 0.0]
    assert returns(values(wasted)) == [0.75, -0.25, 0.0]
    assert returns(values([TurnFacts(cost=Cost(llm_tokens=300.0))])) == [-0.3]


def test_a_candidate_counts_once_and_less_with_each_of_its_scaffold() -> None:
    ring = [proposed(key, 1.0, scaffold="ring") for key in "abc"]
    assert values([TurnFacts(ring[:2]), TurnFacts([ring[0], ring[2]])]) == [1.5, pytest.approx(1 / 3)]
    flat = SPEC.model_copy(update={"scaffold_decay": 0.0})
    assert values([TurnFacts(ring)], flat) == [3.0]


def test_an_undecided_candidate_leaves_its_turn_undecided_and_its_cost_known() -> None:
    [reward] = turn_rewards([TurnFacts([proposed("a", None, cost=10.0), proposed("b", 1.0)])], SPEC)
    assert reward.value is None
    assert reward.terms == {"evidence": None, "cost": pytest.approx(-0.1)}


def test_terms_never_outweigh_a_hit_however_long_the_episode() -> None:
    spec = SPEC.model_copy(update={"terms": {"novelty": 0.1, "refused": -0.1}, "terms_limit": 0.25})
    good = turn_rewards([TurnFacts(terms={"novelty": 1.0})] * 50, spec)
    assert [round(reward.value or 0.0, 12) for reward in good[:4]] == [0.1, 0.1, 0.05, 0.0]
    assert sum(reward.terms["novelty"] or 0.0 for reward in good) == pytest.approx(0.25)
    assert sum(values([TurnFacts(terms={"refused": 1.0})] * 50, spec)) == pytest.approx(-0.25)  # type: ignore[arg-type]
