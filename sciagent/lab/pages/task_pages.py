"""The page of one task: the question, what is known, what was answered, the form, and what people do with the task."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import HTTPException
from sqlalchemy.engine import Connection
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import open_campaign_for_people
from sciagent.chemistry.mass_concentrations import conversions
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.lab_messages_and_codes import NOT_OBTAINED
from sciagent.domain.people import Right
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.safe_text_and_durations import read_id
from sciagent.domain.states_and_needs import JobState
from sciagent.errors import (
    AnswerChangedError,
    AnsweredMeanwhileError,
    EvidenceConflictError,
    ImprobableValuesError,
    UsageError,
)
from sciagent.lab import claims_costs_and_vials, record_answers, review_and_sign_answers
from sciagent.lab.displayed_lab_tasks_claims_and_samples import LabTaskAnswer, TaskReader
from sciagent.lab.improbable_values import digest_of
from sciagent.lab.pages.typed_form_and_attachments import LIMITS, TypedForm, hidden_task, keep_files
from sciagent.lab.typed_answers import named_in, read_number, typed_answer
from sciagent.store.campaign_state import campaigns, directives
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab import samples, submissions, tasks
from sciagent.store.lab.blind_measurements import UnseenAnswers, Viewer, unseen_answers, why_not_for
from sciagent.store.lab.samples import Vial
from sciagent.store.lab.submissions import Submission
from sciagent.store.lab.tasks import LabTask
from sciagent.store.people import audit, persons
from sciagent.store.people.audit import AuditEntry
from sciagent.store.results import candidates
from sciagent.store.views.report_candidates import rung_answers
from sciagent.web.password_checks import TryLaterError
from sciagent.web.route_rules_and_request_guards import Count, Pages, QueryText, RouteRule, TaskId
from sciagent.web.site_context_and_ticker import (
    NOTHING_REFUSED,
    RefusedForm,
    address_of,
    in_words,
    next_page,
    redirect_to,
    refused,
    said_of,
    sentence,
    site_of,
    task_of,
    texts,
    visitor,
    wants_json,
)

REASONS = {
    "synthesis_failed": "the synthesis failed",
    "decomposed": "it decomposed",
    "insoluble": "it did not dissolve",
    "impure": "it could not be purified",
}
"""{reason: words} for which a molecule could not be measured."""
assert set(REASONS) == set(NOT_OBTAINED)
MAX_VIALS = 20  # vials that the page of a task shows
MAX_OTHERS = 8  # other tasks of the molecule that the page of a task names
# {what ± means, as forms send it: words}
MEANINGS = {
    "standard": "one standard deviation",
    "interval_95": "95 % interval",
    "tolerance": "tolerance of the instrument",
}


@dataclass(frozen=True)
class Known:
    """A value that another rung of the campaign has measured."""

    rung: str
    """Label of the rung."""
    property: str
    """The property in words."""
    value: str
    """The value with its unit and uncertainty."""
    level: str
    """Label of the level."""


@dataclass(frozen=True)
class TaskPage:
    """A task with everything that its page shows."""

    task: LabTaskAnswer
    labels: dict[str, str]
    """Words for each property that is asked for."""
    notes: dict[str, str]
    """{property: its description}, so that a number without a unit says what it is."""
    known: Sequence[Known]
    """Values of other rungs; none for a blind task."""
    answers: Sequence[Submission]
    """What people entered, oldest first."""
    signatures: Sequence[AuditEntry]
    vials: Sequence[Vial]
    waiting: Submission | None
    """The answer that waits for a second person; None if none waits."""
    others: Sequence[LabTask]
    """Tasks of the same molecule by other methods, or in other campaigns."""
    names: Mapping[str, str]
    """{login: name} of the people who entered answers, and have an account."""
    converted: Mapping[int, Sequence[str]]
    """{id of an answer: sentences on its masses by volume}; see `conversions`."""
    not_for_you: str
    """The reason why a blind task is another person's; empty if it is not."""

    @property
    def last_id(self) -> int:
        """Returns the id of the last submission; 0 without one."""
        return self.answers[-1].id if self.answers else 0

    @property
    def last_answer(self) -> Submission | None:
        """Returns the last answer that has values or a reason; None without one."""
        for submission in reversed(self.answers):
            if submission.kind != submissions.SENT_BACK:
                return submission
        return None

    @property
    def open_in_review(self) -> list[str]:
        """Returns the names of the quantities that the answer which waits for a second person leaves open."""
        if self.waiting is None or self.waiting.said.get("not_obtained"):
            return []
        answered = named_in(self.waiting.said)
        return [name for name in self.labels if name not in answered]

    @property
    def recorded_quantities(self) -> set[str]:
        """Returns the names of the quantities of which evidence is recorded."""
        for submission in reversed(self.answers):
            if submission.evidence_id is not None:
                is_whole = bool(submission.said.get("not_obtained"))
                return set(self.labels) if is_whole else named_in(submission.said)
        return set()


