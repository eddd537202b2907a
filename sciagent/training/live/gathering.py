"""Gathers what a step is trained on: groups are opened, rolled out, verified and rewarded."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event

from sciagent.agent.policies.batches import BatchPolicy
from sciagent.campaign.rewarding.publishing import publish_groups
from sciagent.campaign.rollouts.drive import obstacle_after_pause
from sciagent.campaign.rollouts.groups import GroupMark, RolloutPlan
from sciagent.campaign.rollouts.runner import RolloutRunner
from sciagent.domain.evidence import content_hash
from sciagent.rewards.spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import groups as group_table
from sciagent.store.learning import rewards
from sciagent.store.learning.groups import GroupRow
from sciagent.store.learning.rewards import RewardVersionRow
from sciagent.training.live import group_rows
from sciagent.training.live.group_rows import RewardedGroup
from sciagent.training.live.lockstep import TaskGroups, roll_out
from sciagent.training.live.tasks import LiveTask, chosen
from sciagent.training.live.wish import LiveWish


class Stopped(Exception):
    """No further turn may begin; the text says why."""

    def __init__(self, reason: str, why: str) -> None:
        """reason: its name, as in `stopped_by`."""
        super().__init__(why)
        self.reason = reason


@dataclass
class GatheredStep:
    """The groups of a step."""

    number: int
    trained: list[RewardedGroup] = field(default_factory=list)
    dropped: list[RewardedGroup] = field(default_factory=list)
    """Groups whose siblings all earned the same, or that are undecided or broken."""
    sample_seconds: float = 0.0
    verify_seconds: float = 0.0


class Gatherer:
    """Gathers the steps of one run."""

    def __init__(
        self, wish: LiveWish, ledger: Ledger, tasks: Sequence[LiveTask], spec: RewardSpec, context: int, run: str
    ) -> None:
        """context: most tokens of a row. run: id of the run, by which it finds its groups in the ledger again."""
        self._wish, self._ledger, self._tasks, self._spec, self._context = wish, ledger, tasks, spec, context
        self._run = run
        self.stopping = Event()
        self._held = self._known()

    def _known(self) -> Mapping[tuple[str, int, int], GroupRow]:
        """Returns the groups that the run has begun, by campaign, step and place."""
        found = {}
        with self._ledger.read() as connection:
            for task in self._tasks:
                for row in group_table.of_campaign(connection, task.built.row.id):
                    if row.task.get("run") == self._run:
                        found[task.name, row.task["step"], row.task["place"]] = row
        return found

    def gather(self, number: int, policy: BatchPolicy) -> GatheredStep:
        """Rolls out the groups of a step. Those whose siblings earned the same are replaced by further ones.

        Raises Stopped if no further turn may begin.
        """
        step, wish, place = GatheredStep(number), self._wish, 0
        while len(step.trained) < wish.groups and place < wish.most_groups:
            n = min(wish.groups - len(step.trained), wish.most_groups - place)
            for group in self._wave(step, policy, range(place, place + n)):
                (step.trained if group.has_something_to_learn else step.dropped).append(group)
            place += n
        return step

    def _wave(self, step: GatheredStep, policy: BatchPolicy, places: range) -> Iterator[RewardedGroup]:
        """Yields groups that were rolled out together."""
        begun = time.monotonic()
        running = list(self._begun(step.number, policy, places))
        roll_out(self._ledger, policy, running, self._go_on)
        inline = sum(each.runner.verified_seconds for each in running)
        waited = time.monotonic()
        for each in running:
            each.task.driver.settle(self._wish.patience) if each.task.built.bought else None
        step.verify_seconds += inline + time.monotonic() - waited
        step.sample_seconds += waited - begun - inline
        for each in running:
            ids = [group.row.id for group in each.groups]
            version = self._version(each.task, ids)
            with self._ledger.read() as connection:
                yield from group_rows.read(
                    connection, each.task.built, version, ids, self._context, self._wish.training
                )

    def _begun(self, number: int, policy: BatchPolicy, places: range) -> Iterator[TaskGroups]:
        """Yields the groups by task; those that an ended process has left in the ledger go on."""
        of_task: dict[str, list[int]] = {}
        drawn = chosen(self._tasks, self._wish.seed, number, places)
        for place, task in zip(places, drawn, strict=True):
            of_task.setdefault(task.name, []).append(place)
        for task in self._tasks:
            wanted = of_task.get(task.name, [])
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
        if self.stopping.is_set():
            raise Stopped("interrupt", "stopped")
        for task in self._tasks:
            if (why := obstacle_after_pause(task.driver)) is not None:
                raise Stopped("budget", f"{task.name}: {why}")
