"""Tasks: the jobs that people do. A task has columns in the table `lab_task` that other jobs lack, and a person's claim
of it does not run out.

Tasks are entered, counted, listed in pages, found one by one, and changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.answers.status_and_comparison import LabCounts
from sciagent.domain.evidence_keys_and_pooled_replicates import Computation
from sciagent.domain.lab_messages_and_codes import QUEUE
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.domain.states_and_needs import AttemptState, CampaignState, JobState
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among, insert_or_ignore
from sciagent.store.database.engine import db_now
from sciagent.store.job_queue import jobs
from sciagent.store.job_queue.leases import Claim
from sciagent.store.lab.samples import Vial
from sciagent.store.results.laws_and_audits import AUDIT

PAGE_SIZE = 100  # tasks on a page of the list
RESTING_STATES = (CampaignState.PAUSED, CampaignState.INTERRUPTED, CampaignState.FAILED, CampaignState.CREATED)
"""Nobody claims tasks of campaigns in one of these states."""
ELSEWHERE = "elsewhere"  # in place of the state of a task for which another campaign's task goes first


@dataclass(frozen=True)
class LabTask:
    """A job that people do."""

    id: int
    """Id of the job."""
    campaign_id: int
    campaign: str
    """Name of the campaign."""
    spec_hash: str
    """Hash of the campaign's file; an amendment changes it."""
    rung_id: int
    rung: str
    candidate_id: int
    replicate: int
    """Number of the measurement among the measurements of its candidate, from 0."""
    key: str
    """Key of the candidate."""
    evidence_key: str
    """Hash of the key of the evidence that the task asks for."""
    kind: str
    """Subject of the candidate."""
    text: str
    state: JobState
    cancel_requested: bool
    """Whether the task is not wanted any more although a person has claimed it."""
    priority: float
    claimed_by: str | None
    claimed_at: datetime | None
    due_at: datetime | None
    approved_by: str | None
    version: int
    """Number of changes of the task's row in `lab_task`."""
    in_review_id: int | None
    """Id of the answer that waits for a second person."""
    open_quantities: tuple[str, ...]
    """Names of the quantities that the recorded answer leaves open; empty without one, or if it is complete."""
    sent_back: str | None
    """The reason for which the last answer was sent back; None if it was not."""
    sent_back_by: str | None
    sent_back_to: str | None
    """The person who had entered it."""
    code: str | None
    """Code of the task's sample."""
    created_at: datetime
    computation: Computation
    """The computation that the task stands for, on any candidate."""


def enter(connection: Connection, job_ids: Sequence[int], due_days: Mapping[int, float | None]) -> None:
    """Write the rows of new tasks. A task that was withdrawn before gets a new due date.

    due_days: {job id: days until the task is due}; None: the task has no due date.
    """
    now = db_now(connection)
    rows = []
    for job_id in job_ids:
        days = due_days[job_id]
        rows.append({"job_id": job_id, "version": 0, "due_at": None if days is None else now + timedelta(days=days)})
    insert_or_ignore(connection, t.lab_task, rows)
    # a task that was withdrawn before kept its row, so the insert ignored it
    is_task = t.lab_task.c.job_id == sa.bindparam("task_id")
    update = sa.update(t.lab_task).where(is_task).values(due_at=sa.bindparam("due"))
    if rows:
        connection.execute(update, [{"task_id": row["job_id"], "due": row["due_at"]} for row in rows])


def open_by_rung(connection: Connection, campaign_id: int) -> dict[int, tuple[int, int]]:
    """{rung id: (number of tasks that nobody has claimed, number of claimed ones)} of the campaign."""
    j = t.job.c
    count_unclaimed = sa.func.sum(sa.case((j.state == JobState.QUEUED, 1), else_=0))
    query = sa.select(j.rung_id, count_unclaimed, sa.func.count()).where(
        j.campaign_id == campaign_id, j.state.in_(jobs.UNFINISHED), j.queue == QUEUE
    )
    rows = connection.execute(query.group_by(j.rung_id)).all()
    return {rung_id: (int(n_unclaimed), int(n) - int(n_unclaimed)) for rung_id, n_unclaimed, n in rows}


def open_candidates(connection: Connection, rung_id: int) -> list[int]:
    """Ids of the candidates with a task of the rung that is open, whether somebody has claimed it or not."""
    j = t.job.c
    query = sa.select(j.candidate_id).where(j.rung_id == rung_id, j.state.in_(jobs.UNFINISHED), j.queue == QUEUE)
    return list(connection.execute(query.distinct().order_by(j.candidate_id)).scalars())


