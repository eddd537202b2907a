"""The list of tasks in groups, with search, filters and sorting as parameters of its address, and the scanner's field.

Without a chosen group the page has the first tasks of every group; with one it has a page of that group alone. It works
without scripts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import HTTPException, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.engine import Connection
from starlette.requests import Request
from starlette.responses import Response

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import open_campaign_for_people
from sciagent.campaign.people.find_candidate import matching_ids
from sciagent.domain.answers.status_and_comparison import elsewhere_text
from sciagent.domain.lab_messages_and_codes import read_code
from sciagent.domain.people import Right
from sciagent.domain.safe_text_and_durations import read_id
from sciagent.domain.states_and_needs import JobState
from sciagent.errors import UsageError
from sciagent.lab import claims_costs_and_vials
from sciagent.lab.displayed_lab_tasks_claims_and_samples import LabTaskAnswer, TaskReader
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab import samples, tasks
from sciagent.store.lab.blind_measurements import blind_methods, not_for
from sciagent.store.lab.samples import Vial
from sciagent.store.lab.task_groups import ListedRung, Searched, TaskGroup, TaskOrder, TaskQuery
from sciagent.store.lab.tasks import LabTask
from sciagent.web.route_rules_and_request_guards import LARGEST, Pages, PathText, QueryText, RouteRule
from sciagent.web.site_context_and_ticker import redirect_to, said_of, site_of, visitor
from sciagent.web.visitors_and_passwords import Visitor

PAGE_TASKS = 25  # tasks of a group on a page
MAX_SKIPPED = 1_000_000  # tasks on the pages before
Count = Annotated[int, Field(ge=0, le=LARGEST)]
_TASK_NUMBER = re.compile(r"(?:task\s*|#\s*)?([0-9]{1,15})", re.IGNORECASE)
_CODE = re.compile(r"(?:\S*/s/)?([0-9A-Za-z]{11})/?")
HEADINGS: Mapping[TaskGroup, str] = {
    TaskGroup.SENT_BACK: "Sent back to you",
    TaskGroup.OWN: "Yours",
    TaskGroup.APPROVE: "For your approval",
    TaskGroup.REVIEW: "Waiting for your review",
    TaskGroup.FREE: "Next",
    TaskGroup.OWN_REVIEW: "Yours, waiting for another person's review",
    TaskGroup.LATER: "Not now: the slots of the week are used",
    TaskGroup.OTHERS: "With others, or waiting for a chemist",
    TaskGroup.NOT_YOURS: "Not for you: measured blind by another person",
}
MINE = (TaskGroup.SENT_BACK, TaskGroup.OWN, TaskGroup.OWN_REVIEW)
ORDERS: Mapping[TaskOrder, str] = {
    TaskOrder.WORTH: "the most valuable first",
    TaskOrder.NEWEST: "the newest first",
    TaskOrder.OLDEST: "the oldest first",
    TaskOrder.PRICE: "the cheapest first",
}
FILTERS = ("find", "campaign", "rung", "quantity", "group", "sort")
pages = Pages()


class ListAsked(BaseModel):
    """The tasks that a person wants to see, and their order."""

    model_config = ConfigDict(extra="ignore")

    find: Annotated[str, Field(max_length=2000)] = ""
    """Number of a task, code of a vial, or a molecule: name, notation, InChIKey or the beginning of its key."""
    campaign: Annotated[str, Field(max_length=200)] = ""
    """Name of a campaign; empty: all."""
    rung: Annotated[str, Field(max_length=64)] = ""
    """Label of a rung; empty: all."""
    quantity: Annotated[str, Field(max_length=100)] = ""
    """Property that is asked for; empty: all."""
    group: Literal["", "mine", *map(str, TaskGroup)] = ""  # type: ignore[valid-type]
    """A group, or `mine` for those of the person; empty: all groups."""
    sort: Literal[tuple(map(str, TaskOrder))] = str(TaskOrder.WORTH)  # type: ignore[valid-type]
    skip: Annotated[int, Field(ge=0, le=MAX_SKIPPED)] = 0
    """Tasks of the group on the pages before."""
    vial: Annotated[str, Field(max_length=40)] = ""
    """Code of a vial that was scanned just now, of whose tasks the person chooses one; empty without one."""
    registered: Count = 0
    """Number of the task for which that vial was registered; 0 if the person may not see it."""
    saved: Count = 0
    """Number of the task that was answered just now; 0 without one."""
    review: bool = False
    """Whether that answer waits for another person."""
    part: bool = False
    """Whether that answer left a quantity open."""
    beyond: bool = False
    """Whether that answer overdraws the budget."""
    approved: Count | None = None
    """Number of tasks that were approved just now; None: nobody approved."""
    left: Count = 0
    """Number of tasks that were to be approved, and were left as they are."""

    @property
    def filters(self) -> dict[str, str]:
        """Returns the filters that are set, and the order if it is not the usual one, by parameter."""
        stated = {name: str(getattr(self, name)).strip() for name in FILTERS}
        return {name: text for name, text in stated.items() if text and text != str(TaskOrder.WORTH)}

    def address(self, group: TaskGroup, skip: int) -> str:
        """Returns the address of a page of a group with the same filters."""
        return f"/tasks?{urlencode(self.filters | {'group': str(group), 'skip': str(skip)})}"


@dataclass(frozen=True)
class ShownGroup:
    """A page of a group."""

    group: TaskGroup
    heading: str
    tasks: Sequence[LabTaskAnswer]
    more: str
    """Address of the next page; empty on the last."""

    @property
    def shared_why(self) -> str:
        """Returns the reason that all tasks of the page have in common; empty if they differ."""
        reasons = {task.why for task in self.tasks}
        return reasons.pop() if len(reasons) == 1 else ""


@dataclass(frozen=True)
class Elsewhere:
    """The measurements of a campaign for which the tasks of another campaign go first."""

    campaign: str
    """Name of the other campaign; empty if the person may not see it."""
    text: str


@dataclass(frozen=True)
class TaskLists:
    """The groups of a page of the list, and what can be chosen."""

    groups: Sequence[ShownGroup]
    """Groups that have tasks."""
    campaigns: Sequence[str]
    rungs: Sequence[str]
    properties: Sequence[str]
    elsewhere: Sequence[Elsewhere]
    """Measurements of the campaign that is asked for, on the lists of other campaigns."""

    @property
    def codes(self) -> list[str]:
        """Returns the codes of the vials of the tasks that the person can measure, for a sheet of labels."""
        measurable = (TaskGroup.SENT_BACK, TaskGroup.OWN, TaskGroup.FREE)
        codes = []
        for group in self.groups:
            if group.group in measurable:
                codes += [task.code for task in group.tasks if task.code]
        return codes


def read_lists(ledger: Ledger, reader: TaskReader, who: Visitor, asked: ListAsked) -> TaskLists:
    """Returns the groups that are asked for. A group that pages has its page; the others have their first."""
    with ledger.read() as connection:
        listed_rungs = reader.rungs(connection, who.viewer)
        query = TaskQuery(
            who.viewer,
            _chosen(listed_rungs, asked),
            blind=blind_methods(connection),
            searched=_searched(connection, asked.find),
            order=TaskOrder(asked.sort),
        )
        pages_by_group = {}
        for group in _groups(asked):
            skip = asked.skip if group == asked.group else 0
            found = query.page(connection, group, skip, PAGE_TASKS + 1)
            if found:
                pages_by_group[group] = found
        on_page = [task for found in pages_by_group.values() for task in found[:PAGE_TASKS]]
        shown = {task.task: task for task in reader.shown(connection, on_page, who.viewer)}
        elsewhere = _elsewhere(connection, listed_rungs, asked.campaign)
    groups = [_shown_group(group, found, shown, asked) for group, found in pages_by_group.items()]
    return TaskLists(
        [group for group in groups if group.tasks],
        campaigns=sorted({rung.campaign for rung in listed_rungs}),
        rungs=sorted({rung.name for rung in listed_rungs}),
        properties=sorted({name for rung in listed_rungs for name in rung.properties}),
        elsewhere=elsewhere,
    )


def _elsewhere(connection: Connection, rungs: Sequence[ListedRung], campaign: str) -> list[Elsewhere]:
    """Returns the measurements of a campaign that are on the lists of other campaigns; none without a campaign. rungs:
    those that the person may see."""
    campaigns = {rung.campaign: rung.campaign_id for rung in rungs}
    if campaign not in campaigns:
        return []
    others = tasks.asked_elsewhere(connection, campaigns[campaign]).values()
    numbers = Counter(other.name if other.name in campaigns else "" for other in others)
    shown = []
    for name, n in numbers.items():
        shown.append(Elsewhere(name, elsewhere_text(name or "that you may not see", n)))
    return shown


def _shown_group(
    group: TaskGroup, found: Sequence[LabTask], shown: Mapping[int, LabTaskAnswer], asked: ListAsked
) -> ShownGroup:
    """Returns a page of a group. found: its tasks, and one more if there is a next page. shown: tasks by number."""
    answers = [shown[task.id] for task in found[:PAGE_TASKS]]
    if group is TaskGroup.REVIEW:  # nobody reviews an answer that a blind rung hides
        answers = [answer for answer in answers if not answer.is_hidden]
    skip = asked.skip if group == asked.group else 0
    more = asked.address(group, skip + PAGE_TASKS) if len(found) > PAGE_TASKS else ""
    return ShownGroup(group, HEADINGS[group], answers, more)


def _groups(asked: ListAsked) -> Sequence[TaskGroup]:
    if asked.group == "mine":
        return MINE
    return [TaskGroup(asked.group)] if asked.group else list(TaskGroup)


def _chosen(rungs: Sequence[ListedRung], asked: ListAsked) -> list[ListedRung]:
    """Returns the rungs that the filters leave."""
    chosen = []
    for rung in rungs:
        is_of_campaign = asked.campaign in ("", rung.campaign)
        asks_for = not asked.quantity or asked.quantity in rung.properties
        if is_of_campaign and asks_for and asked.rung in ("", rung.name):
            chosen.append(rung)
    return chosen


def _searched(connection: Connection, find: str) -> Searched | None:
    """Returns what a text names; None for an empty one."""
    text = find.strip()
    if not text:
        return None
    number = _TASK_NUMBER.fullmatch(text)
    candidate_ids = matching_ids(connection, text)
    code = _CODE.fullmatch(text)
    sample = None if code is None else samples.find(connection, code[1].upper())
    if sample is not None:
        candidate_ids.add(sample.candidate_id)
    return Searched(None if number is None else int(number[1]), candidate_ids)


@pages.get("/tasks", RouteRule(Right.READ))
def task_list(request: Request, asked: Annotated[ListAsked, Query()]) -> Response:
    """Shows the list, with a line on what the person has just done."""
    return _list(request, asked)


def _list(request: Request, asked: ListAsked, status: int = 200, fault: str | None = None) -> Response:
    """Shows the tasks in groups; see `TaskLists`."""
    site = site_of(request)
    lists = read_lists(site.ledger, site.shared(TaskReader), visitor(request), asked)
    choices = {"headings": HEADINGS, "orders": ORDERS, "groups": TaskGroup}
    return site.page(request, "tasks.html.j2", status, lists=lists, asked=asked, fault=fault, **choices)


@pages.get("/scan", RouteRule(Right.READ))
def scan(request: Request, code: QueryText = "") -> Response:
    """Opens the task of a vial, from a scanner that types, or by hand. The code may be the address on the label. After
    a fault the list has the cursor in its field, so that a scanner can type again."""
    try:
        _, _, last_part = code.strip().rstrip("/").rpartition("/")
        return _open_vial(request, last_part)
    except UsageError as error:
        status, fault = said_of(error)
        return _list(request, ListAsked.model_validate({}), status=status, fault=fault)


@pages.get("/s/{code}", RouteRule(Right.READ))
def vial(request: Request, code: PathText) -> Response:
    """Opens the task of a vial, from the QR code of its label."""
    return _open_vial(request, code)


def _open_vial(request: Request, code: str) -> Response:
    """Shows the task for which the vial was registered, if it is open and the person may do it. Otherwise shows the
    only open task of the candidate that the person may do, a list to choose from if there are several, and the first
    task that the person may see if there is none."""
    site = site_of(request)
    who = visitor(request)
    with site.ledger.read() as connection:
        sample = samples.find(connection, read_code(code))
        of_vial = [] if sample is None else tasks.of_vial(connection, sample)
        of_others = tasks.selected(connection, [task.id for task in of_vial], not_for(connection, who.viewer))
    visible = [task for task in of_vial if who.rights.may(Right.READ, task.campaign_id)]
    if sample is None or not visible:
        raise UsageError(f"no vial has the code {code[:20]}, or you may not see it")
    choice = _tasks_to_do(visible, sample, who, of_others)
    if len(choice) > 1:
        registered = next((task.id for task in visible if task.id == sample.job_id), None)
        return redirect_to("/tasks", find=sample.code, vial=sample.code, registered=registered)
    shown = next(iter([*choice, *visible]))
    return redirect_to(f"/tasks/{shown.id}", vial=sample.code)


def _tasks_to_do(visible: Sequence[LabTask], vial: Vial, who: Visitor, of_others: Collection[int]) -> list[LabTask]:
    """Returns the open tasks that a scanned vial may be for: the one for which it was registered alone, if the person
    may do it; otherwise all that the person may do. If none of these is of its rung, that one is among them while
    another person has it, so that a task of another method does not open silently in its place.

    visible: tasks of the vial's candidate that the person may see. of_others: numbers of the tasks that another person
    has to measure."""
    to_do = []
    taken = []
    for task in visible:
        if not who.rights.may(Right.WORK, task.campaign_id):
            continue
        is_registered_for = task.id == vial.job_id
        is_claimed = task.state is JobState.RUNNING
        is_mine = is_claimed and task.claimed_by == who.who
        is_free = task.state is JobState.QUEUED and task.id not in of_others
        if is_registered_for and (is_mine or is_free):
            return [task]
        if is_mine or is_free:
            to_do.append(task)
        elif is_registered_for and is_claimed:
            taken.append(task)
    rungs_to_do = {task.rung_id for task in to_do}
    return [*(task for task in taken if task.rung_id not in rungs_to_do), *to_do]


@pages.post("/approve", RouteRule(Right.DECIDE))
def approve_several(request: Request) -> Response:
    """Approves the tasks that were ticked on the list."""
    site = site_of(request)
    who = visitor(request)
    form = request.state.form
    ticked = [read_id(str(text)) for text in form.getlist("task")]
    numbers = {number for number in ticked if number is not None}
    if not numbers:
        raise UsageError("no task was ticked; nothing was approved")
    with site.ledger.read() as connection:
        found = [(number, tasks.find(connection, number)) for number in sorted(numbers)]
    several = []
    opened = dict[str, Built]()
    for number, task in found:
        if task is None or not who.rights.may(Right.DECIDE, task.campaign_id):
            raise HTTPException(403, f"task {number} is none that you may approve; nothing was approved")
        if task.campaign not in opened:
            opened[task.campaign] = open_campaign_for_people(site.ledger, task.campaign)
        several.append((opened[task.campaign], number))
    approved = claims_costs_and_vials.approve_all(several, who.who)
    return redirect_to("/tasks", approved=approved, left=len(several) - approved)
