"""The rules by name."""

from __future__ import annotations

import typing

import pytest

from sciagent.campaign.spec.sources import SchedulerSpec
from sciagent.domain.campaigns.ladder import PaidIndex
from sciagent.errors import UnknownNameError
from sciagent.scheduling.rules import RULES, RuleSetup, make_rule
from tests.scheduling.rules.arrays import waiting


def test_every_rule_can_be_asked_for_in_yaml_and_the_other_way_round() -> None:
    union = typing.get_args(SchedulerSpec)[0]
    kinds = {typing.get_args(one.model_fields["kind"].annotation)[0] for one in typing.get_args(union)}
    assert kinds == {"priced", *RULES}


@pytest.mark.parametrize("kind", sorted(RULES))
def test_every_choice_has_a_reason_that_opens_with_the_rule_and_a_propensity(kind: str) -> None:
    rule = make_rule(kind, RuleSetup(seed=1, terminal=PaidIndex(1), rung=PaidIndex(0)))
    ladder = [waiting(0, [1, 2, 3], started=9), waiting(1, [4, 5], [0.3, 0.6])]
    choices = rule.choose(ladder, 4)
    assert len(choices) == 4 and rule.name == kind
    assert all(c.why.startswith(kind) for c in choices)
    assert all(0 < c.propensity <= 1 for c in choices)
    assert rule.choose(ladder, 4) == choices


def test_an_unknown_rule_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match='did you mean "halving"'):
        make_rule("halfing")
