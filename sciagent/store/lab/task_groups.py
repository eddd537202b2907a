"""The list of tasks in groups: what a person has, may begin with, reviews or approves, and what is not theirs.

Each group is a query of its own with a page of its own, served by indexes, so that a list of thousands of tasks costs
no more than its first page.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.lab_messages_and_codes import QUEUE
from sciagent.domain.people import Right
from sciagent.domain.states_and_needs import JobState
from sciagent.store.database import tables as t
from sciagent.store.lab.blind_measurements import BlindMethod, Viewer, not_for_by
from sciagent.store.lab.tasks import MAY_BE_CLAIMED, RETURNED, TASKS, LabTask, task_of_row, worth_order

MAX_FOUND = 200  # candidates that a search looks for


class TaskGroup(StrEnum):
    """A group of the list, in the order in which the groups stand on the page."""

    SENT_BACK = "sent_back"
    """Answers that were sent back to the person."""
    OWN = "own"
    """Tasks that the person has claimed."""
    APPROVE = "approve"
    """Tasks that wait for an approval that the person may give."""
    REVIEW = "review"
    """Answers of others that the person may review."""
    FREE = "free"
    """Tasks that the person can begin with."""
    OWN_REVIEW = "own_review"
    """Answers of the person that wait for another person."""
    LATER = "later"
    """Tasks for which no slot of the week is left."""
    OTHERS = "others"
    """Tasks that others have, or that wait for another person's approval."""
    NOT_YOURS = "not_yours"
    """Blind tasks that another person has to measure."""


class TaskOrder(StrEnum):
    """An order of the tasks of a group."""

    WORTH = "worth"
    """Promoted tasks, then the most urgent of each campaign in turn."""
    NEWEST = "newest"
    OLDEST = "oldest"
    PRICE = "price"
    """The cheapest measurement first."""


@dataclass(frozen=True)
class ListedRung:
    """A rung with tasks on which people act, as the list of tasks filters and sorts by it."""

    id: int
    campaign_id: int
    campaign: str
    """Name of the campaign."""
    name: str
    """Label of the rung."""
    properties: tuple[str, ...]
    """Names of the quantities that it asks for."""
    needs_approval: bool
    price: float
    """Price of a measurement, in EUR."""
    slot_at: datetime | None
    """Time (UTC) at which a slot of the week is free; None where a task can be claimed now."""


@dataclass(frozen=True)
class Searched:
    """The task and the candidates that a search names."""

    task_id: int | None
    """The number of a task; None for a text that is none."""
    candidate_ids: Collection[int]
    """Candidates with this name, notation, InChIKey or vial."""