def counts(
    connection: Connection, campaign_id: int, rung_ids: Sequence[int], need_approval: Collection[str]
) -> LabCounts | None:
    """The number of a campaign's tasks in each state; None if people do no rung.

    rung_ids: the rungs that people do. need_approval: labels of rungs whose tasks wait until a chemist approves them.
    """
    if not rung_ids:
        return None
    j = t.job.c
    task = t.lab_task.c
    other_campaigns = asked_elsewhere(connection, campaign_id)
    waits_for_approval = sa.and_(t.rung.c.name.in_(sorted(need_approval)), task.approved_by.is_(None))
    is_waiting = sa.and_(j.state == JobState.QUEUED, waits_for_approval)
    is_in_review = sa.and_(j.state == JobState.RUNNING, task.in_review_id.is_not(None))
    is_elsewhere = among(connection, j.id, sorted(other_campaigns))
    state = sa.case(
        (is_elsewhere, ELSEWHERE), (is_waiting, "waiting"), (is_in_review, "in_review"), else_=j.state
    ).label("task_state")
    overdue = sa.case((sa.and_(j.state.in_(jobs.UNFINISHED), task.due_at < db_now(connection)), 1), else_=0)
    query = (
        sa.select(state, sa.func.count(), sa.func.sum(overdue))
        .select_from(t.job.join(t.rung, t.rung.c.id == j.rung_id).join(t.lab_task, task.job_id == j.id))
        .where(j.campaign_id == campaign_id, j.rung_id.in_(rung_ids))
        .group_by(state)
    )
    rows = connection.execute(query).all()
    by_state = {task_state: int(n) for task_state, n, _ in rows}
    return LabCounts(
        waiting=by_state.get("waiting", 0),
        queued=by_state.get(JobState.QUEUED, 0),
        claimed=by_state.get(JobState.RUNNING, 0),
        elsewhere=Counter(other.name for other in other_campaigns.values()),
        in_review=by_state.get("in_review", 0),
        answered=by_state.get(JobState.DONE, 0),
        overdue=sum(int(n_overdue) for _, _, n_overdue in rows),
    )


def unclaimed(connection: Connection, campaign_id: int) -> dict[int, int]:
    """{job id: candidate id} of the campaign's tasks that nobody has claimed."""
    j = t.job.c
    query = sa.select(j.id, j.candidate_id).where(j.campaign_id == campaign_id, j.state == JobState.QUEUED)
    return {id_: candidate_id for id_, candidate_id in connection.execute(query.where(j.queue == QUEUE))}


class UntouchedTask(NamedTuple):
    """A task on which no person has acted."""

    id: int
    rung_id: int
    candidate_id: int


def untouched_tasks(connection: Connection, campaign_id: int) -> list[UntouchedTask]:
    """The campaign's tasks on which no person has acted.

    Nobody has claimed, answered, promoted or approved such a task or given it a vial, and no other measurement of its
    candidate was begun, nor made by another campaign. Tasks that the scheduler's audit has drawn at random are left
    out, too.
    """
    j = t.job.c
    task = t.lab_task.c
    d = t.decision.c
    o = t.job.alias("other").c
    is_made = sa.exists().where(t.evidence.c.key == o.evidence_key)
    is_begun = sa.or_(o.state.in_((JobState.RUNNING, JobState.DONE)), is_made)
    begun_measurements = sa.select(o.id).where(o.rung_id == j.rung_id, o.candidate_id == j.candidate_id, is_begun)
    audit_draws = sa.select(d.id).where(d.rung_id == j.rung_id, d.candidate_id == j.candidate_id, d.chooser == AUDIT)
    query = (
        sa.select(j.id, j.rung_id, j.candidate_id)
        .join(t.lab_task, task.job_id == j.id)
        .where(j.campaign_id == campaign_id, j.queue == QUEUE, j.state == JobState.QUEUED)
        .where(j.priority < jobs.PREFERRED, task.approved_by.is_(None), task.sample_id.is_(None))
        .where(task.open_quantities.is_(None))
        .where(~sa.exists(begun_measurements), ~sa.exists(audit_draws))
        .order_by(j.id)
    )
    return [UntouchedTask(*row) for row in connection.execute(query)]


