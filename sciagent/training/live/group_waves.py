"""Waves of groups: groups of a step that are opened, rolled out, verified and rewarded together.

`LocalWaves` does all this in this process. `roll_out` rolls out the groups of several campaigns in parts: while one
part samples, the tool calls of the others are carried out and verified. `read_rewarded_groups` reads the training rows
of a group from the ledger, as they were sampled and rewarded.
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

from sciagent.agent.messages_sampling_and_policy_client import PolicyError, Sampled
from sciagent.agent.policies.batched_policies import BatchPolicy
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.errors import UsageError
from sciagent.rewards.publish_versions import publish_groups
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.store.campaign_state import note_and_take_watermarks, proposer_trajectories
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies_and_roles, versioned_rewards
from sciagent.store.learning import rollout_groups as group_rows
from sciagent.store.learning.rollout_groups import GroupRow
from sciagent.store.learning.versioned_rewards import RewardVersionRow
from sciagent.training.dataset_columns import rows_of
from sciagent.training.learner.learner_rows_and_rendered_conversations import TrainingRow
from sciagent.training.learner.row_selection import NEGLIGIBLE, has_decided_turn, sampled_row, valued_row
from sciagent.training.live.driven_task_campaigns import LiveTask, WeightedTask
from sciagent.training.read_turns import RecordedEpisode
from sciagent.training.rollouts.campaign_rollouts import count_step, obstacle_after_pause
from sciagent.training.rollouts.lock_step import CarriedOut, NextTurn, RolloutRunner
from sciagent.training.rollouts.open_and_resume_groups import Group, GroupMark, RolloutPlan
from sciagent.training.settings import LiveSettings


class TaskGroups(NamedTuple):
    """The groups of a task that are rolled out, and what runs them."""

    task: LiveTask
    runner: RolloutRunner
    groups: Sequence[Group]

    @property
    def turns(self) -> int:
        """Largest number of turns that an episode has taken."""
        return max(len(sibling.episode.turns) for group in self.groups for sibling in group.siblings)


_AskedTurns = Sequence[tuple[TaskGroups, NextTurn]]
_DoneTurns = Sequence[tuple[TaskGroups, CarriedOut]]


def divided(running: Sequence[TaskGroups], n: int) -> list[list[TaskGroups]]:
    """Returns the groups in at most n parts of about equal size, in order.

    The parts depend on the groups and their tasks alone.
    """
    groups = [(each, group) for each in running for group in each.groups]
    n_parts = max(min(n, len(groups)), 1)
    parts = []
    for place in range(n_parts):
        begin = place * len(groups) // n_parts
        end = (place + 1) * len(groups) // n_parts
        part = []
        for each in running:
            own_groups = [group for other, group in groups[begin:end] if other is each]
            if own_groups:
                part.append(each._replace(groups=own_groups))
        parts.append(part)
    return parts


def roll_out(
    ledger: Ledger, policy: BatchPolicy, running: Sequence[TaskGroups], go_on: Callable[[], None], parts: int
) -> float:
    """Takes turns until all episodes have ended; returns the seconds for which sampling has waited for verification.

    go_on: called before each turn; raises an error to stop. Turns that are being verified then are still written.
    parts: their number. A turn of a part is written in one transaction: after a kill the ledger has all of it or
    nothing. Turns are written in the same order however long their verification takes, also after a kill.
    """
    rollout = _Rollout(ledger, policy, go_on)
    try:
        rollout.run(sorted(divided(running, parts), key=_turns_of_part))
    finally:
        rollout.close()
    return rollout.wait_seconds


def _turns_of_part(part: Sequence[TaskGroups]) -> int:
    """Returns the largest number of turns that an episode of a part has taken."""
    return max((each.turns for each in part), default=0)


class _Rollout:
    """Lets parts sample their turns, one after the other, while another thread carries out and verifies their calls."""

    def __init__(self, ledger: Ledger, policy: BatchPolicy, go_on: Callable[[], None]) -> None:
        self._ledger = ledger
        self._policy = policy
        self._go_on = go_on
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="verification")
        self._verifying = deque[Future[_DoneTurns]]()
        """Turns that are being carried out, in the order in which they were sampled."""
        self.wait_seconds = 0.0
        """The time for which sampling has waited for verification."""

    def run(self, parts: Sequence[Sequence[TaskGroups]]) -> None:
        """Takes turns until all episodes have ended. parts: in the order in which they are asked."""
        unfinished_parts = deque(parts)
        while unfinished_parts:
            part = unfinished_parts.popleft()
            asked = _next_turns(part)
            if asked:
                self._go_on()
                answers = self._policy.answers([question for _, turn in asked for question in turn.questions])
                self._verifying.append(self._thread.submit(_carried_out, asked, answers))
                unfinished_parts.append(part)
            # every part that is left has a turn in verification; the oldest of them is the next part's
            next_part_waits = len(self._verifying) == len(unfinished_parts)
            if self._verifying and next_part_waits:
                self._write_oldest()

    def _write_oldest(self) -> None:
        """Waits for the turn that was sampled first, and writes it."""
        begun_at = time.monotonic()
        done = self._verifying.popleft().result()
        self.wait_seconds += time.monotonic() - begun_at
        with self._ledger.begin() as connection:
            # locks the campaigns in the order of all other writers, so that no two writers wait for each other
            note_and_take_watermarks.wait_for_earlier_writers(connection, [each.task.built.row.id for each, _ in done])
            for each, carried_out in done:
                each.runner.write(connection, carried_out)
        for each, carried_out in done:
            count_step(each.task.driver, carried_out.result)

    def close(self) -> None:
        """Writes what is still being verified, after an error."""
        while self._verifying:
            with suppress(Exception):  # the first error is the one that is raised
                self._write_oldest()
        self._thread.shutdown()


def _next_turns(part: Sequence[TaskGroups]) -> list[tuple[TaskGroups, NextTurn]]:
    """Returns the next turn of each task of a part that has episodes that go on."""
    asked = []
    for each in part:
        turn = each.runner.next_turn(each.groups)
        if turn is not None:
            asked.append((each, turn))
    return asked


def _carried_out(asked: _AskedTurns, answers: Sequence[Sampled | PolicyError]) -> _DoneTurns:
    """Carries out the answers to all questions of some turns, in the order of the questions."""
    done = []
    begin = 0
    for each, turn in asked:
        end = begin + len(turn.questions)
        done.append((each, each.runner.carry_out(turn, answers[begin:end])))
        begin = end
    return done


@dataclass
class RewardedGroup:
    """A group with its rewards of one version."""

    id: int
    version: int
    """Id of the version of rewards."""
    campaign: str
    """Name of the campaign."""
    rows: list[TrainingRow] = field(default_factory=list)
    """The rows that have something to learn."""
    turns: list[int] = field(default_factory=list)
    """Ids of the turns that the rows train."""
    outcomes: list[float] = field(default_factory=list)
    """The rewards of the decided episodes."""
    terms: list[Mapping[str, float]] = field(default_factory=list)
    """For each decided episode, the named parts of its rewards, summed over its turns."""

    @property
    def has_something_to_learn(self) -> bool:
        """Whether the siblings earned differently, or a value head compares their rewards with its predictions."""
        for row in self.rows:
            is_for_value_head = row.episode is not None
            if is_for_value_head or any(abs(advantage) > NEGLIGIBLE for advantage in row.advantages):
                return True
        return False


def read_rewarded_groups(
    connection: Connection,
    built: Built,
    version: RewardVersionRow,
    group_ids: Sequence[int],
    context: int,
    training: str = "grpo",
) -> list[RewardedGroup]:
    """Returns the groups with their training rows, in the order of their ids.

    context: rows with more tokens are left out. training: `ppo` for rows whose advantages a value head makes.
    """
    spec = built.row.spec
    rewarded_groups = list[RewardedGroup]()
    task = content_hash({"objectives": spec["objectives"], "goal": spec["goal"]})
    for row in group_rows.of_ids(connection, group_ids).values():
        group = RewardedGroup(row.id, version.id, built.row.name)
        siblings = group_rows.siblings(connection, row.id)
        policy_of = policies_and_roles.of_episodes(connection, [sibling.id for sibling in siblings])
        for sibling in siblings:
            policy = policy_of[sibling.id].name if sibling.id in policy_of else None
            # the rows need neither the opening nor the thinking of the prompts
            episode = RecordedEpisode(
                campaign=built.row.name,
                id=sibling.id,
                number=sibling.number,
                group=row.id,
                sibling=sibling.sibling,
                policy=policy,
                purpose=row.purpose,
                task=task,
                opening=(),
                thinking="preserve",
            )
            _add_episode(connection, group, episode, context, training)
        rewarded_groups.append(group)
    return sorted(rewarded_groups, key=lambda group: group.id)


def _add_episode(
    connection: Connection, group: RewardedGroup, episode: RecordedEpisode, context: int, training: str
) -> None:
    """Adds the rows, the outcome and the terms of an episode to its group."""
    turns = proposer_trajectories.turns(connection, episode.id)
    turn_ids = {turn["number"]: turn["id"] for turn in turns}
    for cells in rows_of(connection, episode, turns, group.version, Counter()):
        if len(cells["ids"]) <= context:
            _add_row(group, cells, turn_ids, training)
    reward_rows = versioned_rewards.of_version(connection, group.version, [episode.id])
    terms_of_turns = [reward.terms for reward in reward_rows if reward.turn_id is not None]
    for reward in reward_rows:
        is_outcome = reward.turn_id is None
        if is_outcome and reward.value is not None:
            group.outcomes.append(reward.value)
            group.terms.append(_summed_terms(terms_of_turns))


def _add_row(group: RewardedGroup, cells: Mapping[str, Any], turn_ids: Mapping[int, int], training: str) -> None:
    """Adds a row if it has something to learn. turn_ids: ids of the episode's turns, by number."""
    if training == "ppo":
        has_something_to_learn = has_decided_turn(cells)
        is_trained = cells["trainable"]
        make_row = valued_row
    else:
        has_something_to_learn = any(cells["gradient"])
        is_trained = cells["gradient"]
        make_row = sampled_row
    if has_something_to_learn:
        group.rows.append(make_row(cells))
        trained_turns = {turn for turn, is_used in zip(cells["turns"], is_trained, strict=True) if is_used}
        group.turns += [turn_ids[turn] for turn in sorted(trained_turns)]