def read_task(ledger: Ledger, task: LabTask, reader: TaskReader, viewer: Viewer) -> TaskPage:
    """Returns a task for its page. reader: shared by pages, so that it reads each campaign once. viewer: the person for
    whom it is shown."""
    with ledger.read() as connection:
        [shown] = reader.shown(connection, [task], viewer)
        answers = [] if shown.is_hidden else submissions.of_job(connection, task.id)
        acts = audit.of_object(connection, "submission", [submission.id for submission in answers])
        answers_by_id = {submission.id: submission for submission in answers}
        vials = samples.of_candidate(connection, task.candidate_id, MAX_VIALS)
        names = _names_of_authors(connection, answers)
        candidate = candidates.load(connection, [task.candidate_id])[task.candidate_id]
        known: Sequence[Known] = ()
        others: Sequence[LabTask] = ()
        not_for_you = ""
        if shown.blind:
            not_for_you = why_not_for(connection, task, viewer) or ""
        else:
            known = _known(connection, task, unseen_answers(connection, viewer, [task.candidate_id]))
            others = _others(connection, task)
    asked_names = [asked.property for asked in shown.asks]
    return TaskPage(
        shown,
        labels={name: in_words(name) for name in asked_names},
        notes={name: properties()[name].description for name in asked_names if name in properties()},
        known=known,
        answers=answers,
        signatures=[act for act in acts if act.what == "signed"],
        vials=vials,
        waiting=None if task.in_review_id is None else answers_by_id.get(task.in_review_id),
        others=others,
        names=names,
        converted={submission.id: _conversions(submission, candidate) for submission in answers},
        not_for_you=not_for_you,
    )


def _names_of_authors(connection: Connection, answers: Sequence[Submission]) -> dict[str, str]:
    """Returns {login: name} of the people who entered answers, and have an account."""
    found = [persons.by_login(connection, login) for login in {submission.who for submission in answers}]
    return {person.login: person.name for person in found if person is not None}


def _conversions(submission: Submission, candidate: Candidate) -> tuple[str, ...]:
    """Returns sentences on the masses by volume of an answer, into which amounts they were converted."""
    if submission.kind == submissions.SENT_BACK:
        return ()
    return conversions(typed_answer(submission.said).values, candidate)


def _others(connection: Connection, task: LabTask) -> list[LabTask]:
    """Returns the other tasks of the task's candidate that were not withdrawn."""
    of_candidate = tasks.of_candidate(connection, task.candidate_id)
    return [each for each in of_candidate if each.id != task.id and each.state != JobState.CANCELLED]


def _known(connection: Connection, task: LabTask, unseen: UnseenAnswers) -> list[Known]:
    """Returns the values of the task's candidate that other rungs of the campaign have measured, without those that a
    blind rung hides."""
    row = campaigns.get(connection, task.campaign)
    hidden = unseen.of(task.candidate_id)
    ladder = [rung for rung in campaigns.rungs(connection, row.id) if rung.computation not in hidden]
    answers = rung_answers(connection, row, ladder, [task.candidate_id]).get(task.candidate_id, ())
    known_values = []
    for answer in answers:
        if answer.rung == task.rung:
            continue
        for measured in answer.measured:
            name = in_words(measured.property)
            known_values.append(Known(answer.rung, name, in_words(str(measured.quantity)), measured.level.label))
    return known_values


