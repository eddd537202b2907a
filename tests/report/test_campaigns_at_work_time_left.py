"""How long the budget will last."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sciagent.domain.answers.status_and_comparison import CampaignCounts, RungCounts
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.domain.safe_text_and_durations import ago, range_of
from sciagent.domain.states_and_needs import CampaignState
from sciagent.report.campaigns_at_work import time_left


def status(jobs: int, minutes: float, budget: dict[str, Any], core_seconds: float = 0.0) -> CampaignCounts:
    zeros = dict.fromkeys(("passed", "failed", "inconclusive", "errors", "running"), 0)
    rung = RungCounts(rung="dft", tier=Tier.HIGH_FIDELITY, done=jobs, jobs=jobs, core_seconds=core_seconds, **zeros)
    names = ("proposals", "unreadable", "candidates", "hits", "distinct_hits", "reused", "held", "vetoed")
    counts = dict.fromkeys(names, 0)
    spent = {"core_seconds": core_seconds, "wall_minutes": minutes}
    nothing = dict.fromkeys(("stop_reason", "trouble", "driver"))
    more = {"spent": spent, "budget": budget, "rungs": (rung,), "hits_by_tier": {}, "rates": {}}
    return CampaignCounts(campaign="dyes", state=CampaignState.RUNNING, **counts, **nothing, **more)


def test_nothing_is_said_before_jobs_have_ended() -> None:
    assert time_left(status(2, 5, {"rungs": {"dft": 20}}), 2) is None
    assert time_left(status(9, 5, {"proposals": 100}), 2) is None


@pytest.mark.parametrize("idle", [0.0, 600.0])
def test_the_range_holds_what_jobs_of_equal_cost_take(idle: float) -> None:
    """Eight jobs of 60 s on two workers, after a time without any: twelve more take 360 s."""
    minutes = (8 * 60 / 2 + idle) / 60
    text = time_left(status(8, minutes, {"rungs": {"dft": 20}}, core_seconds=480), 2)
    assert text == ("budget left for about 6 min" if not idle else "budget left for 6 to 21 min")


def test_the_first_limit_counts_and_the_clock_is_the_last() -> None:
    budget = {"rungs": {"dft": 20}, "core_seconds": 600}
    assert time_left(status(8, 4, budget, core_seconds=480), 2) == "budget left for about 60 s"
    assert time_left(status(0, 4, {"wall_minutes": 9}), 2) == "budget left for at most 5 min"


def test_times_are_short_and_a_unit_is_said_once() -> None:
    now = datetime.now(UTC)
    assert ago(now, now - timedelta(seconds=150)) == "2 min" and ago(now, None) == "0 s"
    assert (range_of(40, 100), range_of(40, 400), range_of(61, 61.2)) == ("40 to 100 s", "40 s to 7 min", "about 61 s")
