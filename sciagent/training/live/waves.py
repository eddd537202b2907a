"""Waves of groups: those of a step that are opened, rolled out, verified and rewarded together."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from threading import Event
from typing import NamedTuple, Protocol

from sciagent.agent.policies.batches import BatchPolicy
from sciagent.domain.evidence import content_hash
from sciagent.errors import UsageError
from sciagent.rewards.publishing import publish_groups
from sciagent.rewards.spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import groups as group_table
from sciagent.store.learning import rewards
from sciagent.store.learning.groups import GroupRow
from sciagent.store.learning.rewards import RewardVersionRow
from sciagent.training.live import group_rows
from sciagent.training.live.group_rows import RewardedGroup
from sciagent.training.live.lockstep import TaskGroups, roll_out
from sciagent.training.live.settings import LiveWish
from sciagent.training.live.tasks import LiveTask, WeightedTask
from sciagent.training.rollouts.drive import obstacle_after_pause
from sciagent.training.rollouts.groups import GroupMark, RolloutPlan
from sciagent.training.rollouts.runner import RolloutRunner


class Stopped(Exception):
    """No further turn may begin; the text says why."""

    def __init__(self, reason: str, why: str) -> None:
        """reason: its name, as in `stopped_by`."""
        super().__init__(reason, why)  # both, so that a process can send it to another
        self.reason, self.why = reason, why

    def __str__(self) -> str:
        return self.why


class Wave(NamedTuple):
    """The groups that were rolled out together."""

    groups: list[RewardedGroup]
    """By task, and in the order in which they began."""
    sample_seconds: float
    verify_seconds: float
    wait_seconds: float
    """The time for which sampling has waited for verification; the rest of verification ran beside it."""


class Waves(Protocol):
    """Rolls out the groups of some tasks."""

    @property
    def tasks(self) -> Sequence[WeightedTask]: ...

    def wave(self, step: int, policy: BatchPolicy, places: Mapping[str, Sequence[int]]) -> Wave:
        """Rolls out groups of a step. places: numbers of the groups in the step, by task.

        Raises Stopped if no further turn may begin.
        """


def _places(groups: TaskGroups) -> list[int]:
    return [int(group.row.task["place"]) for group in groups.groups]


class LocalWaves:
    """Rolls out groups in this process, which drives the campaigns."""

    def __init__(
        self,
        wish: LiveWish,
        ledger: Ledger,
        tasks: Sequence[LiveTask],
        spec: RewardSpec,
        context: int,
        run: str,
        stopping: Event | None = None,
    ) -> None:
        """context: most tokens of a row. run: id of the run, by which it finds its groups in the ledger again.
        stopping: set from another thread, it ends a wave before the next turn."""
        self.tasks = tasks
        self._wish, self._ledger, self._spec, self._context = wish, ledger, spec, context
        self._run, self._stopping = run, stopping or Event()
        self._held = self._known()

    def _known(self) -> Mapping[tuple[str, int, int], GroupRow]:
        """Returns the groups that the run has begun, by campaign, step and place."""
        found = {}
        with self._ledger.read() as connection:
            for task in self.tasks:
                for row in group_table.of_campaign(connection, task.built.row.id):
                    if row.task.get("run") == self._run:
                        found[task.name, row.task["step"], row.task["place"]] = row
        return found

    def wave(self, step: int, policy: BatchPolicy, places: Mapping[str, Sequence[int]]) -> Wave:
        """Rolls out groups, as `Waves` says."""
        begun = time.monotonic()
        running = list(self._begun(step, policy, places))
        waited = roll_out(self._ledger, policy, running, self._go_on, self._wish.parts)
        self._check_answered(step, running)
        inline = sum(each.runner.verified_seconds for each in running)
        rolled_out = time.monotonic()
        for each in running:
            each.task.driver.settle(self._wish.patience) if each.task.built.bought else None
        settled, groups = time.monotonic() - rolled_out, list[RewardedGroup]()
        for each in running:
            ids = [group.row.id for group in each.groups]
            version = self._version(each.task, ids)
            with self._ledger.read() as connection:
                groups += group_rows.read(connection, each.task.built, version, ids, self._context, self._wish.training)
        return Wave(groups, rolled_out - begun - waited, inline + settled, waited + settled)

    def _check_answered(self, step: int, running: Sequence[TaskGroups]) -> None:
        """Raises UsageError if every episode of a wave ended before its first answer, since later ones would too.
        Groups that an ended process has left are not looked at, so that a run can go on after a server has failed."""
        new = [
            each for each in running if not any((each.task.name, step, place) in self._held for place in _places(each))
        ]
        if not new or any(each.turns for each in running):
            return
        with self._ledger.read() as connection:
            siblings = group_table.siblings(connection, new[0].groups[0].row.id)
        raise UsageError(f"step {step}: the model gave no answer in any episode; {siblings[0].ended_why}")

    def _begun(self, number: int, policy: BatchPolicy, places: Mapping[str, Sequence[int]]) -> Iterator[TaskGroups]:
        """Yields the groups by task; those that an ended process has left in the ledger go on."""
        for task in self.tasks:
            wanted = places.get(task.name, ())
            if not wanted:
                continue
            runner = RolloutRunner(task.built, task.driver.session.lease, task.worker, policy, task.spec)
            left = [row for place in wanted if (row := self._held.get((task.name, number, place))) is not None]
            marks = [self._mark(number, place) for place in wanted if (task.name, number, place) not in self._held]
            groups = runner.restored(left) if left else []
            if marks:
                groups += runner.opened(self._plan(policy, marks))
            yield TaskGroups(task, runner, sorted(groups, key=lambda group: int(group.row.task["place"])))

    def _mark(self, number: int, place: int) -> GroupMark:
        seed = int(content_hash([self._wish.seed, "step", number, place])[:12], 16)
        return GroupMark(seed, {"run": self._run, "step": number, "place": place})

    def _plan(self, policy: BatchPolicy, marks: Sequence[GroupMark]) -> RolloutPlan:
        wish = self._wish
        return RolloutPlan(len(marks), wish.siblings, wish.turns, policy.name, begins=wish.begins, marks=tuple(marks))

    def _version(self, task: LiveTask, group_ids: Sequence[int]) -> RewardVersionRow:
        """Returns the rewards of groups: those that an ended process has published for them, else new ones."""
        with self._ledger.read() as connection:
            scope = rewards.scope_of(group_ids)
            known = rewards.first_of_scope(connection, task.built.row.id, self._spec.hash, scope)
        return known or publish_groups(task.built, self._spec, group_ids)

    def _go_on(self) -> None:
        if self._stopping.is_set():
            raise Stopped("interrupt", "stopped")
        for task in self.tasks:
            if (why := obstacle_after_pause(task.driver)) is not None:
                raise Stopped("budget", f"{task.name}: {why}")