READ = RouteRule(Right.READ, of="task")
WORK = RouteRule(Right.WORK, of="task")
DECIDE = RouteRule(Right.DECIDE, of="task")
pages = Pages()


@pages.get("/tasks/{task}", READ)
def task_page(
    request: Request,
    task: TaskId,
    vial: QueryText = "",
    saved: Count = 0,
    review: bool = False,
    part: bool = False,
    beyond: bool = False,
) -> Response:
    """Shows one task with its form. saved, review, part, beyond: as in the list."""
    return _page(request, TypedForm({"sample": vial[:40]}), saved=saved, review=review, part=part, beyond=beyond)


def _page(
    request: Request,
    form: TypedForm,
    status: int = 200,
    fault: str | None = None,
    saved: int = 0,
    review: bool = False,
    part: bool = False,
    beyond: bool = False,
    conflict: bool = False,
    changed: str = "",
    seen: int = 0,
    odd: Sequence[str] = (),
    beside: RefusedForm = NOTHING_REFUSED,
) -> Response:
    """Shows a task. Without a fault, and for quantities that a person who met a conflict has left empty, the form
    begins with the last answer. conflict: somebody answered while the person was typing. changed: the difference
    between the submission `seen`, which a reviewer read, and the one that waits. odd: the fault is that these things
    are improbable, and the person says whether they are right. beside: another form of the page that was refused."""
    site = site_of(request)
    task = task_of(request)
    page = read_task(site.ledger, task, site.shared(TaskReader), visitor(request).viewer)
    field_at_fault = form.field_at_fault(fault or "", page.task.asks)
    if page.last_answer is not None and (conflict or not fault):
        form = form.beginning_with(page.last_answer.said, page.task.asks)
    rights = visitor(request).rights
    readable = [other for other in page.others if rights.may(Right.READ, other.campaign_id)]
    others = readable[:MAX_OTHERS]
    may = {right: rights.may(right, task.campaign_id) for right in Right}
    answers_by_id = {submission.id: submission for submission in page.answers}
    words = {"reasons": REASONS, "meanings": MEANINGS, "limits": LIMITS, "key": form.of("key") or uuid.uuid4().hex}
    return site.page(
        request, "task.html.j2", status, page=page, task=page.task, form=form, fault=in_words(fault or ""), saved=saved,
        may=may, review=review, part=part, beyond=beyond, conflict=conflict, others=others, changed=changed, **words,
        read=answers_by_id.get(seen), field_at_fault=field_at_fault, odd=odd, confirmed=digest_of(odd),
        beside=beside, has_more_others=len(readable) > MAX_OTHERS,
    )  # fmt: skip


@pages.post("/tasks/{task}/enter", WORK)
def enter(request: Request, task: TaskId) -> Response:
    """Records what was measured, and shows the next task of the person. Whatever is refused stays in the form."""
    site = site_of(request)
    form = TypedForm(texts(request))
    page = read_task(site.ledger, task_of(request), site.shared(TaskReader), visitor(request).viewer)
    try:
        typed_texts = form.answer_texts(page.task.asks)
        _refuse_emptied(page, form, typed_texts)
        entry = record_answers.LabEntry(
            typed_texts,
            visitor(request).who,
            key=form.of("key")[:64] or uuid.uuid4().hex,
            why=form.of("why") or None,
            sample=form.of("sample") or None,
            files=keep_files(site.ledger, request.state.form),
            seen=_seen(form),
            confirmed=form.of("confirmed"),
        )
        done = record_answers.enter(_built(request, page.task.campaign), task, entry)
    except (UsageError, EvidenceConflictError) as error:
        conflict = isinstance(error, AnsweredMeanwhileError)
        odd = error.odd if isinstance(error, ImprobableValuesError) else ()
        status, text = said_of(error)
        if wants_json(request):
            detail = sentence(in_words(text))
            return JSONResponse({"detail": detail, "conflict": conflict, "confirmed": digest_of(odd)}, status)
        if isinstance(error, EvidenceConflictError):  # another answer has the key; this one gets a new key
            form = TypedForm({name: field for name, field in form.fields.items() if name != "key"})
        return _page(request, form, status, text, conflict=conflict, odd=odd)
    beyond = 1 if done.overdrawn else None
    review = 1 if done.in_review else None
    part = 1 if done.open_quantities else None
    next_page = redirect_to(_next(request, task), saved=task, review=review, part=part, beyond=beyond)
    if not wants_json(request):
        return next_page
    recorded = {"task": task, "in_review": done.in_review, "revision": done.revision, "overdrawn": done.overdrawn}
    recorded["open_quantities"] = list(done.open_quantities)
    return JSONResponse(recorded | {"next": next_page.headers["location"]})


