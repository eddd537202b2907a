"""The HTTP API of the laboratory: tasks, their claims, results with files, and vials, for instruments and scripts."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Body, Depends, Header, HTTPException, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.engine import Connection
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from sciagent.campaign.core.create_and_open import open_campaign_for_people
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import structure_text
from sciagent.domain.lab_messages_and_codes import read_code
from sciagent.domain.people import Right
from sciagent.domain.safe_text_and_durations import storable
from sciagent.domain.states_and_needs import JobState
from sciagent.errors import TaskStateError, UsageError
from sciagent.lab import claims_costs_and_vials, record_answers, typed_answers
from sciagent.lab.displayed_lab_tasks_claims_and_samples import (
    LabAnswerFile,
    LabClaimed,
    LabEntered,
    LabGivenAnswer,
    LabTaskAnswer,
    LabTaskList,
    LabTaskWithAnswers,
    LabVialAnswer,
    TaskReader,
    TaskState,
)
from sciagent.lab.improbable_values import WHATEVER
from sciagent.lab.pages.posted_results import RESULT_PART, PostedResult, ResultIn, answer_and_texts, posted_result
from sciagent.lab.pages.typed_form_and_attachments import MAX_FILE_BYTES, MAX_FILES, download, hidden_task, keep_files
from sciagent.store.campaign_state import campaigns, directives
from sciagent.store.lab import samples, submissions, tasks
from sciagent.store.lab.blind_measurements import not_for
from sciagent.store.lab.samples import Vial
from sciagent.store.lab.submissions import Submission
from sciagent.store.results import candidates
from sciagent.web.problem_answers import FieldFaultError
from sciagent.web.route_rules_and_request_guards import LARGEST_ID, Pages, RouteRule
from sciagent.web.site_context_and_ticker import next_path, site_of, task_of, visitor

JSON = ("application/json",)
READ = RouteRule(Right.READ, of="task")
WORK = RouteRule(Right.WORK, of="task", takes=JSON)
WORK_WITH_FILES = RouteRule(Right.WORK, of="task", takes=(*JSON, "multipart/form-data"))
TaskNumber = Annotated[int, Path(ge=1, le=LARGEST_ID, description="Number of the task.", examples=[4711])]
JOB_STATES: dict[TaskState, tuple[JobState, ...]] = {
    "waiting": (JobState.QUEUED,),
    "queued": (JobState.QUEUED,),
    "claimed": (JobState.RUNNING,),
    "part_answered": (JobState.RUNNING,),
    "in_review": (JobState.RUNNING, JobState.DONE),
    "answered": (JobState.DONE,),
    "cancelled": (JobState.CANCELLED, JobState.FAILED, JobState.QUARANTINED),
}
"""{state of a task: states of its job}."""
ON_THE_LIST = (None, "waiting", "queued")
"""States of tasks that stand in the order of their worth; None: open tasks."""
pages = Pages(tag="laboratory")


class TaskFilter(BaseModel):
    """Which tasks are listed."""

    model_config = ConfigDict(extra="forbid")

    campaign: str | None = Field(None, max_length=200, description="Only tasks of this campaign.")
    state: TaskState | None = Field(None, description="Only tasks in this state; without it, open tasks.")
    claimed_by: Literal["me"] | None = Field(None, description="`me`: only tasks that the account has claimed.")
    vial: str | None = Field(None, max_length=40, description="Only tasks of the molecule in the vial with this code.")
    order: Literal["worth", "number"] = Field(
        "worth",
        description="`worth`: what is to be measured next comes first; a task that is answered between two pages moves "
        "the others up. `number`: each task once, however many are answered meanwhile; tasks of other states than "
        "`waiting` and `queued`, and those of a vial, are always listed so.",
    )
    limit: int = Field(100, ge=1, le=200, description="Most tasks of a page.")
    cursor: int = Field(0, ge=0, le=LARGEST_ID, description="Where the page begins, as `next` of the page before says.")


@pages.get("/tasks", RouteRule(Right.READ), LabTaskList)
def list_tasks(request: Request, asked: Annotated[TaskFilter, Query()]) -> LabTaskList:
    """Lists tasks, page by page, with the answers of `sciagent lab list --json`. Unclaimed blind tasks that another
    person has to measure are left out."""
    site = site_of(request)
    who = visitor(request)
    with site.ledger.read() as connection:
        campaign_id = None if asked.campaign is None else _campaign_id(request, connection, asked.campaign)
        candidate_id = (
            None if asked.vial is None else _visible_vial(request, connection, asked.vial, "vial").candidate_id
        )
        is_by_number = asked.order == "number" or asked.state not in ON_THE_LIST or candidate_id is not None
        more: dict[str, Any] = {"after": asked.cursor} if is_by_number else {"skip": asked.cursor}
        if asked.state is not None:
            more["states"] = JOB_STATES[asked.state]
        found = tasks.listed(
            connection,
            campaign_id=campaign_id,
            among=who.rights.campaigns(Right.READ),
            claimed_by=str(who.who) if asked.claimed_by else None,
            in_review=asked.state == "in_review",
            candidate_id=candidate_id,
            unless=not_for(connection, who.viewer),
            limit=asked.limit + 1,
            **more,
        )
        page = found[: asked.limit]
        shown = site.shared(TaskReader).shown(connection, page, who.viewer)
    cursor = None
    if len(found) > asked.limit:
        cursor = page[-1].id if is_by_number else asked.cursor + asked.limit
    in_state = [task for task in shown if asked.state in (None, task.state)]
    return LabTaskList(tasks=tuple(in_state), next=next_path(request, cursor))


def _campaign_id(request: Request, connection: Connection, name: str) -> int:
    """Returns the id of a campaign that the account may see. Raises FieldFaultError without one."""
    row = campaigns.find(connection, name) if storable(name) == name else None
    if row is None or not visitor(request).rights.may(Right.READ, row.id):
        raise FieldFaultError(400, "there is no such campaign, or you may not see it", "campaign")
    return row.id


def _visible_vial(request: Request, connection: Connection, text: str, field: str) -> Vial:
    """Returns the vial with a code. field: the part of the request that has the code.

    Raises FieldFaultError for a text that is no code, and HTTPException with 404 if there is no such vial, or it is of
    no campaign that the account may see."""
    try:
        code = read_code(text)
    except UsageError as error:
        raise FieldFaultError(400, error.text, field) from None
    vial = samples.find(connection, code)
    rights = visitor(request).rights
    of_vial = [] if vial is None else tasks.of_vial(connection, vial)
    if vial is None or not any(rights.may(Right.READ, task.campaign_id) for task in of_vial):
        raise HTTPException(404, f"no vial has the code {code}, or you may not see it")
    return vial


@pages.get("/tasks/{task}", READ, LabTaskWithAnswers)
def read_task(request: Request, task: TaskNumber) -> LabTaskWithAnswers:
    """Shows a task, and what was answered."""
    site = site_of(request)
    with site.ledger.read() as connection:
        [shown] = site.shared(TaskReader).shown(connection, [task_of(request)], visitor(request).viewer)
        given = [] if shown.is_hidden else submissions.of_job(connection, task)
    fields = {name: getattr(shown, name) for name in LabTaskAnswer.model_fields}
    return LabTaskWithAnswers(**fields, answers=tuple(_given(submission) for submission in given))


def _given(submission: Submission) -> LabGivenAnswer:
    assert submission.at is not None  # it was read from the ledger
    files = [LabAnswerFile(**{name: file[name] for name in LabAnswerFile.model_fields}) for file in submission.files]
    return LabGivenAnswer(
        answer=submission.id,
        kind=submission.kind,
        who=submission.who,
        at=submission.at,
        revision=submission.revision,
        text=typed_answers.answer_in_words(submission.said),
        why=submission.why,
        files=tuple(files),
    )


class ClaimIn(BaseModel):
    """A claim of a task."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    take_over: bool = Field(False, strict=True)
    """Claim it also if somebody else has it, whose claim ends."""


