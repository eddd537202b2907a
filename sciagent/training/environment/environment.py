"""The live ladder as an environment in this process: clients bring the policy, and open episodes and take turns.

Reads the rewards of episodes by the evidence of now, by the same rules as published versions.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypedDict, TypeVar, Unpack

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.core.opening import open_for_people
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.proposing import briefing
from sciagent.errors import EpisodeError, UsageError
from sciagent.rewards.episode_rewards import reward_rows
from sciagent.rewards.expectations import RewardLaw
from sciagent.rewards.publishing import RewardedEpisode, RewardedTurn, check_scheduler, law_of, shown_turn
from sciagent.rewards.spec import RewardSpec, load_rewards
from sciagent.store.campaign_state.trajectories import Purpose
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import episodes, groups, rewards
from sciagent.store.learning.episodes import EpisodeRow
from sciagent.store.results.evidence import read_watermark
from sciagent.training.environment.desk import EpisodeDesk, LadderThread, OpenEpisode, SentTurn, task_seed
from sciagent.training.environment.statements import EpisodeRequest, shown, stated_answer, stated_call
from sciagent.training.rollouts.drive import obstacle
from sciagent.training.rollouts.groups import EnvironmentTask, EpisodeReply, OpenedEpisode


class RewardReader:
    """Reads rewards; may be used by several threads.

    The law that values unsettled candidates is the stated one, else that of the last published version under the same
    description, else one that is fitted once there are enough answers, and then kept.
    """

    def __init__(self, ledger: Ledger, campaign: str, spec: RewardSpec) -> None:
        """Raises UsageError if the campaign cannot have such rewards."""
        self._built: Built = open_for_people(ledger, campaign)
        check_scheduler(self._built, spec)
        if spec.watermark is not None:
            raise UsageError("watermark: an environment rewards by the evidence of now; leave it out")
        self._spec = spec
        self._lock = threading.Lock()
        self._law: RewardLaw | None = None
        self._tried = -1

    def watermark(self) -> int:
        """Returns the watermark of the newest evidence."""
        with self._built.ledger.read() as connection:
            return read_watermark(connection)

    def of_episode(self, number: int, alone: bool = False) -> RewardedEpisode:
        """Returns the rewards of an episode. It has advantages once its group is complete.

        alone: without advantages, which needs the siblings' rewards. Raises EpisodeError for an unknown episode.
        """
        built = self._built
        with built.ledger.read() as connection:
            as_of = read_watermark(connection) + 1
            found = episodes.by_number(connection, built.row.id, number)
            if found is None or found.group_id is None:
                raise EpisodeError(404, f"{built.row.name} has no episode {number} of a group")
            group = groups.by_id(connection, found.group_id)
            alone = alone or group.size == 1 or group.state != "complete"
            ids = [found.id] if alone else [each.id for each in groups.siblings(connection, group.id)]
            law = self._law_of(connection, as_of)
            rows = reward_rows(built, connection, self._spec, law, as_of, ids)
            turns = {turn.id: turn.number for turn in episodes.turns_of(connection, [found.id], as_of)[found.id]}
        mine = [row for row in rows if row.trajectory_id == found.id]
        shown = [shown_turn(row, turns[row.turn_id], self._spec.prices) for row in mine if row.turn_id is not None]
        return _rewarded(found, group.number, mine[0].value, shown, alone)

    def _law_of(self, connection: Connection, as_of: int) -> RewardLaw | None:
        spec = self._spec
        if spec.unsettled == "settled":
            return None
        with self._lock:
            if self._law is None and self._tried != as_of:
                self._tried = as_of
                previous = rewards.last(connection, self._built.row.id, spec.hash)
                self._law = law_of(self._built, connection, spec, as_of, previous)[1]
            return self._law


def _rewarded(
    row: EpisodeRow, group: int, outcome: float | None, turns: list[RewardedTurn], alone: bool
) -> RewardedEpisode:
    if alone:
        turns = [turn.model_copy(update={"advantage": None}) for turn in turns]
    return RewardedEpisode(
        episode=row.number, group=group, sibling=row.sibling, policy=row.policy, outcome=outcome, turns=tuple(turns)
    )


T = TypeVar("T")
MAX_WAIT = 3600.0  # longest time, in seconds, that a client may wait for rewards
MAX_TASKS = 10_000


class EnvironmentLimits(TypedDict, total=False):
    """The limits of an environment."""

    turns: int
    """Largest number of turns of an episode, by default 6."""
    most: int
    """Largest number of episodes that may be open, by default 256."""
    idle_seconds: float
    """An episode whose client is silent for longer is ended; by default 600 seconds."""
    workers: int | None
    """Paid jobs at once; None: as in the campaign."""


class Environment:
    """The live ladder of a campaign, used as a context manager. Its methods may be called from any thread.

    Entering drives the campaign: its seeds are proposed first, and what clients propose is verified while they go on.
    The turns of all clients that have come meanwhile are written in one step. Leaving ends all episodes.
    """

    def __init__(self, built: Built, rewards: str | Path | RewardSpec, **limits: Unpack[EnvironmentLimits]) -> None:
        """rewards: the description of the rewards, or its file. Raises UsageError."""
        turns = limits.get("turns", 6)
        most = limits.get("most", 256)
        idle_seconds = limits.get("idle_seconds", 600.0)
        for name, number, limit in (
            ("turns", turns, 1000),
            ("most", most, 10_000),
            ("idle_seconds", idle_seconds, 1e6),
        ):
            if not 0 < number <= limit:
                raise UsageError(f"{name}: {number} is not above 0 and up to {limit:g}")
        self.built = built
        self.most = most
        self._turns = turns
        spec = rewards if isinstance(rewards, RewardSpec) else load_rewards(Path(rewards))
        self._rewards = RewardReader(built.ledger, built.row.name, spec)
        self._desk = EpisodeDesk(turns, most, idle_seconds)
        self._asked: deque[tuple[Callable[[Driver], Any], Future[Any]]] = deque()
        self._sent: deque[SentTurn] = deque()
        self._left: str | None = None
        self._is_begun = False
        self._ladder = LadderThread(built, limits.get("workers"), self._serve, self._leave)

    @property
    def campaign(self) -> str:
        """Name of the campaign."""
        return self.built.row.name

    @property
    def n_open(self) -> int:
        """Number of episodes that are open."""
        return len(self._desk.episodes)

    @property
    def left(self) -> str | None:
        """Why the environment takes no more requests; None while it does."""
        return self._left

    def __enter__(self) -> Environment:
        self._ladder.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if self._ladder.error is not None and error is None:
            raise self._ladder.error

    def stop(self, now: bool = False) -> None:
        """Ends all episodes; paid jobs that run may finish. now: they are ended, and run again later."""
        self._ladder.stop(now)

    def close(self, now: bool = False) -> None:
        """Stops, and waits for the end."""
        self.stop(now)
        self._ladder.join()

    def tasks(self, n: int = 1) -> list[EnvironmentTask]:
        """Returns the first n tasks: all have the campaign's goal, each has a seed of its own."""
        if type(n) is not int or not 1 <= n <= MAX_TASKS:
            raise EpisodeError(400, f"n: {shown(n)} is no whole number from 1 to {MAX_TASKS}")
        goal = briefing.goal(self.built)
        seed = self.built.spec.seed
        return [
            EnvironmentTask(task=i, campaign=self.campaign, goal=goal, seed=task_seed(seed, i), turns=self._turns)
            for i in range(n)
        ]

    def tools(self, policy: str = "client") -> Sequence[Mapping[str, Any]]:
        """Returns the schemas of the tools in OpenAI's format. policy: as in `open`."""
        return self._do(lambda driver: self._desk.tools(driver, policy))

    def open(
        self,
        task: int | None = None,
        *,
        seed: int | None = None,
        group: str | None = None,
        siblings: int = 1,
        policy: str = "client",
        purpose: Purpose = "rollout",
    ) -> LadderEpisode:
        """Opens an episode.

        task, seed: of the random choices of the tools; default: by the number of the group. group: the episodes that
        are opened under one name begin alike, see one snapshot, and are compared with each other; after `siblings` of
        them the name begins a new group. policy: name and version of what answers, as the ledger is to keep it.
        Raises EpisodeError.
        """
        request = EpisodeRequest(task, seed, group, siblings, policy, purpose)
        return LadderEpisode(self, self._do(lambda driver: self._desk.open(driver, request)).opened)

    def episode(self, number: int) -> LadderEpisode:
        """Returns an episode that was opened here. Raises EpisodeError."""
        return LadderEpisode(self, self._known(number).opened)

    def turn(
        self, number: int, message: Mapping[str, Any], usage: Mapping[str, int] | None = None, turn: int | None = None
    ) -> EpisodeReply:
        """Carries out the tool calls of an answer, and writes the turn.

        message: of an assistant, in OpenAI's format. usage: its `prompt_tokens` and `completion_tokens`, which are
        charged. turn: number of the turn, so that a request that is sent again is not carried out again.
        Raises EpisodeError.
        """
        episode = self._known(number)
        if turn is not None and type(turn) is not int:
            raise EpisodeError(400, f"turn: {shown(turn)} is no whole number")
        sent = SentTurn(episode, stated_answer(message, usage, episode.policy), turn, Future())
        episode.used = time.monotonic()
        self._sent.append(sent)
        return self._with_reward(self._wait_for(sent.reply))

    def call(self, number: int, name: str, arguments: Mapping[str, Any], turn: int | None = None) -> EpisodeReply:
        """Takes a turn that is one tool call; as `turn`."""
        return self.turn(number, stated_call(name, arguments), turn=turn)

    def end(self, number: int, wait: float = 0.0) -> RewardedEpisode:
        """Ends an episode, if it has not ended yet, and returns its rewards. wait: as in `rewards`."""
        self.leave(number)
        return self.rewards(number, wait)

    def leave(self, number: int) -> None:
        """Ends an episode, if it has not ended yet."""
        if (episode := self._desk.episodes.get(number)) is not None:
            self._do(lambda driver: self._desk.end(episode, "ended by the client"))

    def rewards(self, number: int, wait: float = 0.0) -> RewardedEpisode:
        """Returns the rewards of an episode by the evidence so far; None where they are undecided.

        wait: longest time, in seconds, to wait until they are decided. Ends early if the campaign runs nothing more.
        """
        if not isinstance(wait, int | float) or not 0 <= wait <= MAX_WAIT:
            raise EpisodeError(400, f"wait: {shown(wait)} is not from 0 to {MAX_WAIT:g} seconds")
        until = time.monotonic() + wait
        while True:
            seen = self._rewards.watermark()
            found = self._rewards.of_episode(number)
            if found.outcome is not None or not self._waits(seen, until):
                return found

    def _waits(self, seen: int, until: float) -> bool:
        """Waits for evidence after the watermark `seen`; returns False if the time is over or nothing comes."""
        ladder = self._ladder
        while (left := until - time.monotonic()) > 0 and ladder.is_alive and not ladder.is_resting:
            with ladder.changed:
                ladder.changed.wait(min(left, 1.0))
            if self._rewards.watermark() > seen:
                return True
        return False

    def _with_reward(self, reply: EpisodeReply) -> EpisodeReply:
        turns = self._rewards.of_episode(reply.episode, alone=True).turns
        return reply.model_copy(update={"reward": turns[reply.turn].reward})

    def _known(self, number: int) -> OpenEpisode:
        episode = self._desk.episodes.get(number) or self._desk.ended.get(number)
        if episode is None:
            raise EpisodeError(404, f"no episode with the number {shown(number)} is open here")
        return episode

    def _do(self, work: Callable[[Driver], T]) -> T:
        """Returns the result of work in the thread that drives the campaign."""
        done: Future[T] = Future()
        self._asked.append((work, done))
        return self._wait_for(done)

    def _wait_for(self, reply: Future[T]) -> T:
        """Returns the reply to what was put into a queue. Raises EpisodeError if the environment has closed."""
        self._ladder.ring()
        if self._left is not None:
            self._refuse_all(503, self._left)
        return reply.result()

    def _refuse_all(self, status: int, why: str) -> None:
        """Refuses all requests that wait."""
        for queue in (self._asked, self._sent):
            while queue:
                with suppress(IndexError):  # another thread was faster
                    queue.popleft()[-1].set_exception(EpisodeError(status, why))

    def _serve(self, driver: Driver) -> bool:
        """Opens and ends episodes, and writes the turns that have come; returns whether there were any."""
        if not self._is_begun:
            self._is_begun = True
            self._desk.clear_up(driver)
        while self._asked:
            work, done = self._asked.popleft()
            try:
                done.set_result(work(driver))
            except Exception as error:  # noqa: BLE001 - it is raised again in the thread of the client
                done.set_exception(error)
        self._desk.end_idle()
        if not self._sent or driver.mailbox.paused:
            return False
        sent = [self._sent.popleft() for _ in range(len(self._sent))]
        try:
            if (why := obstacle(driver)) is not None:
                raise EpisodeError(409, f"no further turn may begin: {why}")
            self._desk.take(driver, sent)
        except BaseException as error:
            for turn in sent:
                if not turn.reply.done():
                    turn.reply.set_exception(error)
            if not isinstance(error, EpisodeError):
                raise
        return True

    def _leave(self, why: str, can_write: bool) -> None:
        """Ends all episodes, and refuses what comes later."""
        self._left = why
        if can_write:
            self._desk.end_all(why)
        self._refuse_all(503, f"the environment takes no more requests: {why}")


class LadderEpisode:
    """An episode of an environment."""

    def __init__(self, environment: Environment, opened: OpenedEpisode) -> None:
        self._environment = environment
        self.opened = opened

    @property
    def number(self) -> int:
        """Number of the episode in its campaign."""
        return self.opened.episode

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """The messages with which the conversation begins, in OpenAI's format."""
        return self.opened.messages

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """Schemas of the tools in OpenAI's format."""
        return self.opened.tools

    def turn(self, message: Mapping[str, Any], usage: Mapping[str, int] | None = None) -> EpisodeReply:
        """Carries out the tool calls of an assistant's message in OpenAI's format, and writes the turn. usage: its
        `prompt_tokens` and `completion_tokens`, which are charged. Raises EpisodeError."""
        return self._environment.turn(self.number, message, usage)

    def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> EpisodeReply:
        """Takes a turn that is one tool call. Raises EpisodeError."""
        return self._environment.call(self.number, name, arguments or {})

    def end(self, wait: float = 0.0) -> RewardedEpisode:
        """Ends the episode, if it has not ended yet, and returns its rewards: None where they are undecided. wait:
        longest time, in seconds, to wait until they are decided."""
        return self._environment.end(self.number, wait)