def _refuse_emptied(page: TaskPage, form: TypedForm, typed_texts: Mapping[str, object]) -> None:
    """Raises UsageError for a quantity that is recorded, and whose fields a person has emptied."""
    if typed_texts.get("not_obtained") or _seen(form) != page.last_id:  # else somebody answered since
        return
    for name in page.labels:
        if name in page.recorded_quantities and name not in named_in(typed_texts):
            raise UsageError(
                f"{name}: it is recorded, and the field is empty now; type its value, or say why there is none"
            )


def _seen(form: TypedForm) -> int | None:
    """Returns the id of the last submission that the page showed; None if the form does not say."""
    return read_id(form.of("seen"))


def _next(request: Request, task: int) -> str:
    """Returns the path of the person's next task: one that they have claimed and not begun, else of the list. task: the
    last one."""
    site = site_of(request)
    who = visitor(request)
    with site.ledger.read() as connection:
        own = tasks.listed(connection, claimed_by=str(who.who), limit=20)
    for other in own:
        if other.id != task and other.in_review_id is None and not other.open_quantities:
            return f"/tasks/{other.id}"
    return "/tasks"


@pages.post("/tasks/{task}/claim", WORK)
def claim(request: Request, task: TaskId) -> Response:
    built = _built_of_task(request)
    claims_costs_and_vials.claim(built, task, visitor(request).who, take_over=texts(request).get("take_over") == "yes")
    return redirect_to(f"/tasks/{task}")


@pages.post("/tasks/{task}/release", WORK)
def release(request: Request, task: TaskId) -> Response:
    try:
        claims_costs_and_vials.release(_built_of_task(request), task, visitor(request).who, _reason(request))
    except UsageError as error:
        return _refused(request, error, "release", "why")
    return next_page(request, "/tasks")


def _refused(request: Request, error: UsageError, form: str, field_at_fault: str) -> Response:
    """Returns the page of a task with a form beside the measurement, as it was typed, and what is wrong with it."""
    status, beside = refused(request, error, form, field_at_fault)
    if wants_json(request):
        answer: Response = beside.as_answer(status)
    else:
        answer = _page(request, TypedForm({}), status, beside=beside)
    if isinstance(error, TryLaterError):
        answer.headers["retry-after"] = str(error.seconds)
    return answer


@pages.post("/tasks/{task}/approve", DECIDE)
def approve(request: Request, task: TaskId) -> Response:
    claims_costs_and_vials.approve(_built_of_task(request), task, visitor(request).who)
    return redirect_to(f"/tasks/{task}")


def _refuse_hidden(request: Request) -> None:
    """Raises HTTPException with 403 if the answers of the task are hidden from the person."""
    with site_of(request).ledger.read() as connection:
        is_hidden = hidden_task(connection, visitor(request), task_of(request))
    if is_hidden:
        raise HTTPException(403, "you may still measure this molecule blind, so that you see no answer of the others")


@pages.post("/tasks/{task}/review", WORK)
def review(request: Request, task: TaskId) -> Response:
    """Accepts the answer of another person, or sends it back with a reason. If another answer waits than the one that
    the page showed, both are shown, and nothing is recorded."""
    _refuse_hidden(request)
    built = _built_of_task(request)
    who = visitor(request).who
    form = TypedForm(texts(request))
    seen = _seen(form) or 0  # no submission has the id 0, so without an id nothing is recorded
    try:
        if form.of("decision") == "accept":
            review_and_sign_answers.accept(built, task, who, seen)
        else:
            review_and_sign_answers.send_back(built, task, who, _reason(request), seen)
    except AnswerChangedError as error:
        status, fault = said_of(error)
        if wants_json(request):
            return JSONResponse({"detail": sentence(in_words(fault)), "field": ""}, status)
        return _page(request, TypedForm({}), status, changed=in_words(fault), seen=seen)
    except UsageError as error:
        return _refused(request, error, "back", "why")
    return next_page(request, f"/tasks/{task}")


