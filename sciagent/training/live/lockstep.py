"""Rolls out the groups of several campaigns together: all episodes are asked at once, whatever their campaign."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sciagent.agent.policies.batches import BatchPolicy
from sciagent.campaign.rollouts.drive import count
from sciagent.campaign.rollouts.groups import Group
from sciagent.campaign.rollouts.runner import RolloutRunner
from sciagent.store.campaign_state import watermarks
from sciagent.store.database.ledger import Ledger
from sciagent.training.live.tasks import LiveTask


class TaskGroups(NamedTuple):
    """The groups of a task that are rolled out, and what runs them."""

    task: LiveTask
    runner: RolloutRunner
    groups: Sequence[Group]


def roll_out(ledger: Ledger, policy: BatchPolicy, running: Sequence[TaskGroups], go_on: Callable[[], None]) -> None:
    """Takes turns until all episodes have ended. go_on: called before each turn; it raises an error to stop.

    A turn of all campaigns is written in one transaction: after a kill the ledger has all of it or nothing.
    """
    while True:
        asked = [(each, turn) for each in running if (turn := each.runner.next_turn(each.groups)) is not None]
        if not asked:
            return
        go_on()
        answers = iter(policy.answers([question for _, turn in asked for question in turn.questions]))
        done = [(each, each.runner.carry_out(turn, [next(answers) for _ in turn.questions])) for each, turn in asked]
        with ledger.begin() as connection:
            # in the order of all other writers, so that none of them wait for each other
            watermarks.settle(connection, [each.task.built.row.id for each, _ in done])
            for each, carried_out in done:
                each.runner.write(connection, carried_out)
        for each, carried_out in done:
            count(each.task.driver, carried_out.result)