def _summed_terms(terms: Sequence[Mapping[str, float | None]]) -> Mapping[str, float]:
    """Returns the sum of each term over an episode's turns. A term that is undecided in a turn counts as 0 there."""
    sums: dict[str, float] = {}
    for terms_of_turn in terms:
        for name, amount in terms_of_turn.items():
            sums[name] = sums.get(name, 0.0) + (amount or 0.0)
    return sums


class Stopped(Exception):
    """No further turn may begin; the text says why."""

    def __init__(self, reason: str, why: str) -> None:
        """reason: name of the reason, as in the answer's `stopped_by`. why: a sentence."""
        super().__init__(reason, why)  # with both arguments, since one process may send the error to another
        self.reason = reason
        self.why = why

    def __str__(self) -> str:
        return self.why


class Wave(NamedTuple):
    """The groups that were rolled out together."""

    groups: list[RewardedGroup]
    """By task; the groups of a task in the order in which they began."""
    sample_seconds: float
    verify_seconds: float
    """The time that inline rungs took, and the time in which paid rungs finished after the last turn."""
    wait_seconds: float
    """The time for which sampling has waited for verification. The rest of verification ran beside sampling."""


class Waves(Protocol):
    """Rolls out the groups of some tasks."""

    @property
    def tasks(self) -> Sequence[WeightedTask]: ...

    def wave(self, step: int, policy: BatchPolicy, places: Mapping[str, Sequence[int]]) -> Wave:
        """Rolls out groups of a step. places: numbers of the groups in the step, by task.

        Raises Stopped if no further turn may begin.
        """


