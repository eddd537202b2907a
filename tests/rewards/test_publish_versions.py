"""Versions of rewards from evidence that is written by the test."""

from __future__ import annotations

import pytest

from sciagent.errors import UnknownNameError, UsageError
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.show_and_compare_versions import difference, show
from tests.support.rewarded import DFT, GAP, HIT, MISS, PRICE, SPEC, Rewarded, returns


def test_a_late_verdict_and_a_correction_change_the_rewards_of_their_groups_alone(made: Rewarded) -> None:
    for number, smiles in enumerate(("CCO", "CCN", "CCS")):
        made.episode(number + 1, [[smiles]], group=made.group(number, 1))
    made.settle("CCO", HIT)
    made.settle("CCN", MISS)
    made.check("CCS")
    first = publish(made.ledger, "small", SPEC)
    assert first.undecided == 1
    made.settle("CCS", HIT)
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
    made.settle("CCO", MISS)
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