def listed(
    connection: Connection,
    *,
    campaign_id: int | None = None,
    among: Collection[int] | None = None,
    claimed_by: str | None = None,
    in_review: bool = False,
    states: Collection[JobState] = jobs.UNFINISHED,
    candidate_id: int | None = None,
    after: int | None = None,
    sent_back_to: str | None = None,
    unless: sa.ColumnElement[bool] | None = None,
    skip: int = 0,
    limit: int = PAGE_SIZE,
) -> list[LabTask]:
    """A page of open tasks: claimed ones of any campaign, and unclaimed ones of campaigns that do not rest.

    A campaign that has ended has no unclaimed tasks: while tasks are open it waits for people, and when its goal is
    reached the unclaimed ones are cancelled.

    Tasks that a person promoted come first, then the most urgent task of each campaign in turn, since campaigns
    measure urgency in different units. campaign_id: only tasks of this campaign. among: ids of the campaigns that
    may be shown; None: all. claimed_by: only tasks that this person has claimed. in_review: lists no open tasks,
    but tasks whose answer or correction waits for a second person. sent_back_to: lists no open tasks, but tasks
    that are done whose correction was sent back to this person. states: states of the jobs of the tasks that are
    listed. candidate_id: only tasks of this candidate. after: lists the tasks in the order of their numbers, from
    the first above this one on; None: as above. unless: a condition for tasks that are left out, as from
    `blind_measurements.not_for`. skip: number of tasks on the pages before. limit: tasks on a page.
    """
    j = t.job.c
    if in_review:
        query = TASKS.where(t.lab_task.c.in_review_id.is_not(None))
    elif sent_back_to is not None:
        is_sent_back = t.lab_task.c.sent_back_id.is_not(None)
        query = TASKS.where(is_sent_back, RETURNED.c.who == sent_back_to, j.state == JobState.DONE)
    else:
        query = TASKS.where(j.queue == QUEUE, j.state.in_(states))
        query = query.where(sa.or_(j.state != JobState.QUEUED, MAY_BE_CLAIMED))
    if unless is not None:
        query = query.where(~unless)
    if among is not None:
        query = query.where(j.campaign_id.in_(list(among)))
    if campaign_id is not None:
        query = query.where(j.campaign_id == campaign_id)
    if claimed_by is not None:
        query = query.where(j.lease_owner == claimed_by)
    if candidate_id is not None:
        query = query.where(j.candidate_id == candidate_id)
    if after is not None:
        # the table `lab_task` has the tasks of people alone, in the order of its key
        query = query.where(t.lab_task.c.job_id > after).order_by(t.lab_task.c.job_id).limit(limit)
        return [task_of_row(row) for row in connection.execute(query).all()]
    query = query.order_by(*worth_order()).offset(skip).limit(limit)
    return [task_of_row(row) for row in connection.execute(query).all()]


def worth_order() -> list[sa.ColumnElement[Any]]:
    """The order of tasks by their worth: promoted ones first, then the most urgent one of each campaign in turn."""
    j = t.job.c
    rank_in_campaign = sa.func.row_number().over(partition_by=j.campaign_id, order_by=(j.priority.desc(), j.id))
    promoted_first = sa.case((j.priority >= jobs.PREFERRED, 0), else_=1)
    return [promoted_first, rank_in_campaign, j.campaign_id]


_OTHER = t.job.alias("other")
_OF_OTHER = t.campaign.alias("of_other")


def _goes_first() -> sa.ColumnElement[bool]:
    """Whether the task in `_OTHER` asks for the same evidence as the one in `job`, and goes first: it is claimed or
    older."""
    j = t.job.c
    o = _OTHER.c
    goes_first = sa.or_(o.state == JobState.RUNNING, sa.and_(o.id < j.id, _OF_OTHER.c.state.not_in(RESTING_STATES)))
    is_open = sa.and_(o.queue == QUEUE, o.state.in_(jobs.UNFINISHED))
    return sa.and_(is_open, o.evidence_key == j.evidence_key, o.id != j.id, goes_first)


def _asked_elsewhere() -> sa.ColumnElement[bool]:
    """Whether another campaign has a task for the same evidence that goes first."""
    j = t.job.c
    query = sa.select(sa.literal(1)).select_from(_OTHER.join(_OF_OTHER, _OF_OTHER.c.id == _OTHER.c.campaign_id))
    # few tasks ask for the same as another one, and only for these each open task is compared
    each = t.job.alias("each").c
    open_tasks = sa.select(each.evidence_key).where(each.queue == QUEUE, each.state.in_(jobs.UNFINISHED))
    asked_twice = open_tasks.group_by(each.evidence_key).having(sa.func.count() > 1)
    has_earlier = sa.exists(query.where(_goes_first()).correlate(t.job))
    return sa.and_(j.evidence_key.in_(asked_twice), has_earlier)


MAY_BE_CLAIMED = sa.and_(t.campaign.c.state.not_in(RESTING_STATES), ~_asked_elsewhere())
"""Selects the tasks of campaigns that do not rest, unless another campaign's task for the same goes first."""


