"""Rolls out the groups of several campaigns together, in parts: while one samples, the calls of others are verified."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

from sciagent.agent.messages import PolicyError, Sampled
from sciagent.agent.policies.batches import BatchPolicy
from sciagent.store.campaign_state import watermarks
from sciagent.store.database.ledger import Ledger
from sciagent.training.live.tasks import LiveTask
from sciagent.training.rollouts.drive import count
from sciagent.training.rollouts.groups import Group
from sciagent.training.rollouts.runner import CarriedOut, NextTurn, RolloutRunner


class TaskGroups(NamedTuple):
    """The groups of a task that are rolled out, and what runs them."""

    task: LiveTask
    runner: RolloutRunner
    groups: Sequence[Group]

    @property
    def turns(self) -> int:
        """Number of turns that were taken."""
        return max(len(sibling.episode.turns) for group in self.groups for sibling in group.siblings)


_Asked = Sequence[tuple[TaskGroups, NextTurn]]
_Done = Sequence[tuple[TaskGroups, CarriedOut]]


def divided(running: Sequence[TaskGroups], n: int) -> list[list[TaskGroups]]:
    """Returns the groups in at most n parts, in order. They depend on the groups and their tasks alone."""
    groups = [(each, group) for each in running for group in each.groups]
    n = max(min(n, len(groups)), 1)
    parts = []
    for place in range(n):
        part = groups[place * len(groups) // n : (place + 1) * len(groups) // n]
        of_task = [(each, [group for other, group in part if other is each]) for each in running]
        parts.append([each._replace(groups=own) for each, own in of_task if own])
    return parts


def roll_out(
    ledger: Ledger, policy: BatchPolicy, running: Sequence[TaskGroups], go_on: Callable[[], None], parts: int
) -> float:
    """Takes turns until all episodes have ended; returns the seconds for which sampling has waited for verification.

    go_on: called before each turn; it raises an error to stop, and what is being verified is still written. A turn of a
    part is written in one transaction: after a kill the ledger has all of it or nothing. Turns are written in the same
    order however long their verification takes, also after a kill.
    """
    rollout = _Rollout(ledger, policy, go_on)
    try:
        rollout.run(sorted(divided(running, parts), key=lambda part: max((each.turns for each in part), default=0)))
    finally:
        rollout.close()
    return rollout.waited


class _Rollout:
    """Parts that take turns in one thread, while another carries out what they asked for."""

    def __init__(self, ledger: Ledger, policy: BatchPolicy, go_on: Callable[[], None]) -> None:
        self._ledger, self._policy, self._go_on = ledger, policy, go_on
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="verification")
        self._verifying = deque[Future[_Done]]()
        self.waited = 0.0

    def run(self, parts: Sequence[Sequence[TaskGroups]]) -> None:
        """Takes the turns. parts: the first to be asked first."""
        asking = deque(parts)
        while asking:
            part = asking.popleft()
            asked = [(each, turn) for each in part if (turn := each.runner.next_turn(each.groups)) is not None]
            if asked:
                self._go_on()
                answers = self._policy.answers([question for _, turn in asked for question in turn.questions])
                self._verifying.append(self._thread.submit(_carried_out, asked, answers))
                asking.append(part)
            if self._verifying and len(self._verifying) == len(asking):  # the next part has not got its results
                self._write()

    def _write(self) -> None:
        """Writes the turn that was asked for first."""
        begun = time.monotonic()
        done = self._verifying.popleft().result()
        self.waited += time.monotonic() - begun
        with self._ledger.begin() as connection:
            # in the order of all other writers, so that none of them wait for each other
            watermarks.settle(connection, [each.task.built.row.id for each, _ in done])
            for each, carried_out in done:
                each.runner.write(connection, carried_out)
        for each, carried_out in done:
            count(each.task.driver, carried_out.result)

    def close(self) -> None:
        """Writes what is still being verified, after an error."""
        while self._verifying:
            with suppress(Exception):  # the first error is the one that is raised
                self._write()
        self._thread.shutdown()


def _carried_out(asked: _Asked, answers: Sequence[Sampled | PolicyError]) -> _Done:
    left = iter(answers)
    return [(each, each.runner.carry_out(turn, [next(left) for _ in turn.questions])) for each, turn in asked]
