"""The state tables, tested whole: every pair of states is either listed here or refused."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from enum import StrEnum

import pytest

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.states_and_needs import (
    ATTEMPT_TRANSITIONS,
    CAMPAIGN_TRANSITIONS,
    MAX_LOSSES,
    MAX_PROGRESS_TEXT,
    AttemptState,
    CampaignState,
    ReportedProgress,
    after_loss,
    after_recall,
    after_result,
    check_transition,
    cost_of_killed,
)

ATTEMPT = """
running: done failed lost stale cancelled cancelled_late
done:
failed:
lost: stale
stale:
cancelled:
cancelled_late:
"""
CAMPAIGN = """
created: running
running: paused waiting interrupted finished budget_spent failed
paused: running waiting interrupted finished budget_spent failed
waiting: running paused
interrupted: running
finished: running
budget_spent: running
failed: running
"""
TABLES = [(AttemptState, ATTEMPT_TRANSITIONS, ATTEMPT), (CampaignState, CAMPAIGN_TRANSITIONS, CAMPAIGN)]


@pytest.mark.parametrize(("states", "table", "text"), TABLES, ids=["attempt", "campaign"])
def test_every_transition(states: type[StrEnum], table: dict, text: str) -> None:
    lines = dict(line.split(":") for line in text.strip().splitlines())
    allowed = {old: set(new.split()) for old, new in lines.items()}
    assert set(allowed) == set(states) == set(table)
    for old, new in itertools.product(states, states):
        if new in allowed[old]:
            check_transition(table, old, new)
        else:
            with pytest.raises(ValueError, match=f"{old} → {new} is not allowed"):
                check_transition(table, old, new)


def test_what_is_over_stays_over() -> None:
    assert sum(bool(v) for v in ATTEMPT_TRANSITIONS.values()) == 2


@pytest.mark.parametrize(
    ("outcome", "reason", "more", "expected"),
    [
        (Outcome.OK, None, {}, ("done", "done", 0)),
        (Outcome.OK, None, {"cancelled": True}, ("done", "cancelled_late", 0)),
        (Outcome.TIMEOUT, None, {}, ("failed", "failed", 0)),
        (Outcome.LOST, Reason.WORKER_DIED, {}, ("queued", "failed", 1)),
        (Outcome.LOST, Reason.WORKER_DIED, {"kills": 1}, ("quarantined", "failed", 1)),
        (Outcome.LOST, Reason.WORKER_DIED, {"interrupted": True}, ("queued", "cancelled", 0)),
        (Outcome.LOST, Reason.WORKER_DIED, {"cancelled": True}, ("cancelled", "cancelled", 0)),
        (Outcome.CRASHED, Reason.BAD_RESULT, {}, ("quarantined", "failed", 1)),
    ],
)
def test_what_a_result_makes_of_its_job(
    outcome: Outcome, reason: Reason | None, more: dict[str, int], expected: tuple[str, str, int]
) -> None:
    kills = more.pop("kills", 0)
    after = after_result(outcome, reason, kills=kills, **{name: bool(value) for name, value in more.items()})
    assert (after.job, after.attempt, after.kills) == expected and after.losses == 0


def test_the_fifth_loss_quarantines_and_a_cancelled_job_is_cancelled() -> None:
    states = [str(after_loss(losses=losses).job) for losses in range(MAX_LOSSES)]
    assert states == ["queued"] * 4 + ["quarantined"]
    assert (after_loss(losses=0, cancelled=True).job, after_loss(losses=0).losses) == ("cancelled", 1)


def test_what_is_taken_back_counts_for_nothing() -> None:
    after = after_recall()
    assert (after.job, after.attempt, after.kills, after.losses) == ("queued", "cancelled", 0, 0)
    assert after_recall(cancelled=True).job == "cancelled"


def test_a_killed_job_costs_its_wall_time_on_all_its_cores() -> None:
    assert cost_of_killed(3600, 8) == {"core_seconds": 28_800}
    assert cost_of_killed(-0.1, 8).get("core_seconds", 0.0) == 0.0


def test_progress_counts_down_and_says_how_old_it_is() -> None:
    progress = ReportedProgress(30.0, 40.0, "replica 2 of 3", remaining_seconds=600.0)
    assert progress.words == "75 %, 10 min left: replica 2 of 3"
    later = replace(progress, age_seconds=240.0)
    assert later.words == "75 %, 6 min left, reported 4 min ago: replica 2 of 3"
    assert later.seconds_left == 360.0 and replace(progress, age_seconds=900.0).seconds_left == 0.0


def test_a_slip_in_a_report_of_progress_is_cut() -> None:
    assert ReportedProgress.clipped(41, 40) == ReportedProgress(40.0, 40.0)
    assert ReportedProgress.clipped(-1e-9, 1).done == 0.0
    assert len(ReportedProgress.clipped(1, 2, "chunk " * 100).text) == MAX_PROGRESS_TEXT
    for done, of in ((math.nan, 1), (0, 0), (1, -1), (1, math.inf), (0, math.nan)):
        with pytest.raises(ValueError, match="progress of"):
            ReportedProgress.clipped(done, of)
