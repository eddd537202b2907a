"""The list of tasks under its headings: the person's own, those to review, those to approve, and what is next."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from sciagent.domain.answers.lab import LabTaskAnswer
from sciagent.domain.people import Right
from sciagent.lab.listing import TaskReader
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab import tasks
from sciagent.web.visitors import Visitor


@dataclass(frozen=True)
class TaskLists:
    """The tasks of a page of the list; each stands under one heading."""

    own: Sequence[LabTaskAnswer]
    """Tasks that the person has claimed."""
    review: Sequence[LabTaskAnswer]
    """Tasks whose answer waits for a second person."""
    to_approve: Sequence[LabTaskAnswer]
    """Tasks that the person may approve."""
    following: Sequence[LabTaskAnswer]
    """Tasks that the person can begin with, the most valuable first."""
    taken: Sequence[LabTaskAnswer]
    """The other tasks: with other people, or waiting for a chemist who approves them."""
    more: int
    """Tasks before the next page; 0 without one."""

    @property
    def codes(self) -> list[str]:
        """Returns the codes of the vials of the tasks that the person can measure, for a sheet of labels."""
        return [task.code for task in (*self.own, *self.following) if task.code]


def read_lists(ledger: Ledger, reader: TaskReader, who: Visitor, skip: int, size: int) -> TaskLists:
    """Returns a page of the list. skip: tasks on the pages before; own tasks and those to review stand on the first
    page. size: tasks of a page."""
    among = who.rights.campaigns(Right.READ)
    with ledger.read() as connection:
        own, review = [], []
        if not skip:
            own = tasks.listed(connection, among=among, claimed_by=str(who.who))
            review = tasks.listed(connection, among=among, in_review=True)
        listed = tasks.listed(connection, among=among, skip=skip, limit=size + 1)
        above = {task.id for task in (*own, *review)}
        here = [task for task in listed[:size] if task.id not in above]
        own = [task for task in own if task.in_review_id is None]
        own_shown, review_shown, shown = (reader.shown(connection, each) for each in (own, review, here))
    decided = {task.id for task in here if who.rights.may(Right.DECIDE, task.campaign_id)}
    more = skip + size if len(listed) > size else 0
    to_approve, free, taken = _split(shown, decided)
    return TaskLists(own_shown, review_shown, to_approve, free, taken, more)


def _split(shown: Sequence[LabTaskAnswer], decided: Set[int]) -> tuple[list[LabTaskAnswer], ...]:
    """Returns the tasks that wait for an approval of the person, those that are free, and the others. decided: ids of
    the tasks of campaigns in which the person approves."""
    to_approve, free, taken = list[LabTaskAnswer](), list[LabTaskAnswer](), list[LabTaskAnswer]()
    for task in shown:
        if task.state == "queued":
            free.append(task)
        elif task.state == "waiting" and task.task in decided:
            to_approve.append(task)
        else:
            taken.append(task)
    return to_approve, free, taken