@pages.post("/tasks/{task}/claim", WORK, LabClaimed)
def claim_task(request: Request, task: TaskNumber, asked: Annotated[ClaimIn, Body()]) -> LabClaimed:
    """Claims a task. Its cost counts from now on. A claim that is sent again changes nothing."""
    site = site_of(request)
    who = visitor(request).who
    built = open_campaign_for_people(site.ledger, task_of(request).campaign)
    try:
        claims_costs_and_vials.claim(built, task, who, take_over=asked.take_over)
    except TaskStateError:
        with site.ledger.read() as connection:
            task_now = tasks.find(connection, task)
        if task_now is None or task_now.state is not JobState.RUNNING or task_now.claimed_by != who:
            raise
    return LabClaimed(task=task, state="claimed", claimed_by=str(who))


class ReleaseIn(BaseModel):
    """The end of a claim without an answer."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    why: Annotated[str, Field(min_length=1, max_length=claims_costs_and_vials.MAX_REASON)]
    """Reason, such as a broken vial."""


@pages.post("/tasks/{task}/release", WORK, LabClaimed)
def release_task(request: Request, task: TaskNumber, asked: Annotated[ReleaseIn, Body()]) -> LabClaimed:
    """Gives a claimed task back to the list. Within a day of the claim its cost is given back, too."""
    try:
        why = directives.checked_reason(asked.why)
    except UsageError as error:
        raise FieldFaultError(400, error.text, "why") from None
    built = open_campaign_for_people(site_of(request).ledger, task_of(request).campaign)
    is_cost_given_back = claims_costs_and_vials.release(built, task, visitor(request).who, why)
    return LabClaimed(task=task, state="queued", claimed_by=None, cost_given_back=is_cost_given_back)


_RESULT_SCHEMA = {"$ref": f"#/components/schemas/{ResultIn.__name__}"}
_RESULT_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": _RESULT_SCHEMA},
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": [RESULT_PART],
                "properties": {
                    RESULT_PART: _RESULT_SCHEMA,
                    "files": {
                        "description": f"At most {MAX_FILES} files, each of at most {MAX_FILE_BYTES:,} bytes.",
                        "type": "array",
                        "maxItems": MAX_FILES,
                        "items": {"type": "string", "contentMediaType": "application/octet-stream"},
                    },
                },
            },
            "encoding": {RESULT_PART: {"contentType": "application/json"}},
        },
    },
}
# a structured string (RFC 9651) has quotation marks; most senders leave them out
IdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        pattern=r'^([!#-~]{8,64}|"[!#-\[\]-~]{8,64}")$',
        max_length=66,
        description="8 to 64 visible signs that no other answer has, such as a UUID. The sender makes them before it "
        "sends the answer. The same answer sent again with its key is recorded once, and gets the same reply.",
        examples=["8e03978e-40d5-43e8-bc93-6894a57f9324"],
    ),
]


@pages.post(
    "/tasks/{task}/results", WORK_WITH_FILES, LabEntered, body=ResultIn, openapi_extra={"requestBody": _RESULT_BODY}
)
def post_result(
    request: Request, task: TaskNumber, key: IdempotencyKey, posted: Annotated[PostedResult, Depends(posted_result)]
) -> LabEntered:
    """Records a result, with its files, or a correction. A task that nobody has is claimed first."""
    site = site_of(request)
    result = posted.result
    with site.ledger.read() as connection:
        [shown] = site.shared(TaskReader).shown(connection, [task_of(request)], visitor(request).viewer)
    _, texts = answer_and_texts(result, shown.asks)
    entry = record_answers.LabEntry(
        texts,
        visitor(request).who,
        key=key.strip('"'),
        why=result.why or None,
        sample=result.sample or None,
        files=keep_files(site.ledger, posted.form),
        seen=result.seen,
        confirmed=WHATEVER if result.confirmed else "",
    )
    built = open_campaign_for_people(site.ledger, task_of(request).campaign)
    done = record_answers.enter(built, task, entry)
    return record_answers.entered(done)


@pages.get(
    "/tasks/{task}/files/{sha256}",
    READ,
    response_class=FileResponse,
    responses={200: {"description": "The file.", "content": {"application/octet-stream": {}}}},
)
def read_file(
    request: Request,
    task: TaskNumber,
    sha256: Annotated[str, Path(pattern="^[0-9a-f]{64}$", max_length=64, description="SHA-256 of the file's content.")],
) -> Response:
    """Returns a file of an answer of the task."""
    site = site_of(request)
    with site.ledger.read() as connection:
        is_hidden = hidden_task(connection, visitor(request), task_of(request))
        given = [] if is_hidden else submissions.of_job(connection, task)
    for submission in given:
        for file in submission.files:
            if file["sha256"] == sha256:
                return download(site.ledger, file)
    raise HTTPException(404, "no answer of this task has such a file")


@pages.get("/vials/{code}", RouteRule(Right.READ), LabVialAnswer)
def read_vial(
    request: Request, code: Annotated[str, Path(max_length=40, description="Code on the label.")]
) -> LabVialAnswer:
    """Looks a vial up by the code on its label, with the tasks of its molecule."""
    site = site_of(request)
    rights = visitor(request).rights
    with site.ledger.read() as connection:
        vial = _visible_vial(request, connection, code, "code")
        of_vial = tasks.of_vial(connection, vial)
        visible = [task for task in of_vial if rights.may(Right.READ, task.campaign_id)]
        shown = site.shared(TaskReader).shown(connection, visible, visitor(request).viewer)
        candidate = candidates.load(connection, [vial.candidate_id])[vial.candidate_id]
    structure = structure_text(candidate)
    is_hidden = any(task.is_hidden for task in shown)
    return LabVialAnswer(
        code=vial.code,
        task=next((task.task for task in shown if task.task == vial.job_id), None),
        kind=structure.kind,
        text=structure.text,
        drawn_from=structure.drawn_from,
        form=vial.form,
        source=vial.source,
        lot=vial.lot,
        purity=vial.purity,
        purity_how=vial.purity_how,
        made_by=None if is_hidden else vial.made_by,
        place=vial.place,
        state=vial.state,
        tasks=tuple(shown),
    )
