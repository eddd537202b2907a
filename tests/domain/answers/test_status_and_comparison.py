"""The status of a campaign as JSON."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sciagent.domain.answers.candidate_and_value_answers import json_schema, plain
from sciagent.domain.answers.status_and_comparison import CampaignCounts, HitCounts, RateUse
from sciagent.domain.states_and_needs import CampaignState


def counts(**more: Any) -> CampaignCounts:
    none = dict.fromkeys(
        ("proposals", "unreadable", "candidates", "hits", "distinct_hits", "reused", "held", "vetoed"), 0
    ) | dict.fromkeys(("stop_reason", "trouble", "driver"), None)
    spent = {"core_seconds": 0.0, "wall_minutes": 0.0}
    given: dict[str, Any] = none | {"hits_by_tier": {}, "budget": {"proposals": 200, "rungs": {"dft": 10}}} | more
    return CampaignCounts(campaign="dyes", state=CampaignState.CREATED, spent=spent, rungs=(), **given)


def test_rates_stand_in_the_json_only_where_the_budget_has_some() -> None:
    assert "rates" not in plain(counts())
    rates = {"money": RateUse(amount=5.0, per="week", used=1.0)}
    assert plain(counts(rates=rates))["rates"] == {"money": {"amount": 5.0, "per": "week", "used": 1.0}}
    assert "rates" not in json_schema(CampaignCounts)["required"]


def test_a_whole_number_of_the_budget_stays_one() -> None:
    assert repr(plain(counts())["budget"]) == "{'proposals': 200, 'rungs': {'dft': 10}}"


def test_an_answer_does_not_change() -> None:
    with pytest.raises(ValidationError):
        counts().hits = 3  # type: ignore[misc]


def test_two_numbers_of_hits_are_stated_where_they_differ() -> None:
    texts = [str(HitCounts(*numbers)) for numbers in ((0, 0), (1, 1), (5, 5), (5, 4))]
    assert texts == ["0 hits", "1 hit", "5 hits", "5 hits, 4 distinct"]
    assert counts(hits=5, distinct_hits=4).hit_counts.text("five") == "five, 4 distinct"
