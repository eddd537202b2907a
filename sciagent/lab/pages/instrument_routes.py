"""Routes for instruments and scripts: the list of tasks, and a way to post a result, with a token."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from sciagent.campaign.core.create_and_open import open_campaign_for_people
from sciagent.domain.answers.candidate_and_value_answers import plain
from sciagent.domain.people import Right
from sciagent.lab import claims_costs_and_vials, record_and_review_answers
from sciagent.lab.displayed_lab_tasks_claims_and_samples import LabClaimed, LabEntered, TaskReader, TaskState
from sciagent.lab.typed_answers import typed_answer
from sciagent.store.lab import tasks
from sciagent.web.route_rules_and_request_guards import Pages, RouteRule
from sciagent.web.site_context_and_ticker import site_of, task_of, visitor

WORK = RouteRule(Right.WORK, of="task")
Text = Annotated[str, Field(max_length=4000)]
pages = Pages()


class ResultIn(BaseModel):
    """A result as an instrument posts it; its fields are the options of `sciagent lab enter`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    key: Annotated[str, Field(min_length=8, max_length=64)]
    """Made by the sender; a second posting with it changes nothing."""
    values: Annotated[dict[str, Text], Field(max_length=50)] = {}
    """{property: value with its unit}."""
    uncertainties: Annotated[dict[str, Text], Field(max_length=50)] = {}
    """{property: one standard deviation, in the unit of the value}."""
    not_obtained: Text = ""
    """The reason for which there is no value; empty if there are values."""
    why: Text = ""
    """The reason for a correction of an earlier result."""
    sample: Text = ""
    """Code of the vial that was measured."""
    comment: Text = ""


@pages.get("/api/tasks", RouteRule(Right.READ))
def listed(request: Request, limit: int = 100) -> list[object]:
    """Returns the open tasks as `sciagent lab list --json` does."""
    site = site_of(request)
    among = visitor(request).rights.campaigns(Right.READ)
    with site.ledger.read() as connection:
        found = tasks.listed(connection, among=among, limit=max(1, min(limit, 1000)))
        # one reader for the whole site
        return [plain(task) for task in site.shared(TaskReader).shown(connection, found)]


@pages.post("/api/tasks/{task}/claim", WORK)
def claim(request: Request, task: int) -> object:
    """Claims a task."""
    site = site_of(request)
    who = visitor(request).who
    claims_costs_and_vials.claim(open_campaign_for_people(site.ledger, task_of(request).campaign), task, who)
    return plain(LabClaimed(task=task, state="claimed", claimed_by=str(who)))


@pages.post("/api/tasks/{task}/results", WORK)
def enter(request: Request, task: int, given: Annotated[ResultIn, Body()]) -> object:
    """Records a result, and returns what `sciagent lab enter --json` does."""
    site = site_of(request)
    typed_texts = given.model_dump(include={"values", "uncertainties", "not_obtained", "comment"})
    # no limit (`<` or `>`) for all values together, since each text in `values` has its own, such as `< 5`
    typed_texts["limit"] = ""
    entry = record_and_review_answers.LabEntry(
        typed_answer(typed_texts),
        typed_texts,
        visitor(request).who,
        key=given.key,
        why=given.why or None,
        sample=given.sample or None,
    )
    built = open_campaign_for_people(site.ledger, task_of(request).campaign)
    done = record_and_review_answers.enter(built, task, entry)
    state: TaskState = "in_review" if done.in_review else "answered"
    answer = LabEntered(
        task=task, state=state, evidence_key=done.evidence_key, revision=done.revision, overdrawn=done.overdrawn
    )
    return plain(answer)
