"""The states of jobs, attempts, campaigns and of a candidate in a campaign, with the allowed transitions."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    QUARANTINED = "quarantined"  # killed two workers


class AttemptState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"  # the lease expired
    STALE = "stale"  # finished after another worker had taken over
    CANCELLED = "cancelled"
    CANCELLED_LATE = "cancelled_late"  # finished before the cancellation reached it; the result is kept


class CampaignState(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"  # by a person: the driver stays and starts nothing
    INTERRUPTED = "interrupted"
    FINISHED = "finished"  # goal reached or nothing left to do
    BUDGET_SPENT = "budget_spent"
    FAILED = "failed"


class Standing(StrEnum):
    """The state of a candidate in a campaign."""

    OPEN = "open"  # may be promoted
    PENDING = "pending"  # its job is queued or running
    DROPPED = "dropped"  # a gate failed, a rung could not decide, or it is out of reach
    SETTLED = "settled"  # has its terminal evidence
    HELD = "held"  # held by a person, otherwise open
    VETOED = "vetoed"  # excluded by a person


ATTEMPT_TRANSITIONS: dict[AttemptState, frozenset[AttemptState]] = {
    AttemptState.RUNNING: frozenset(set(AttemptState) - {AttemptState.RUNNING}),
    AttemptState.LOST: frozenset({AttemptState.STALE}),
    **dict.fromkeys(set(AttemptState) - {AttemptState.RUNNING, AttemptState.LOST}, frozenset()),
}

CAMPAIGN_TRANSITIONS: dict[CampaignState, frozenset[CampaignState]] = {
    CampaignState.CREATED: frozenset({CampaignState.RUNNING}),
    CampaignState.RUNNING: frozenset(set(CampaignState) - {CampaignState.CREATED, CampaignState.RUNNING}),
    CampaignState.PAUSED: frozenset(set(CampaignState) - {CampaignState.CREATED, CampaignState.PAUSED}),
    CampaignState.INTERRUPTED: frozenset({CampaignState.RUNNING}),
    CampaignState.FAILED: frozenset({CampaignState.RUNNING}),
    CampaignState.FINISHED: frozenset({CampaignState.RUNNING}),  # after an amendment
    CampaignState.BUDGET_SPENT: frozenset({CampaignState.RUNNING}),
}

S = TypeVar("S", AttemptState, CampaignState)


def check_transition(table: dict[S, frozenset[S]], old: S, new: S) -> None:
    """Raises ValueError when the table does not allow old → new."""
    if new not in table[old]:
        allowed = ", ".join(sorted(table[old])) or "nothing"
        raise ValueError(f"{type(old).__name__}: {old} → {new} is not allowed; from {old} only {allowed}")