@pages.post("/tasks/{task}/sign", WORK)
async def sign(request: Request, task: TaskId) -> Response:
    """Signs the last answer, after the password was typed once more."""
    fields = texts(request)
    person = visitor(request).person
    assert person is not None  # the rule of the route saw to it
    await run_in_threadpool(_refuse_hidden, request)
    chosen = [meaning for meaning in review_and_sign_answers.MEANINGS if meaning == fields.get("meaning")]
    if not chosen:
        error = UsageError("say what the signature means; nothing was signed")
        return await run_in_threadpool(_refused, request, error, "sign", "meaning")
    password = fields.get("password", "")
    try:
        if await site_of(request).passwords.checked(person.login, password, address_of(request)) is None:
            raise UsageError("the password does not fit; nothing was signed")
    except UsageError as error:  # also too many wrong passwords
        return await run_in_threadpool(_refused, request, error, "sign", "password")
    return await run_in_threadpool(_signed, request, task, person.name, chosen[0])


def _signed(request: Request, task: int, name: str, meaning: review_and_sign_answers.Meaning) -> Response:
    """Writes a signature. name: as it is printed below it."""
    seen = _seen(TypedForm(texts(request))) or 0  # no submission has the id 0, so without an id nothing is signed
    try:
        review_and_sign_answers.sign(_built_of_task(request), task, visitor(request).who, name, meaning, seen)
    except UsageError as error:
        return _refused(request, error, "sign", "")
    return next_page(request, f"/tasks/{task}")


@pages.post("/tasks/{task}/sample", WORK)
def register(request: Request, task: TaskId) -> Response:
    """Registers a vial of the task's molecule; its label is printed next."""
    fields = texts(request)
    more: dict[str, object] = {name: fields.get(name, "").strip() or None for name in ("lot", "purity_how", "place")}
    form = fields.get("form", "")
    source = fields.get("source", "made")
    try:
        more["purity"] = _fraction(fields)
        made = claims_costs_and_vials.register(
            _built_of_task(request), task, visitor(request).who, form, source, **more
        )
    except UsageError as error:
        named = [name for name, words in VIAL_FIELDS.items() if words in error.text]
        return _refused(request, error, "sample", named[0] if named else "form")
    return next_page(request, "/labels", codes=made.code)


# {field of the form of a vial: words by which a message names it}, the longer words first
VIAL_FIELDS = {
    "purity_how": samples.TEXTS["purity_how"],
    "purity": "purity",
    "lot": samples.TEXTS["lot"],
    "place": samples.TEXTS["place"],
    "source": "source",
}


def _fraction(fields: Mapping[str, str]) -> float | None:
    """Returns the purity of a vial as a fraction; people type it in percent. None without a text.

    Raises UsageError for a purity that is no number, not between 0 and 100 %, or, without the sign %, at most 1 and
    above 0: it may be meant as a fraction."""
    typed_text = fields.get("purity", "").strip()
    has_sign = typed_text.endswith("%")
    text = typed_text.rstrip("%").strip()
    if not text:
        return None
    # a single comma is a decimal sign here, since nobody writes a purity with thousands
    plain = text.replace(",", ".") if text.count(",") == 1 and "." not in text else text
    percent = read_number("purity in percent", plain, what="number").value
    if not 0 <= percent <= 100:
        raise UsageError(f"the purity {percent:g} % is not between 0 and 100 %")
    if 0 < percent <= 1 and not has_sign:
        raise UsageError(
            f"the purity is in percent: if {percent:g} is a fraction, type {100 * percent:g}; if not, {percent:g} %"
        )
    return percent / 100


def _reason(request: Request) -> str:
    return directives.checked_reason(texts(request).get("why", ""))


def _built_of_task(request: Request) -> Built:
    """Returns the campaign of the task that the path names."""
    return _built(request, task_of(request).campaign)


def _built(request: Request, campaign: str) -> Built:
    return open_campaign_for_people(site_of(request).ledger, campaign)
