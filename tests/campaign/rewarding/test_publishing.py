"""Versions of rewards from evidence that is written by the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.rewarding.publishing import publish
from sciagent.campaign.rewarding.showing import difference, show
from sciagent.domain.answers.rewards import ShownRewards
from sciagent.errors import UnknownNameError, UsageError
from sciagent.rewards.spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from tests.support.rewarded import DFT, HIT, MISS, XTB, Rewarded, rewarded

PRICE = 0.001
SPEC = RewardSpec(prices={"core_seconds": PRICE, "llm_tokens": 1e-5}, unsettled="settled")
GAP = "homo_lumo_gap"


def returns(shown: ShownRewards) -> dict[int, list[float | None]]:
    """By episode, the return of each turn."""
    return {episode.episode: [turn.to_go for turn in episode.turns] for episode in shown.episodes}


def verified(made: Rewarded, smiles: str, gap: float, seconds: float = 100.0) -> None:
    made.check(smiles)
    made.order(smiles, XTB)
    made.answer(smiles, XTB, {GAP: 8.0}, seconds=1.0)
    made.order(smiles, DFT)
    made.answer(smiles, DFT, {GAP: gap}, seconds=seconds)


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Rewarded:
    return rewarded(ledger, tmp_path)


def test_turns_pay_for_what_they_cost_and_a_shared_candidate_is_credited_and_paid_twice(made: Rewarded) -> None:
    group = made.group(0, 2)
    made.episode(1, [["CCO"], ["CCN"]], group=group, sibling=0, tokens=200.0)
    made.episode(2, [["CCO"]], group=group, sibling=1, tokens=100.0)
    verified(made, "CCO", HIT)
    verified(made, "CCN", MISS, seconds=300.0)
    answer = publish(made.ledger, "small", SPEC)
    assert (answer.episodes, answer.rewarded, answer.undecided, answer.changed) == (2, 2, 0, ())
    first, second = 1 - 101 * PRICE - 0.002, -301 * PRICE - 0.002
    found = returns(show(made.ledger, answer.version))
    assert found == {1: [pytest.approx(first + second), pytest.approx(second)], 2: [pytest.approx(1 - 0.101 - 0.001)]}
    assert publish(made.ledger, "small", SPEC) == answer, "the same description at the same watermark"


def test_what_is_pending_crashed_or_not_bought_is_undecided_and_never_zero(made: Rewarded) -> None:
    group = made.group(0, 2)
    made.episode(1, [["CCO"], ["CCN"], ["CCS"], ["CCC"], ["CCF"], ["CCCl"]], group=group, sibling=0)
    made.episode(2, [["CO"]] * 6, group=group, sibling=1)
    for smiles in ("CCO", "CCN", "CCC", "CCF", "CCCl"):
        verified(made, smiles, HIT, seconds=0.0)
    made.check("CCS", "CO")
    made.order("CCS", XTB)  # and no answer ever came
    made.fail("CO", XTB)
    shown = show(
        made.ledger, publish(made.ledger, "small", SPEC.model_copy(update={"prices": {"core_seconds": 1e-9}})).version
    )
    [crashed, whole] = shown.episodes
    assert crashed.outcome is None
    assert [turn.to_go for turn in crashed.turns[:3]] == [None] * 3
    assert all(turn.to_go is not None and turn.advantage is not None for turn in crashed.turns[3:])
    assert whole.outcome == pytest.approx(0.0, abs=1e-6), "refused by a gate"


def test_a_late_verdict_and_a_correction_change_the_rewards_of_their_groups_alone(made: Rewarded) -> None:
    for number, smiles in enumerate(("CCO", "CCN", "CCS")):
        made.episode(number + 1, [[smiles]], group=made.group(number, 1))
    verified(made, "CCO", HIT)
    verified(made, "CCN", MISS)
    made.check("CCS")
    first = publish(made.ledger, "small", SPEC)
    assert first.undecided == 1
    verified(made, "CCS", HIT)
    late = publish(made.ledger, "small", SPEC)
    assert [(change.episode, change.was is None) for change in late.changed] == [(3, True)]
    wrong = made.known("CCN", DFT)
    made.answer("CCN", DFT, {GAP: HIT}, seconds=0.0, supersedes=wrong, revision=1)
    corrected = publish(made.ledger, "small", SPEC)
    [change] = corrected.changed
    assert (change.episode, change.turn) == (2, 0)
    assert change.now is not None and change.was is not None
    assert change.now - change.was == pytest.approx(1.0)
    assert {row.episode for row in difference(made.ledger, first.version, corrected.version)} == {2, 3}
    again = publish(made.ledger, "small", SPEC.model_copy(update={"watermark": first.watermark}))
    assert returns(show(made.ledger, again.version)) == returns(show(made.ledger, first.version))


def test_the_best_of_several_replicates_does_not_count(made: Rewarded) -> None:
    made.episode(1, [["CCO"]], group=made.group(0, 1))
    verified(made, "CCO", MISS)
    made.answer("CCO", DFT, {GAP: MISS}, seconds=100.0, replicate=1)
    made.answer("CCO", DFT, {GAP: HIT}, seconds=100.0, replicate=2)
    [[reward]] = returns(show(made.ledger, publish(made.ledger, "small", SPEC).version)).values()
    assert reward == pytest.approx(-301 * PRICE), "the mean misses the goal, and all three were paid for"


def test_mistakes_are_named(made: Rewarded) -> None:
    with pytest.raises(UsageError, match="no episodes of a model"):
        publish(made.ledger, "small", SPEC)
    with pytest.raises(UsageError, match="lies in the future"):
        publish(made.ledger, "small", SPEC.model_copy(update={"watermark": 10**6}))
    with pytest.raises(UnknownNameError):
        publish(made.ledger, "smal", SPEC)
    with pytest.raises(UnknownNameError):
        show(made.ledger, 17)