class CampaignName(NamedTuple):
    """A campaign."""

    id: int
    name: str


def asked_elsewhere(connection: Connection, campaign_id: int) -> dict[int, CampaignName]:
    """{id of a task: the other campaign whose task for the same evidence goes first} of the campaign's tasks that
    nobody has claimed. Such a task is not on the list; the answer to the other one counts here, too."""
    j = t.job.c
    o = _OTHER.c
    query = (
        sa.select(j.id, _OF_OTHER.c.id, _OF_OTHER.c.name)
        .select_from(t.job.join(_OTHER, o.evidence_key == j.evidence_key))
        .join(_OF_OTHER, _OF_OTHER.c.id == o.campaign_id)
        .where(j.campaign_id == campaign_id, j.queue == QUEUE, j.state == JobState.QUEUED)
        .where(_goes_first(), o.campaign_id != campaign_id)
    )
    first: dict[int, CampaignName] = {}
    claimed_first = sa.case((o.state == JobState.RUNNING, 0), else_=1)
    for task_id, other_id, name in connection.execute(query.order_by(j.id, claimed_first, o.id)):
        first.setdefault(task_id, CampaignName(other_id, name))
    return first


class RungWithTasks(NamedTuple):
    """A rung of people, such as one with tasks on which they act: open ones, and ones whose correction is reviewed."""

    id: int
    campaign_id: int
    campaign: str
    """Name of the campaign."""
    spec_hash: str
    """Hash of the campaign's file."""
    name: str
    position: int
    computation: Computation
    is_blind: bool


def rungs_with_tasks(connection: Connection) -> list[RungWithTasks]:
    """The rungs of all campaigns on whose tasks people act, in the order of their ids."""
    r = t.rung.c
    j = t.job.c
    task = t.lab_task.c
    has_open_tasks = sa.exists().where(j.rung_id == r.id, j.state.in_(jobs.UNFINISHED))
    of_task = sa.select(j.rung_id).join(t.lab_task, task.job_id == j.id)
    acted_on = [of_task.where(task.in_review_id.is_not(None)), of_task.where(task.sent_back_id.is_not(None))]
    return _world_rungs(connection, sa.or_(has_open_tasks, *(r.id.in_(ids) for ids in acted_on)))


def world_rungs(connection: Connection, computations: Collection[Computation]) -> list[RungWithTasks]:
    """The rungs of all campaigns that ask people for one of these measurements, with or without tasks."""
    r = t.rung.c
    asks = [
        sa.and_(r.verifier == name, r.verifier_version == version, r.settings_hash == settings_hash)
        for name, version, settings_hash in computations
    ]
    return _world_rungs(connection, sa.or_(sa.false(), *asks))


def _world_rungs(connection: Connection, condition: sa.ColumnElement[bool]) -> list[RungWithTasks]:
    """The rungs of people that fulfil a condition on the table `rung`, in the order of their ids."""
    r = t.rung.c
    c = t.campaign.c
    query = (
        sa.select(r.id, r.campaign_id, c.name.label("campaign"), c.spec_hash, r.name, r.position, c.spec)
        .add_columns(r.verifier, r.verifier_version, r.settings_hash)
        .join(t.campaign, c.id == r.campaign_id)
        .where(r.tier == Tier.WORLD, condition)
        .order_by(r.id)
    )
    rungs = []
    for row in connection.execute(query):
        stated = row.spec["ladder"][row.position].get("lab") or {}
        computation = Computation(row.verifier, row.verifier_version, row.settings_hash)
        about = (row.id, row.campaign_id, row.campaign, row.spec_hash, row.name, row.position)
        rungs.append(RungWithTasks(*about, computation, is_blind=bool(stated.get("blind"))))
    return rungs


def asking_for(connection: Connection, evidence_key: str) -> list[LabTask]:
    """Open tasks, of any campaign, that ask for evidence with this key, oldest first."""
    j = t.job.c
    query = TASKS.where(j.queue == QUEUE, j.state.in_(jobs.UNFINISHED), j.evidence_key == evidence_key)
    return [task_of_row(row) for row in connection.execute(query.order_by(j.id))]


def of_candidate(connection: Connection, candidate_id: int, limit: int = 20) -> list[LabTask]:
    """The tasks of a candidate in all campaigns, open ones first, then the newest."""
    j = t.job.c
    open_first = sa.case((j.state.in_(jobs.UNFINISHED), 0), else_=1)
    query = TASKS.where(j.candidate_id == candidate_id, j.queue == QUEUE)
    return [task_of_row(row) for row in connection.execute(query.order_by(open_first, j.id.desc()).limit(limit))]