def _place(group: Group) -> int:
    """Returns the number of a group in its step."""
    return int(group.row.task["place"])


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
        stopping: once another thread sets it, a wave ends before its next turn."""
        self.tasks = tasks
        self._settings = settings
        self._ledger = ledger
        self._spec = spec
        self._context = context
        self._run = run
        self._stopping = stopping or Event()
        self._begun_groups = self._read_begun_groups()

    def _read_begun_groups(self) -> Mapping[tuple[str, int, int], GroupRow]:
        """Returns the groups of the run that the ledger has already, by campaign, step and place in the step."""
        begun_groups = {}
        with self._ledger.read() as connection:
            for task in self.tasks:
                for row in group_rows.of_campaign(connection, task.built.row.id):
                    if row.task.get("run") == self._run:
                        begun_groups[task.name, row.task["step"], row.task["place"]] = row
        return begun_groups

    def wave(self, step: int, policy: BatchPolicy, places: Mapping[str, Sequence[int]]) -> Wave:
        """Rolls out groups, as `Waves` says."""
        begun_at = time.monotonic()
        running = list(self._open_groups(step, policy, places))
        wait_seconds = roll_out(self._ledger, policy, running, self._go_on, self._settings.parts)
        self._require_answers(step, running)
        inline_seconds = sum(each.runner.verified_seconds for each in running)
        rolled_out_at = time.monotonic()
        for each in running:
            if each.task.built.bought:  # there are rungs that run as jobs; the others have answered inside the turns
                each.task.driver.settle(self._settings.patience)
        settle_seconds = time.monotonic() - rolled_out_at
        sample_seconds = rolled_out_at - begun_at - wait_seconds
        groups = list[RewardedGroup]()
        for each in running:
            ids = [group.row.id for group in each.groups]
            version = self._reward_version(each.task, ids)
            with self._ledger.read() as connection:
                groups += read_rewarded_groups(
                    connection, each.task.built, version, ids, self._context, self._settings.training
                )
        return Wave(groups, sample_seconds, inline_seconds + settle_seconds, wait_seconds + settle_seconds)

    def _require_answers(self, step: int, running: Sequence[TaskGroups]) -> None:
        """Raises UsageError if every episode of a wave ended before its first answer, since later episodes would too.

        It does not raise where an ended process had begun groups of every task, so that a run can go on after its
        server has failed.
        """
        new_tasks = [each for each in running if not self._has_begun_groups(step, each)]
        has_answers = any(each.turns for each in running)
        if has_answers or not new_tasks:
            return
        with self._ledger.read() as connection:
            siblings = group_rows.siblings(connection, new_tasks[0].groups[0].row.id)
        raise UsageError(f"step {step}: the model gave no answer in any episode; {siblings[0].ended_why}")

    def _has_begun_groups(self, step: int, of_task: TaskGroups) -> bool:
        """Returns whether an ended process had begun a group of the task in this step."""
        return any((of_task.task.name, step, _place(group)) in self._begun_groups for group in of_task.groups)

    def _open_groups(self, step: int, policy: BatchPolicy, places: Mapping[str, Sequence[int]]) -> Iterator[TaskGroups]:
        """Yields the groups by task. Groups that an ended process had begun go on; the others are opened."""
        for task in self.tasks:
            wanted_places = places.get(task.name, ())
            if not wanted_places:
                continue
            runner = RolloutRunner(task.built, task.driver.session.lease, task.worker, policy, task.spec)
            begun_rows = []
            new_marks = []
            for place in wanted_places:
                row = self._begun_groups.get((task.name, step, place))
                if row is None:
                    new_marks.append(self._mark(step, place))
                else:
                    begun_rows.append(row)
            groups = runner.restored(begun_rows) if begun_rows else []
            if new_marks:
                groups += runner.opened(self._plan(policy, new_marks))
            yield TaskGroups(task, runner, sorted(groups, key=_place))

    def _mark(self, step: int, place: int) -> GroupMark:
        """Returns the seed of a group, and the notes by which the run finds the group again."""
        seed = int(content_hash([self._settings.seed, "step", step, place])[:12], 16)
        return GroupMark(seed, {"run": self._run, "step": step, "place": place})

    def _plan(self, policy: BatchPolicy, marks: Sequence[GroupMark]) -> RolloutPlan:
        settings = self._settings
        return RolloutPlan(
            groups=len(marks),
            siblings=settings.siblings,
            turns=settings.turns,
            policy=policy.name,
            begins=settings.begins,
            marks=tuple(marks),
        )

    def _reward_version(self, task: LiveTask, group_ids: Sequence[int]) -> RewardVersionRow:
        """Returns the version of the rewards of groups: one that an ended process has published, else a new one."""
        with self._ledger.read() as connection:
            scope = versioned_rewards.scope_of(group_ids)
            published = versioned_rewards.first_of_scope(connection, task.built.row.id, self._spec.hash, scope)
        return published or publish_groups(task.built, self._spec, group_ids)

    def _go_on(self) -> None:
        """Raises Stopped if no further turn may begin."""
        if self._stopping.is_set():
            raise Stopped("interrupt", why="stopped")
        for task in self.tasks:
            why = obstacle_after_pause(task.driver)
            if why is not None:
                raise Stopped("budget", why=f"{task.name}: {why}")
