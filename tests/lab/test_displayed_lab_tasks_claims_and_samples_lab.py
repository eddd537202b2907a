"""The answers about work of people, as scripts read them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sciagent.domain.answers.candidate_and_value_answers import plain
from sciagent.lab.displayed_lab_tasks_claims_and_samples import LabClaimed, LabEntered


def test_a_release_says_whether_the_cost_came_back() -> None:
    assert plain(LabClaimed(task=1, state="claimed", claimed_by="anna"))["cost_given_back"] is None
    assert plain(LabClaimed(task=1, state="queued", claimed_by=None, cost_given_back=True))["cost_given_back"] is True


def test_a_task_has_one_of_the_states_of_the_list() -> None:
    with pytest.raises(ValidationError, match="'claimed', 'part_answered', 'in_review', 'answered' or 'cancelled'"):
        LabEntered(task=1, state="done", evidence_key="a", revision=0)