def of_vial(connection: Connection, vial: Vial) -> list[LabTask]:
    """The tasks of a vial's candidate: first the one for which the vial was registered, then as in `of_candidate`."""
    registered_for = find(connection, vial.job_id)
    others = [task for task in of_candidate(connection, vial.candidate_id) if task.id != vial.job_id]
    return others if registered_for is None else [registered_for, *others]


def find(connection: Connection, task_id: int) -> LabTask | None:
    """The task in any state; None if there is no such task."""
    row = connection.execute(TASKS.where(t.job.c.id == task_id, t.job.c.queue == QUEUE)).first()
    return None if row is None else task_of_row(row)


def selected(connection: Connection, task_ids: Sequence[int], condition: sa.ColumnElement[bool]) -> set[int]:
    """The ids of those of the tasks that fulfil a condition on the table `job`."""
    query = sa.select(t.job.c.id).where(t.job.c.id.in_(list(task_ids)), condition)
    return set(connection.execute(query).scalars())


def claim_of_task(connection: Connection, task_id: int) -> Claim | None:
    """The claim of a task that somebody has claimed; None if nobody has."""
    j = t.job.c
    a = t.attempt.c
    query = (
        sa.select(a.id, j.fence)
        .select_from(t.job.join(t.attempt, sa.and_(a.job_id == j.id, a.fence == j.fence)))
        .where(j.id == task_id, j.state == JobState.RUNNING, a.state == AttemptState.RUNNING)
    )
    row = connection.execute(query).first()
    return None if row is None else Claim(task_id, row.id, row.fence)


def write_change(connection: Connection, task_id: int, **values: object) -> None:
    """Write columns of a task's row in `lab_task`, and raise its version."""
    task = t.lab_task.c
    update = sa.update(t.lab_task).where(task.job_id == task_id)
    connection.execute(update.values(**values, version=task.version + 1))


_A = t.attempt.c
_S = t.sample.c
_SENDING_BACK = t.submission.alias("sending_back")
RETURNED = t.submission.alias("returned")
"""The answer that was sent back."""
# an attempt of an earlier claim has a lower fence
_IS_ATTEMPT_OF_CLAIM = sa.and_(_A.job_id == t.job.c.id, _A.fence == t.job.c.fence, _A.state == AttemptState.RUNNING)
TASKS = (
    sa.select(
        t.job.c.id,
        t.job.c.campaign_id,
        t.campaign.c.name.label("campaign"),
        t.campaign.c.spec_hash,
        t.job.c.rung_id,
        t.rung.c.name.label("rung"),
        t.job.c.candidate_id,
        t.job.c.replicate,
        t.candidate.c.key,
        t.job.c.evidence_key,
        t.candidate.c.kind,
        t.candidate.c.text,
        t.job.c.state,
        t.job.c.cancel_requested,
        t.job.c.priority,
        t.job.c.lease_owner.label("claimed_by"),
        _A.started_at.label("claimed_at"),
        t.lab_task.c.due_at,
        t.lab_task.c.approved_by,
        t.lab_task.c.version,
        t.lab_task.c.in_review_id,
        t.lab_task.c.open_quantities,
        _SENDING_BACK.c.why.label("sent_back"),
        _SENDING_BACK.c.who.label("sent_back_by"),
        RETURNED.c.who.label("sent_back_to"),
        _S.code,
        t.job.c.created_at,
        t.rung.c.verifier,
        t.rung.c.verifier_version,
        t.rung.c.settings_hash,
    )
    .select_from(jobs.JOBS_WITH_NAMES.join(t.lab_task, t.lab_task.c.job_id == t.job.c.id))
    .outerjoin(t.attempt, _IS_ATTEMPT_OF_CLAIM)
    .outerjoin(t.sample, _S.id == t.lab_task.c.sample_id)
    .outerjoin(_SENDING_BACK, _SENDING_BACK.c.id == t.lab_task.c.sent_back_id)
    .outerjoin(RETURNED, RETURNED.c.id == _SENDING_BACK.c.of_id)
)


def task_of_row(row: Any) -> LabTask:
    """The task of a row of `TASKS`."""
    columns = dict(row._mapping)
    computation = Computation(*(columns.pop(name) for name in ("verifier", "verifier_version", "settings_hash")))
    open_quantities = tuple((row.open_quantities or "").split())
    columns |= {"state": JobState(row.state), "open_quantities": open_quantities, "computation": computation}
    return LabTask(**columns)