@dataclass(frozen=True)
class TaskQuery:
    """The tasks that are listed, the person who lists them, and their order."""

    viewer: Viewer
    rungs: Sequence[ListedRung]
    """The rungs whose tasks are listed."""
    searched: Searched | None = None
    """The search that narrows the list; None: all tasks."""
    order: TaskOrder = TaskOrder.WORTH
    blind: Sequence[BlindMethod] = ()
    """The measurements that are blind; `blind_methods` reads them."""

    def page(self, connection: Connection, group: TaskGroup, skip: int, limit: int) -> list[LabTask]:
        """A page of a group. skip: tasks on the pages before. limit: tasks of a page."""
        query = TASKS.where(t.job.c.queue == QUEUE, t.job.c.rung_id.in_([rung.id for rung in self.rungs]))
        query = query.where(*self._conditions(group))
        if self.searched is not None:
            is_found: sa.ColumnElement[bool] = t.job.c.candidate_id.in_(self.searched.candidate_ids)
            if self.searched.task_id is not None:
                is_found = sa.or_(is_found, t.job.c.id == self.searched.task_id)
            query = query.where(is_found)
        query = query.order_by(*self._order()).offset(skip).limit(limit)
        return [task_of_row(row) for row in connection.execute(query)]

    def _order(self) -> list[sa.ColumnElement[Any]]:
        job_id = t.job.c.id
        match self.order:
            case TaskOrder.NEWEST:
                return [job_id.desc()]
            case TaskOrder.OLDEST:
                return [job_id]
            case TaskOrder.PRICE if self.rungs:
                prices = {rung.id: rung.price for rung in self.rungs}
                return [sa.case(prices, value=t.job.c.rung_id, else_=0.0), job_id]
            case _:
                return worth_order()

    def _rungs_with(self, right: Right) -> list[int]:
        """The ids of the rungs in whose campaigns the person has a right."""
        return [rung.id for rung in self.rungs if self.viewer.rights.may(right, rung.campaign_id)]

    def _conditions(self, group: TaskGroup) -> list[sa.ColumnElement[bool]]:
        """The conditions that select the tasks of a group."""
        j = t.job.c
        task = t.lab_task.c
        login = self.viewer.login
        is_mine = sa.and_(j.state == JobState.RUNNING, j.lease_owner == login)
        not_in_review = task.in_review_id.is_(None)
        match group:
            case TaskGroup.SENT_BACK:
                return [task.sent_back_id.is_not(None), not_in_review, RETURNED.c.who == login]
            case TaskGroup.OWN:
                # one that was sent back stands in a group of its own
                return [is_mine, not_in_review, sa.or_(task.sent_back_id.is_(None), RETURNED.c.who != login)]
            case TaskGroup.REVIEW:
                return [self._in_review(j.rung_id.in_(self._rungs_with(Right.WORK)), _WAITING.c.who != login)]
            case TaskGroup.OWN_REVIEW:
                return [self._in_review(_WAITING.c.who == login)]
            case TaskGroup.OTHERS:
                is_with_other = sa.and_(j.state == JobState.RUNNING, j.lease_owner != login, not_in_review)
                is_read_only = j.rung_id.not_in(self._rungs_with(Right.WORK))
                is_for_others = self._in_review(is_read_only, _WAITING.c.who != login)
                needs_other = sa.and_(self._is_free(), self._waits(), ~self._may_approve(), ~self._not_yours())
                return [sa.or_(is_with_other, is_for_others, needs_other)]
            case TaskGroup.APPROVE:
                return [self._is_free(), self._waits(), self._may_approve()]
            case TaskGroup.NOT_YOURS:
                return [self._is_free(), self._not_yours(), ~sa.and_(self._waits(), self._may_approve())]
            case _:
                # a task that is answered in part has its slot
                without_slot = [rung.id for rung in self.rungs if rung.slot_at is not None]
                lacks_slot = sa.and_(j.rung_id.in_(without_slot), task.open_quantities.is_(None))
                is_now = lacks_slot if group is TaskGroup.LATER else ~lacks_slot
                return [self._is_free(), ~self._waits(), ~self._not_yours(), is_now]

    def _is_free(self) -> sa.ColumnElement[bool]:
        return sa.and_(t.job.c.state == JobState.QUEUED, MAY_BE_CLAIMED)

    def _waits(self) -> sa.ColumnElement[bool]:
        """Whether a task waits for an approval."""
        rung_ids = [rung.id for rung in self.rungs if rung.needs_approval]
        return sa.and_(t.job.c.rung_id.in_(rung_ids), t.lab_task.c.approved_by.is_(None))

    def _may_approve(self) -> sa.ColumnElement[bool]:
        return t.job.c.rung_id.in_(self._rungs_with(Right.DECIDE))

    def _not_yours(self) -> sa.ColumnElement[bool]:
        """Whether another person has to measure a blind task."""
        return sa.and_(t.job.c.rung_id.in_(self._rungs_with(Right.WORK)), not_for_by(self.viewer, self.blind))

    def _in_review(self, *conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
        """Whether an answer waits for a second person. conditions: on the answer in `_WAITING`, or on the task."""
        waiting = sa.select(_WAITING.c.id).where(_WAITING.c.id == t.lab_task.c.in_review_id, *conditions)
        return sa.and_(t.lab_task.c.in_review_id.is_not(None), sa.exists(waiting.correlate(t.lab_task, t.job)))


_WAITING = t.submission.alias("waiting")
"""The answer that waits for a second person."""
