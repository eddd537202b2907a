"""Blind measurements: which answers a person does not see, and which tasks are another person's.

A rung with `blind: true` gives each measurement of a candidate to another person. Until all of them are made, a person
who may still make one sees nothing of the others: neither values, grades and comments, nor who made them. So does a
person who has made one, until the last of them is recorded, since an answer can be corrected. A chemist of the campaign
who has no part in the measurements sees them, and therefore can take none of them after the first answer.

The rule holds for the values, not for the task alone: a campaign that reuses them shows no more of them, and the tasks
of a campaign that asks for the same on the same candidate are as blind, whether its own rung says so or not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence_keys_and_pooled_replicates import Computation
from sciagent.domain.people import Right, Rights
from sciagent.domain.states_and_needs import JobState
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among
from sciagent.store.job_queue import jobs
from sciagent.store.lab.submissions import REVIEWED, SENT_BACK
from sciagent.store.lab.tasks import LabTask, rungs_with_tasks, world_rungs


@dataclass(frozen=True)
class Viewer:
    """A person for whom tasks or answers are shown."""

    login: str
    rights: Rights

    def may(self, right: Right, campaign_id: int) -> bool:
        """Returns whether the account has a right in a campaign, whatever the scopes of its token leave out."""
        return Rights(self.rights.is_admin, self.rights.roles).may(right, campaign_id)


@dataclass(frozen=True)
class UnseenAnswers:
    """The answers that a person does not see."""

    by_candidate: Mapping[int, frozenset[Computation]] = field(default_factory=dict)
    """{candidate id: computations whose values on it are hidden}."""
    own_tasks: frozenset[int] = frozenset()
    """Ids of the tasks that the person has claimed or answered; their answers are seen."""
    login: str = ""
    """The person."""
    blind_places: frozenset[tuple[Computation, int]] = frozenset()
    """(computation, candidate id) of the measurements that are blind."""

    def of(self, candidate_id: int) -> frozenset[Computation]:
        """Returns the computations whose values on a candidate are hidden."""
        return self.by_candidate.get(candidate_id, frozenset())

    def hides(self, task: LabTask) -> bool:
        """Returns whether the answers of a task, and the person who has it, are hidden."""
        return task.computation in self.of(task.candidate_id) and task.id not in self.own_tasks

    def is_blind(self, task: LabTask) -> bool:
        """Returns whether a task is blind, by its own rung or by another that asks for the same."""
        return (task.computation, task.candidate_id) in self.blind_places


ALL_SEEN = UnseenAnswers()
"""Nothing is hidden, as at the command line, where whoever types has the whole ledger."""


@dataclass(frozen=True)
class BlindMethod:
    """A measurement that a blind rung asks for, with all rungs that ask for the same. Their tasks on a candidate are
    replicates of each other, whichever campaign lists them."""

    computation: Computation
    rungs: Mapping[int, int]
    """{rung id: campaign id}."""
    blind: frozenset[int]
    """Ids of the rungs that are blind."""

    @property
    def campaigns(self) -> list[int]:
        """Returns the ids of the campaigns of the rungs, sorted."""
        return sorted(set(self.rungs.values()))


def blind_methods(connection: Connection) -> list[BlindMethod]:
    """The measurements of the blind rungs on whose tasks people act."""
    computations = {rung.computation for rung in rungs_with_tasks(connection) if rung.is_blind}
    return _methods(connection, computations)


def _methods(connection: Connection, computations: Collection[Computation]) -> list[BlindMethod]:
    """The measurements among these that any rung asks for blindly."""
    if not computations:
        return []
    rungs: dict[Computation, dict[int, int]] = {}
    blind = set()
    for rung in world_rungs(connection, computations):
        rungs.setdefault(rung.computation, {})[rung.id] = rung.campaign_id
        if rung.is_blind:
            blind.add(rung.id)
    methods = [BlindMethod(each, of_method, frozenset(blind & of_method.keys())) for each, of_method in rungs.items()]
    return [method for method in methods if method.blind]


def method_of(connection: Connection, task: LabTask) -> BlindMethod | None:
    """The measurement of a task that is blind by its own rung, or since a blind rung asks for the same on the same
    candidate; None for a task that is not blind."""
    for method in _methods(connection, [task.computation]):
        if task.rung_id in method.blind:
            return method
        j = t.job.c
        asked = sa.select(j.id).where(j.campaign_id.in_(method.campaigns), j.rung_id.in_(sorted(method.blind)))
        if connection.execute(asked.where(j.candidate_id == task.candidate_id).limit(1)).first() is not None:
            return method
    return None


def unseen_answers(connection: Connection, viewer: Viewer | None, candidate_ids: Collection[int]) -> UnseenAnswers:
    """The answers on these candidates that a person does not see. viewer: None for the command line, which shows
    all."""
    methods = blind_methods(connection) if candidate_ids else []
    if not methods:
        return ALL_SEEN
    tasks_by_place = _tasks_by_place(connection, methods, candidate_ids)
    places = frozenset((method.computation, candidate_id) for method, candidate_id, _ in tasks_by_place)
    if viewer is None:
        return UnseenAnswers(blind_places=places)
    own_tasks = _own_tasks(connection, viewer.login, [of_place for _, _, of_place in tasks_by_place])
    hidden: dict[int, set[Computation]] = {}
    for method, candidate_id, of_place in tasks_by_place:
        if _is_hidden(viewer, method, of_place, has_part=any(task.id in own_tasks for task in of_place)):
            hidden.setdefault(candidate_id, set()).add(method.computation)
    by_candidate = {candidate_id: frozenset(computations) for candidate_id, computations in hidden.items()}
    return UnseenAnswers(by_candidate, frozenset(own_tasks), viewer.login, places)


def open_computations(connection: Connection, candidate_id: int) -> frozenset[Computation]:
    """The blind computations of which a measurement on the candidate is still to be made, whoever asks."""
    still_open = set()
    for method, _, of_place in _tasks_by_place(connection, blind_methods(connection), [candidate_id]):
        if any(task.state in jobs.UNFINISHED for task in of_place):
            still_open.add(method.computation)
    return frozenset(still_open)


def unseen_in(connection: Connection, viewer: Viewer, campaign_id: int) -> UnseenAnswers:
    """The answers on the candidates of a campaign that a person does not see. Whoever does not see all sees no figure
    that is made of values, such as the best utility, and counts in which these candidates still wait."""
    rungs: dict[int, int] = {}
    for method in blind_methods(connection):
        rungs |= method.rungs
    if not rungs:
        return ALL_SEEN
    j = t.job.c
    cc = t.campaign_candidate.c
    is_member = sa.exists().where(cc.campaign_id == campaign_id, cc.candidate_id == j.candidate_id)
    query = (
        sa.select(j.candidate_id)
        .distinct()
        .where(j.campaign_id.in_(sorted(set(rungs.values()))), j.state.in_(jobs.UNFINISHED))
        .where(j.rung_id.in_(sorted(rungs)), is_member)
    )
    return unseen_answers(connection, viewer, connection.execute(query).scalars().all())


class _BlindTask(NamedTuple):
    """A task of a blind rung."""

    id: int
    rung_id: int
    candidate_id: int
    state: str
    lease_owner: str | None
    in_review_id: int | None


def _tasks_by_place(
    connection: Connection, methods: Sequence[BlindMethod], candidate_ids: Collection[int]
) -> list[tuple[BlindMethod, int, list[_BlindTask]]]:
    """(measurement, candidate id, tasks in any state) of the candidates that a blind rung asks for. The unique key of a
    job serves as its index."""
    if not methods:
        return []
    j = t.job.c
    method_of_rung = {rung_id: method for method in methods for rung_id in method.rungs}
    campaign_ids = sorted({campaign_id for method in methods for campaign_id in method.campaigns})
    query = (
        sa.select(j.id, j.rung_id, j.candidate_id, j.state, j.lease_owner, t.lab_task.c.in_review_id)
        .join(t.lab_task, t.lab_task.c.job_id == j.id)
        .where(j.campaign_id.in_(campaign_ids), j.rung_id.in_(sorted(method_of_rung)))
        .where(among(connection, j.candidate_id, sorted(set(candidate_ids))))
    )
    by_place: dict[tuple[Computation, int], list[_BlindTask]] = {}
    for row in connection.execute(query):
        computation = method_of_rung[row.rung_id].computation
        by_place.setdefault((computation, row.candidate_id), []).append(_BlindTask(*row))
    of_computation = {method.computation: method for method in methods}
    places = []
    for (computation, candidate_id), of_place in by_place.items():
        method = of_computation[computation]
        if any(task.rung_id in method.blind for task in of_place):
            places.append((method, candidate_id, of_place))
    return places


def _own_tasks(connection: Connection, login: str, places: Iterable[Sequence[_BlindTask]]) -> set[int]:
    """The ids of the tasks that a person has claimed or answered."""
    every = list(chain.from_iterable(places))
    claimed = {task.id for task in every if task.state == JobState.RUNNING and task.lease_owner == login}
    return claimed | _acted_on(connection, login, [task.id for task in every])


def _is_hidden(viewer: Viewer, method: BlindMethod, of_place: Sequence[_BlindTask], *, has_part: bool) -> bool:
    """Whether the answers on one candidate are hidden. has_part: whether the person has claimed or made a
    measurement."""
    unfinished = [task for task in of_place if task.state in jobs.UNFINISHED]
    if has_part:
        return bool(unfinished)
    campaign_ids = {method.rungs[task.rung_id] for task in of_place}
    works = any(viewer.may(Right.WORK, campaign_id) for campaign_id in campaign_ids)
    decides = any(viewer.may(Right.DECIDE, campaign_id) for campaign_id in campaign_ids)
    return works and not decides and any(task.in_review_id is None for task in unfinished)


def _acted_on(connection: Connection, login: str, job_ids: Sequence[int]) -> set[int]:
    """The tasks among these that a person has answered."""
    s = t.submission.c
    query = sa.select(s.job_id).where(among(connection, s.job_id, job_ids), s.who == login)
    return set(connection.execute(query.where(s.kind.not_in((REVIEWED, SENT_BACK)))).scalars())


def author(connection: Connection, job_id: int) -> str | None:
    """The person who answered a task first; None if nobody has."""
    s = t.submission.c
    query = sa.select(s.who).where(s.job_id == job_id, s.kind.not_in((REVIEWED, SENT_BACK)))
    person: str | None = connection.execute(query.order_by(s.id).limit(1)).scalar()
    return person


def why_not_for(connection: Connection, task: LabTask, viewer: Viewer) -> str | None:
    """The reason why a blind task is another person's; None if this person may measure it, and for a task that is not
    blind. A chemist of a campaign that asks for the same sees answers, and measures none after the first."""
    method = method_of(connection, task)
    if method is None:
        return None
    first = author(connection, task.id)
    if first is not None and first != viewer.login:
        return "another person has answered it, who alone completes or corrects it"
    j = t.job.c
    s = t.submission.c
    is_beside = sa.and_(
        j.campaign_id.in_(method.campaigns),
        j.rung_id.in_(sorted(method.rungs)),
        j.candidate_id == task.candidate_id,
        j.id != task.id,
    )
    claimed = sa.select(j.lease_owner).where(is_beside, j.state == JobState.RUNNING)
    answered = sa.select(s.who).join(t.job, j.id == s.job_id).where(is_beside)
    people = set(connection.execute(sa.union(claimed, answered)).scalars())
    if viewer.login in people:
        return "you have measured this molecule already, or seen what was measured"
    has_claim = task.state is JobState.RUNNING and task.claimed_by == viewer.login
    decides = any(viewer.may(Right.DECIDE, campaign_id) for campaign_id in method.campaigns)
    if decides and first is None and not has_claim and connection.execute(answered.limit(1)).first() is not None:
        return "a chemist of the campaign sees what the others have measured"
    return None


def not_for(connection: Connection, viewer: Viewer) -> sa.ColumnElement[bool]:
    """A condition that selects the unclaimed tasks of the table `job` for which `why_not_for` has a reason."""
    return not_for_by(viewer, blind_methods(connection))


def not_for_by(viewer: Viewer, methods: Sequence[BlindMethod]) -> sa.ColumnElement[bool]:
    """Returns the condition of `not_for` for the tasks of these measurements."""
    conditions = [_not_for_one(viewer, method) for method in methods]
    return sa.and_(t.job.c.state == JobState.QUEUED, sa.or_(sa.false(), *conditions))


def _not_for_one(viewer: Viewer, method: BlindMethod) -> sa.ColumnElement[bool]:
    """Returns the condition of `not_for` for the tasks of one measurement, but for their state."""
    j = t.job.c
    s = t.submission.c
    other = t.job.alias("beside")
    o = other.c
    is_beside = sa.and_(
        o.campaign_id.in_(method.campaigns),
        o.rung_id.in_(sorted(method.rungs)),
        o.candidate_id == j.candidate_id,
        o.id != j.id,
    )
    claims = sa.and_(o.state == JobState.RUNNING, o.lease_owner == viewer.login)
    answers = sa.exists().where(s.job_id == o.id, s.who == viewer.login).correlate(other)
    has_part = sa.exists(sa.select(o.id).where(is_beside, sa.or_(claims, answers)).correlate(t.job))
    answered = sa.select(s.id).where(s.job_id == j.id, s.kind.not_in((REVIEWED, SENT_BACK))).correlate(t.job)
    reasons: list[sa.ColumnElement[bool]] = [has_part, sa.exists(answered.where(s.who != viewer.login))]
    if any(viewer.may(Right.DECIDE, campaign_id) for campaign_id in method.campaigns):
        is_answered = sa.exists().where(s.job_id == o.id).correlate(other)
        is_seen = sa.exists(sa.select(o.id).where(is_beside, is_answered).correlate(t.job))
        reasons.append(sa.and_(is_seen, ~sa.exists(answered.where(s.who == viewer.login))))
    blind_beside = sa.and_(is_beside, o.rung_id.in_(sorted(method.blind)))
    is_asked_blindly = sa.or_(
        j.rung_id.in_(sorted(method.blind)), sa.exists(sa.select(o.id).where(blind_beside).correlate(t.job))
    )
    return sa.and_(j.rung_id.in_(sorted(method.rungs)), is_asked_blindly, sa.or_(*reasons))
