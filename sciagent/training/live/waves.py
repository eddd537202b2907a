"""Waves of groups: those of a step that are opened, rolled out, verified and rewarded together.

Rolls out the groups of several campaigns together, in parts: while one samples, the calls of others are verified.

The training rows of a group of rollouts, read from the ledger as they were sampled and rewarded.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Any, NamedTuple, Protocol

from sqlalchemy.engine import Connection

from sciagent.agent.messages import PolicyError, Sampled
from sciagent.agent.policies.batches import BatchPolicy
from sciagent.campaign.core.build import Built
from sciagent.domain.evidence import content_hash
from sciagent.errors import UsageError
from sciagent.rewards.publishing import publish_groups
from sciagent.rewards.spec import RewardSpec
from sciagent.store.campaign_state import trajectories, watermarks
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import groups as group_rows
from sciagent.store.learning import policies, rewards
from sciagent.store.learning.groups import GroupRow
from sciagent.store.learning.rewards import RewardVersionRow
from sciagent.training.columns import rows_of
from sciagent.training.learner.kinds import SAME, decided, sampled_row, valued_row
from sciagent.training.learner.rows import TrainingRow
from sciagent.training.live.tasks import LiveTask, WeightedTask
from sciagent.training.reading import RecordedEpisode
from sciagent.training.rollouts.drive import count, obstacle_after_pause
from sciagent.training.rollouts.groups import Group, GroupMark, RolloutPlan
from sciagent.training.rollouts.runner import CarriedOut, NextTurn, RolloutRunner
from sciagent.training.settings import LiveSettings


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
        self._ledger = ledger
        self._policy = policy
        self._go_on = go_on
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
            watermarks.wait_for_noted_rows(connection, [each.task.built.row.id for each, _ in done])
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


@dataclass
class RewardedGroup:
    """A group with its rewards of one version."""

    id: int
    version: int
    """Id of the version of rewards."""
    campaign: str
    """Its name."""
    rows: list[TrainingRow] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    """Ids of the turns that the rows train."""
    outcomes: list[float] = field(default_factory=list)
    """The rewards of the episodes that are decided."""
    terms: list[Mapping[str, float]] = field(default_factory=list)
    """The sums of the named parts of the rewards, of each episode that is decided."""

    @property
    def has_something_to_learn(self) -> bool:
        """Whether the siblings earned differently, or a value head compares them with what it expected."""
        return any(
            row.episode is not None or any(abs(advantage) > SAME for advantage in row.advantages) for row in self.rows
        )


def read(
    connection: Connection,
    built: Built,
    version: RewardVersionRow,
    group_ids: Sequence[int],
    context: int,
    training: str = "grpo",
) -> list[RewardedGroup]:
    """Returns the groups, in the order of their ids. context: rows with more tokens are left out. training: `ppo` for
    rows whose advantages a value head makes."""
    spec = built.row.spec
    found = list[RewardedGroup]()
    task = content_hash({"objectives": spec["objectives"], "goal": spec["goal"]})
    for row in group_rows.of_ids(connection, group_ids).values():
        group = RewardedGroup(row.id, version.id, built.row.name)
        siblings = group_rows.siblings(connection, row.id)
        named = policies.of_episodes(connection, [sibling.id for sibling in siblings])
        for sibling in siblings:
            policy = named[sibling.id].name if sibling.id in named else None
            about = (built.row.name, sibling.id, sibling.number, row.id, sibling.sibling, policy, row.purpose, task)
            _add_episode(connection, group, RecordedEpisode(*about, opening=(), thinking="preserve"), context, training)
        found.append(group)
    return sorted(found, key=lambda group: group.id)


def _add_episode(
    connection: Connection, group: RewardedGroup, episode: RecordedEpisode, context: int, training: str
) -> None:
    turns = trajectories.turns(connection, episode.id)
    ids = {turn["number"]: turn["id"] for turn in turns}
    for cells in rows_of(connection, episode, turns, group.version, Counter()):
        if len(cells["ids"]) <= context:
            _add_row(group, cells, ids, training)
    earned = rewards.of_version(connection, group.version, [episode.id])
    for reward in earned:
        if reward.turn_id is None and reward.value is not None:
            group.outcomes.append(reward.value)
            group.terms.append(_terms([each.terms for each in earned if each.turn_id is not None]))


def _add_row(group: RewardedGroup, cells: Mapping[str, Any], ids: Mapping[int, int], training: str) -> None:
    """Adds a row if it has something to learn. ids: of the episode's turns, by number."""
    if training == "ppo":
        has_any = decided(cells)
        places = cells["trainable"]
        made = valued_row
    else:
        has_any = any(cells["gradient"])
        places = cells["gradient"]
        made = sampled_row
    if has_any:
        group.rows.append(made(cells))
        used = {number for number, taken in zip(cells["turns"], places, strict=True) if taken}
        group.turns += [ids[number] for number in sorted(used)]


def _terms(terms: Sequence[Mapping[str, float | None]]) -> Mapping[str, float]:
    """Returns the sums of the terms of an episode's turns."""
    sums: dict[str, float] = {}
    for of_turn in terms:
        for name, amount in of_turn.items():
            sums[name] = sums.get(name, 0.0) + (amount or 0.0)
    return sums


class Stopped(Exception):
    """No further turn may begin; the text says why."""

    def __init__(self, reason: str, why: str) -> None:
        """reason: its name, as in `stopped_by`."""
        super().__init__(reason, why)  # both, so that a process can send it to another
        self.reason = reason
        self.why = why

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
        settings: LiveSettings,
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
        self._settings = settings
        self._ledger = ledger
        self._spec = spec
        self._context = context
        self._run = run
        self._stopping = stopping or Event()
        self._held = self._known()

    def _known(self) -> Mapping[tuple[str, int, int], GroupRow]:
        """Returns the groups that the run has begun, by campaign, step and place."""
        found = {}
        with self._ledger.read() as connection:
            for task in self.tasks:
                for row in group_rows.of_campaign(connection, task.built.row.id):
                    if row.task.get("run") == self._run:
                        found[task.name, row.task["step"], row.task["place"]] = row
        return found

    def wave(self, step: int, policy: BatchPolicy, places: Mapping[str, Sequence[int]]) -> Wave:
        """Rolls out groups, as `Waves` says."""
        begun = time.monotonic()
        running = list(self._begun(step, policy, places))
        waited = roll_out(self._ledger, policy, running, self._go_on, self._settings.parts)
        self._check_answered(step, running)
        inline = sum(each.runner.verified_seconds for each in running)
        rolled_out = time.monotonic()
        for each in running:
            each.task.driver.settle(self._settings.patience) if each.task.built.bought else None
        settled = time.monotonic() - rolled_out
        groups = list[RewardedGroup]()
        for each in running:
            ids = [group.row.id for group in each.groups]
            version = self._version(each.task, ids)
            with self._ledger.read() as connection:
                groups += read(connection, each.task.built, version, ids, self._context, self._settings.training)
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
            siblings = group_rows.siblings(connection, new[0].groups[0].row.id)
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
        seed = int(content_hash([self._settings.seed, "step", number, place])[:12], 16)
        return GroupMark(seed, {"run": self._run, "step": number, "place": place})

    def _plan(self, policy: BatchPolicy, marks: Sequence[GroupMark]) -> RolloutPlan:
        settings = self._settings
        return RolloutPlan(
            len(marks), settings.siblings, settings.turns, policy.name, begins=settings.begins, marks=tuple(marks)
        )

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
