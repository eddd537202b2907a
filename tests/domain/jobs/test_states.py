"""The state tables, tested whole: every pair of states is either listed here or refused."""

from __future__ import annotations

import itertools
from enum import StrEnum

import pytest

from sciagent.domain.jobs.states import (
    ATTEMPT_TRANSITIONS,
    CAMPAIGN_TRANSITIONS,
    AttemptState,
    CampaignState,
    check_transition,
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
running: paused interrupted finished budget_spent failed
paused: running interrupted finished budget_spent failed
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
