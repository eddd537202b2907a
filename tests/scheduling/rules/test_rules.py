"""The rules by name."""

from __future__ import annotations

import typing

import pytest

from sciagent.campaign.spec.sources import SchedulerSpec
from sciagent.errors import UnknownNameError
from sciagent.scheduling.rules import RULES, Setup, make_rule
from tests.scheduling.rules.arrays import room, waiting


def test_every_rule_can_be_asked_for_in_yaml_and_the_other_way_round() -> None:
    union = typing.get_args(SchedulerSpec)[0]
    kinds = {typing.get_args(one.model_fields["kind"].annotation)[0] for one in typing.get_args(union)}
    assert kinds == set(RULES)


@pytest.mark.parametrize("kind", sorted(RULES.keys() - {"priced"}))  # whose choices come from `campaign.pricing`
def test_every_choice_has_a_reason_that_opens_with_the_rule_and_a_propensity(kind: str) -> None:
    rule = make_rule(kind, Setup(seed=1, terminal=2, rung=1))
    ladder = [waiting(1, [1, 2, 3]), waiting(2, [4, 5], [0.3, 0.6])]
    choices = rule.choose(ladder, [room(started=9), room()], 4)
    assert len(choices) == 4 and rule.name == kind
    assert all(c.why.startswith(kind) for c in choices)
    assert all(0 < c.propensity <= 1 for c in choices)
    assert rule.choose(ladder, [room(started=9), room()], 4) == choices


def test_an_unknown_rule_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match='did you mean "halving"'):
        make_rule("halfing")
