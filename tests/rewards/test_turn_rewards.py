from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sciagent.domain.cost_and_budget import Cost
from sciagent.rewards.credit.contribution_to_group import Find, worth
from sciagent.rewards.credit.returns_and_baselines import returns
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.rewards.turn_rewards import ProposedCandidate, TurnFacts, turn_rewards

SPEC = RewardSpec(prices={"core_seconds": 0.01, "llm_tokens": 0.001})


def proposed(key: str, worth: float | None, cost: float = 0.0, scaffold: str = "") -> ProposedCandidate:
    return ProposedCandidate(key, (scaffold or key,), worth, True, Cost(core_seconds=cost))


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


def test_a_candidate_of_several_families_counts_as_the_last_of_the_largest() -> None:
    both, ring, other = (ProposedCandidate(str(f), f, 1.0, True, Cost()) for f in (("x", "y"), ("x",), ("z",)))
    third = ProposedCandidate("third", ("y", "x"), 1.0, True, Cost())
    assert values([TurnFacts([c]) for c in (both, ring, other, third)]) == [1.0, 0.5, 1.0, pytest.approx(1 / 3)]


def test_an_undecided_candidate_leaves_its_turn_undecided_and_its_cost_known() -> None:
    [reward] = turn_rewards([TurnFacts([proposed("a", None, cost=10.0), proposed("b", 1.0)])], SPEC)
    assert reward.value is None
    assert reward.terms == {"evidence": None, "cost": pytest.approx(-0.1)}


def test_a_turn_of_which_a_filter_dropped_a_proposal_earns_nothing_by_what_a_law_said() -> None:
    passed, dropped = TurnFacts([proposed("a", 1.0)]), TurnFacts([proposed("b", 1.0)], was_filtered=True)
    assert values([passed, dropped, TurnFacts(was_filtered=True)]) == [1.0, None, None]


def test_terms_never_outweigh_a_hit_however_long_the_episode() -> None:
    spec = SPEC.model_copy(update={"terms": {"novelty": 0.1, "refused": -0.1}, "terms_limit": 0.25})
    good = turn_rewards([TurnFacts(terms={"novelty": 1.0})] * 50, spec)
    assert [round(reward.value or 0.0, 12) for reward in good[:4]] == [0.1, 0.1, 0.05, 0.0]
    assert sum(reward.terms["novelty"] or 0.0 for reward in good) == pytest.approx(0.25)
    assert sum(values([TurnFacts(terms={"refused": 1.0})] * 50, spec)) == pytest.approx(-0.25)  # type: ignore[arg-type]


def test_promises_count_up_to_their_limit_and_verdicts_in_full() -> None:
    spec = SPEC.model_copy(update={"unsettled_limit": 0.5})
    promise, verdict = (ProposedCandidate(key, (key,), 0.4, key == "b", Cost()) for key in "ab")
    other = ProposedCandidate("c", ("c",), 0.4, False, Cost())
    assert values([TurnFacts([promise]), TurnFacts([other, verdict])], spec) == [0.4, pytest.approx(0.1 + 0.4)]
    assert values([TurnFacts([promise]), TurnFacts([other, verdict])]) == [0.4, pytest.approx(0.8)]


SPECS = st.builds(
    lambda decay, limit: SPEC.model_copy(update={"scaffold_decay": decay, "unsettled_limit": limit}),
    st.sampled_from((0.0, 0.5, 1.0, 2.0)),
    st.none() | st.floats(0.1, 3),
)
POOLS = st.lists(
    st.tuples(st.sampled_from(("x", "y", "")), st.floats(0, 1), st.booleans(), st.floats(0, 50)), min_size=1, max_size=8
)
Pool = list[tuple[str, float, bool, float]]


def candidates_of(pool: Pool) -> list[ProposedCandidate]:
    return [
        ProposedCandidate(str(number), (scaffold,), value, settled, Cost(core_seconds=cost))
        for number, (scaffold, value, settled, cost) in enumerate(pool)
    ]


def total(turns: list[TurnFacts], spec: RewardSpec) -> float:
    return math.fsum(value for value in values(turns, spec) if value is not None)


def in_turns(candidates: list[ProposedCandidate], cuts: list[int]) -> list[TurnFacts]:
    """The candidates in their order, cut into turns."""
    ends = sorted({min(cut, len(candidates)) for cut in cuts} | {len(candidates)})
    return [TurnFacts(candidates[start:end]) for start, end in zip([0, *ends], ends, strict=False)]


@given(POOLS, SPECS, st.lists(st.integers(0, 8), max_size=5))
def test_no_split_into_turns_changes_what_candidates_earn(pool: Pool, spec: RewardSpec, cuts: list[int]) -> None:
    candidates = candidates_of(pool)
    assert total(in_turns(candidates, cuts), spec) == pytest.approx(total([TurnFacts(candidates)], spec), abs=1e-9)


@given(POOLS, SPECS, st.data())
def test_repeats_never_earn_anything(pool: Pool, spec: RewardSpec, data: st.DataObject) -> None:
    candidates = candidates_of(pool)
    again = data.draw(st.lists(st.sampled_from(candidates), max_size=6))
    once, more = [TurnFacts([c]) for c in candidates], [TurnFacts([c]) for c in again]
    assert values(once + more, spec) == [*values(once, spec), *[0.0] * len(more)]
    paid = [TurnFacts(cost=Cost(llm_tokens=10.0))] * len(more)
    assert total(once + paid, spec) <= total(once, spec)


@given(POOLS, SPECS, st.randoms(use_true_random=False))
def test_no_order_earns_more_than_the_best_first(pool: Pool, spec: RewardSpec, random: random.Random) -> None:
    candidates = candidates_of(pool)
    most = worth([Find(c.key, c.families, c.worth) for c in candidates], spec.weight) or 0.0
    spent = sum(cost for *_, cost in pool) * SPEC.prices["core_seconds"]
    random.shuffle(candidates)
    assert total([TurnFacts([c]) for c in candidates], spec) <= most - spent + 1e-9
    if spec.unsettled_limit is None:
        best = sorted(candidates, key=lambda c: -(c.worth or 0.0))
        assert total([TurnFacts([c]) for c in best], spec) == pytest.approx(most - spent, abs=1e-9)


@given(POOLS, SPECS)
def test_promises_alone_never_earn_more_than_their_limit(pool: Pool, spec: RewardSpec) -> None:
    promised = [candidate for candidate in candidates_of(pool) if not candidate.settled]
    assert total([TurnFacts([c]) for c in promised], spec) <= (spec.unsettled_limit or math.inf) + 1e-9
