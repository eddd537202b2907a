"""Blind measurements: which answers a person does not see, and which tasks are another person's.

A rung with `blind: true` gives each measurement of a candidate to another person. Until all of them are made, a person
who may still make one sees nothing of the others: neither values, grades and comments, nor who made them. So does a
person who has made one, until the last of them is recorded, since an answer can be corrected. A chemist of the campaign
who has no part in the measurements sees them, and therefore can take none of them after the first answer.

The rule holds for the values, not for the task alone: a campaign that reuses them shows no more of them.
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
from sciagent.store.lab.tasks import LabTask, RungWithTasks, rungs_with_tasks


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

    def of(self, candidate_id: int) -> frozenset[Computation]:
        """Returns the computations whose values on a candidate are hidden."""
        return self.by_candidate.get(candidate_id, frozenset())

    def hides(self, task: LabTask) -> bool:
        """Returns whether the answers of a task, and the person who has it, are hidden."""
        return task.computation in self.of(task.candidate_id) and task.id not in self.own_tasks


ALL_SEEN = UnseenAnswers()
"""Nothing is hidden, as at the command line, where whoever types has the whole ledger."""


def blind_rungs(connection: Connection) -> list[RungWithTasks]:
    """The blind rungs of all campaigns on whose tasks people act."""
    return [rung for rung in rungs_with_tasks(connection) if rung.is_blind]


def unseen_answers(connection: Connection, viewer: Viewer | None, candidate_ids: Collection[int]) -> UnseenAnswers:
    """The answers on these candidates that a person does not see. viewer: None for the command line, which shows
    all."""
    if viewer is None or not candidate_ids:
        return ALL_SEEN
    rungs = {rung.id: rung for rung in blind_rungs(connection)}
    if not rungs:
        return ALL_SEEN
    tasks_by_place = _tasks_by_place(connection, list(rungs.values()), candidate_ids)
    own_tasks = _own_tasks(connection, viewer.login, tasks_by_place.values())
    hidden: dict[int, set[Computation]] = {}
    for (rung_id, candidate_id), of_place in tasks_by_place.items():
        rung = rungs[rung_id]
        if _is_hidden(viewer, rung, of_place, has_part=any(task.id in own_tasks for task in of_place)):
            hidden.setdefault(candidate_id, set()).add(rung.computation)
    by_candidate = {candidate_id: frozenset(computations) for candidate_id, computations in hidden.items()}
    return UnseenAnswers(by_candidate, frozenset(own_tasks), viewer.login)


def open_computations(connection: Connection, candidate_id: int) -> frozenset[Computation]:
    """The blind computations of which a measurement on the candidate is still to be made, whoever asks."""
    rungs = {rung.id: rung for rung in blind_rungs(connection)}
    if not rungs:
        return frozenset()
    still_open = set()
    for (rung_id, _), of_place in _tasks_by_place(connection, list(rungs.values()), [candidate_id]).items():
        if any(task.state in jobs.UNFINISHED for task in of_place):
            still_open.add(rungs[rung_id].computation)
    return frozenset(still_open)


def is_blind_in(connection: Connection, viewer: Viewer, campaign_id: int) -> bool:
    """Whether answers on any candidate of a campaign are hidden from a person, who then sees no figure that is made of
    values, such as the best utility."""
    rungs = blind_rungs(connection)
    if not rungs:
        return False
    j = t.job.c
    cc = t.campaign_candidate.c
    is_member = sa.exists().where(cc.campaign_id == campaign_id, cc.candidate_id == j.candidate_id)
    query = (
        sa.select(j.candidate_id)
        .distinct()
        .where(j.campaign_id.in_(sorted({rung.campaign_id for rung in rungs})), j.state.in_(jobs.UNFINISHED))
        .where(j.rung_id.in_([rung.id for rung in rungs]), is_member)
    )
    return bool(unseen_answers(connection, viewer, connection.execute(query).scalars().all()).by_candidate)


class _BlindTask(NamedTuple):
    """A task of a blind rung."""

    id: int
    rung_id: int
    candidate_id: int
    state: str
    lease_owner: str | None
    in_review_id: int | None


def _tasks_by_place(
    connection: Connection, rungs: Sequence[RungWithTasks], candidate_ids: Collection[int]
) -> dict[tuple[int, int], list[_BlindTask]]:
    """{(rung id, candidate id): tasks in any state}. The unique key of a job serves as its index."""
    j = t.job.c
    campaign_ids = sorted({rung.campaign_id for rung in rungs})
    query = (
        sa.select(j.id, j.rung_id, j.candidate_id, j.state, j.lease_owner, t.lab_task.c.in_review_id)
        .join(t.lab_task, t.lab_task.c.job_id == j.id)
        .where(j.campaign_id.in_(campaign_ids), j.rung_id.in_([rung.id for rung in rungs]))
        .where(among(connection, j.candidate_id, sorted(set(candidate_ids))))
    )
    by_place: dict[tuple[int, int], list[_BlindTask]] = {}
    for row in connection.execute(query):
        by_place.setdefault((row.rung_id, row.candidate_id), []).append(_BlindTask(*row))
    return by_place


def _own_tasks(connection: Connection, login: str, places: Iterable[Sequence[_BlindTask]]) -> set[int]:
    """The ids of the tasks that a person has claimed or answered."""
    every = list(chain.from_iterable(places))
    claimed = {task.id for task in every if task.state == JobState.RUNNING and task.lease_owner == login}
    return claimed | _acted_on(connection, login, [task.id for task in every])


def _is_hidden(viewer: Viewer, rung: RungWithTasks, of_place: Sequence[_BlindTask], *, has_part: bool) -> bool:
    """Whether the answers on one candidate are hidden. has_part: whether the person has claimed or made a
    measurement."""
    unfinished = [task for task in of_place if task.state in jobs.UNFINISHED]
    if has_part:
        return bool(unfinished)
    may_measure = viewer.may(Right.WORK, rung.campaign_id) and not viewer.may(Right.DECIDE, rung.campaign_id)
    return may_measure and any(task.in_review_id is None for task in unfinished)


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


def why_not_for(connection: Connection, task: LabTask, who: str, *, decides: bool) -> str | None:
    """The reason why a blind task is another person's; None if this person may measure it. decides: whether the person
    is a chemist of the campaign, who sees answers."""
    first = author(connection, task.id)
    if first is not None and first != who:
        return "another person has answered it, who alone completes or corrects it"
    j = t.job.c
    s = t.submission.c
    is_beside = sa.and_(
        j.campaign_id == task.campaign_id,
        j.rung_id == task.rung_id,
        j.candidate_id == task.candidate_id,
        j.id != task.id,
    )
    claimed = sa.select(j.lease_owner).where(is_beside, j.state == JobState.RUNNING)
    answered = sa.select(s.who).join(t.job, j.id == s.job_id).where(is_beside)
    people = set(connection.execute(sa.union(claimed, answered)).scalars())
    if who in people:
        return "you have measured this molecule already, or seen what was measured"
    has_claim = task.state is JobState.RUNNING and task.claimed_by == who
    if decides and first is None and not has_claim and connection.execute(answered.limit(1)).first() is not None:
        return "a chemist of the campaign sees what the others have measured"
    return None


def not_for(connection: Connection, viewer: Viewer) -> sa.ColumnElement[bool]:
    """A condition that selects the unclaimed tasks of the table `job` for which `why_not_for` has a reason."""
    return not_for_at(viewer, {rung.id: rung.campaign_id for rung in blind_rungs(connection)})


def not_for_at(viewer: Viewer, rungs: Mapping[int, int]) -> sa.ColumnElement[bool]:
    """Returns the condition of `not_for` for the tasks of these blind rungs. rungs: {rung id: campaign id}."""
    if not rungs:
        return sa.false()
    j = t.job.c
    s = t.submission.c
    other = t.job.alias("beside")
    o = other.c
    is_beside = sa.and_(
        o.campaign_id == j.campaign_id, o.rung_id == j.rung_id, o.candidate_id == j.candidate_id, o.id != j.id
    )
    claims = sa.and_(o.state == JobState.RUNNING, o.lease_owner == viewer.login)
    answers = sa.exists().where(s.job_id == o.id, s.who == viewer.login).correlate(other)
    has_part = sa.exists(sa.select(o.id).where(is_beside, sa.or_(claims, answers)).correlate(t.job))
    answered = sa.select(s.id).where(s.job_id == j.id, s.kind.not_in((REVIEWED, SENT_BACK))).correlate(t.job)
    is_by_another = sa.exists(answered.where(s.who != viewer.login))
    decided = [rung_id for rung_id, campaign_id in rungs.items() if viewer.may(Right.DECIDE, campaign_id)]
    is_answered = sa.exists().where(s.job_id == o.id).correlate(other)
    is_seen = sa.exists(sa.select(o.id).where(is_beside, is_answered).correlate(t.job))
    is_blind = j.rung_id.in_(list(rungs))
    sees_others = sa.and_(j.rung_id.in_(decided), is_seen, ~sa.exists(answered.where(s.who == viewer.login)))
    return sa.and_(j.state == JobState.QUEUED, is_blind, sa.or_(has_part, is_by_another, sees_others))
