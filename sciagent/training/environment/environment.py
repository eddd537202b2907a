"""The live ladder of a campaign as an environment in this process: clients bring the policy, open episodes and take
turns.

`Environment` drives the campaign and takes the requests; `LadderEpisode` is one of its episodes. `RewardReader`
computes the rewards of episodes from the newest evidence, by the rules of published versions of rewards. A watermark
numbers the evidence in the order in which it was committed.
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

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import open_campaign_for_people
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.proposing import briefing_and_workbench
from sciagent.errors import EpisodeError, UsageError
from sciagent.rewards.candidate_worths_and_episode_rewards import reward_rows
from sciagent.rewards.publish_versions import check_scheduler, law_of
from sciagent.rewards.reward_law import RewardLaw
from sciagent.rewards.reward_spec import RewardSpec, load_rewards
from sciagent.rewards.show_and_compare_versions import RewardedEpisode, RewardedTurn, shown_turn
from sciagent.store.campaign_state.proposer_trajectories import Purpose
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import reward_inputs, rollout_groups
from sciagent.store.learning import versioned_rewards as rewards
from sciagent.store.learning.reward_inputs import EpisodeRow
from sciagent.store.results.evidence import read_watermark
from sciagent.training.environment.checked_client_input import EpisodeRequest, shown, stated_answer, stated_call
from sciagent.training.environment.ladder_thread import LadderThread
from sciagent.training.environment.open_episodes import EpisodeDesk, OpenEpisode, SentTurn, task_seed
from sciagent.training.rollouts.campaign_rollouts import obstacle
from sciagent.training.rollouts.open_and_resume_groups import EnvironmentTask, EpisodeReply, OpenedEpisode


class RewardReader:
    """Reads the rewards of a campaign's episodes. Several threads may use it.

    A law values unsettled candidates. It is the law that the description of the rewards states; else the law of the
    last published version under the same description; else one that is fitted once there are enough answers. The
    reader keeps the law that it has found.
    """

    def __init__(self, ledger: Ledger, campaign: str, spec: RewardSpec) -> None:
        """Raises UsageError if the campaign cannot have such rewards."""
        self._built: Built = open_campaign_for_people(ledger, campaign)
        check_scheduler(self._built, spec)
        if spec.watermark is not None:
            raise UsageError("watermark: an environment rewards by the evidence of now; leave it out")
        self._spec = spec
        self._lock = threading.Lock()
        self._law: RewardLaw | None = None
        self._law_sought_at: int | None = None
        """Watermark at which a law was sought the last time; at the same watermark none is sought again."""

    def watermark(self) -> int:
        """Returns the watermark of the newest evidence."""
        with self._built.ledger.read() as connection:
            return read_watermark(connection)

    def of_episode(self, number: int, alone: bool = False) -> RewardedEpisode:
        """Returns the rewards of an episode. It has advantages once its group is complete.

        alone: leaves the advantages out, so that the siblings' rewards need not be computed. Raises EpisodeError for
        an unknown episode.
        """
        built = self._built
        with built.ledger.read() as connection:
            # only turns before a watermark count; so the newest turns count, too
            as_of = read_watermark(connection) + 1
            episode = reward_inputs.by_number(connection, built.row.id, number)
            if episode is None or episode.group_id is None:
                raise EpisodeError(404, f"{built.row.name} has no episode {number} of a group")
            group = rollout_groups.by_id(connection, episode.group_id)
            alone = alone or group.size == 1 or group.state != "complete"
            ids = [episode.id]
            if not alone:
                ids = [sibling.id for sibling in rollout_groups.siblings(connection, group.id)]
            law = self._law_of(connection, as_of)
            rows = reward_rows(built, connection, self._spec, law, as_of, ids)
            turns = reward_inputs.turns_of(connection, [episode.id], as_of)[episode.id]
        turn_numbers = {turn.id: turn.number for turn in turns}
        rows_of_episode = [row for row in rows if row.trajectory_id == episode.id]
        rewarded_turns = [
            shown_turn(row, turn_numbers[row.turn_id], self._spec.prices)
            for row in rows_of_episode
            if row.turn_id is not None
        ]
        outcome = rows_of_episode[0].value  # the first row is of the whole episode
        return _rewarded(episode, group.number, outcome, rewarded_turns, alone)

    def _law_of(self, connection: Connection, as_of: int) -> RewardLaw | None:
        """Returns the law that values unsettled candidates; None if there is none. as_of: the watermark at which
        it values them."""
        spec = self._spec
        if spec.unsettled == "settled":
            return None
        with self._lock:
            if self._law is None and self._law_sought_at != as_of:
                self._law_sought_at = as_of
                previous = rewards.last(connection, self._built.row.id, spec.hash)
                _row_id, self._law = law_of(self._built, connection, spec, as_of, previous)
            return self._law


def _rewarded(
    row: EpisodeRow, group: int, outcome: float | None, turns: list[RewardedTurn], alone: bool
) -> RewardedEpisode:
    """Returns an episode with its rewards. group: its number. alone: leave the advantages out."""
    if alone:
        turns = [turn.model_copy(update={"advantage": None}) for turn in turns]
    return RewardedEpisode(
        episode=row.number, group=group, sibling=row.sibling, policy=row.policy, outcome=outcome, turns=tuple(turns)
    )


T = TypeVar("T")
MAX_WAIT = 3600.0  # longest time, in seconds, that a client may wait for rewards
MAX_TASKS = 10_000  # most tasks that one request may list
MAX_TURNS = 1000  # largest limit of turns of an episode
MAX_OPEN = 10_000  # largest limit of open episodes
MAX_IDLE_SECONDS = 1e6  # largest limit of the time for which a client may be silent
LOOK_SECONDS = 1.0  # longest time between two looks for new evidence


class EnvironmentLimits(TypedDict, total=False):
    """The limits of an environment."""

    turns: int
    """Largest number of turns of an episode, by default 6."""
    most: int
    """Largest number of episodes that may be open, by default 256."""
    idle_seconds: float
    """An episode whose client is silent for longer is ended; by default 600 seconds."""
    workers: int | None
    """Number of paid jobs that run at once; None: as in the campaign."""


class Environment:
    """The live ladder of a campaign, used as a context manager. Its methods may be called from any thread.

    Entering starts to drive the campaign: its seeds are proposed first, and the candidates that clients propose are
    verified while the clients go on. Turns that clients send while a step of the campaign runs are written together in
    the next step. Leaving ends all episodes.
    """

    def __init__(self, built: Built, rewards: str | Path | RewardSpec, **limits: Unpack[EnvironmentLimits]) -> None:
        """rewards: the description of the rewards, or its file. Raises UsageError."""
        turns = limits.get("turns", 6)
        most = limits.get("most", 256)
        idle_seconds = limits.get("idle_seconds", 600.0)
        for name, number, limit in (
            ("turns", turns, MAX_TURNS),
            ("most", most, MAX_OPEN),
            ("idle_seconds", idle_seconds, MAX_IDLE_SECONDS),
        ):
            if not 0 < number <= limit:
                raise UsageError(f"{name}: {number} is not above 0 and up to {limit:g}")
        self.built = built
        self.most = most
        self._turns = turns
        spec = rewards if isinstance(rewards, RewardSpec) else load_rewards(Path(rewards))
        self._rewards = RewardReader(built.ledger, built.row.name, spec)
        self._desk = EpisodeDesk(turns, most, idle_seconds)
        self._work_queue: deque[tuple[Callable[[Driver], Any], Future[Any]]] = deque()
        """Functions that the thread of the campaign is to call, each with the place of its result."""
        self._turn_queue: deque[SentTurn] = deque()
        self._why_closed: str | None = None
        """Why the environment takes no more requests; None while it does."""
        self._has_broken_old_groups = False
        """Whether the groups that a killed environment left open were marked as broken."""
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
    def why_closed(self) -> str | None:
        """Why the environment takes no more requests; None while it does."""
        return self._why_closed

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
        """Ends all episodes; running paid jobs may finish. now: running jobs are ended too, and run again later."""
        self._ladder.stop(now)

    def close(self, now: bool = False) -> None:
        """Stops, and waits for the end. now: as in `stop`."""
        self.stop(now)
        self._ladder.join()

    def tasks(self, n: int = 1) -> list[EnvironmentTask]:
        """Returns the first n tasks: all have the campaign's goal, each has a seed of its own."""
        if type(n) is not int or not 1 <= n <= MAX_TASKS:
            raise EpisodeError(400, f"n: {shown(n)} is no whole number from 1 to {MAX_TASKS}")
        goal = briefing_and_workbench.goal(self.built)
        seed = self.built.spec.seed
        tasks = []
        for number in range(n):
            own_seed = task_seed(seed, number)
            task = EnvironmentTask(task=number, campaign=self.campaign, goal=goal, seed=own_seed, turns=self._turns)
            tasks.append(task)
        return tasks

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

        task, seed: one of them decides the random choices of the tools; without both, the number of the group decides
        them. group: the client's name of a group. The episodes that are opened under one name begin alike, see one
        snapshot, and are compared with each other; after `siblings` episodes, the name begins a new group. policy: name
        and version of the client's policy, for the ledger. Raises EpisodeError.
        """
        request = EpisodeRequest(task=task, seed=seed, group=group, siblings=siblings, policy=policy, purpose=purpose)
        episode = self._do(lambda driver: self._desk.open(driver, request))
        return LadderEpisode(self, episode.opened)

    def episode(self, number: int) -> LadderEpisode:
        """Returns an episode that was opened here. Raises EpisodeError."""
        return LadderEpisode(self, self._known(number).opened)

    def turn(
        self, number: int, message: Mapping[str, Any], usage: Mapping[str, int] | None = None, turn: int | None = None
    ) -> EpisodeReply:
        """Carries out the tool calls of an answer, and writes the turn.

        message: an assistant's message, in OpenAI's format. usage: its `prompt_tokens` and `completion_tokens`, which
        are charged. turn: number of the turn, by which a repeated request is known and is not carried out again.
        Raises EpisodeError.
        """
        episode = self._known(number)
        if turn is not None and type(turn) is not int:
            raise EpisodeError(400, f"turn: {shown(turn)} is no whole number")
        sent = SentTurn(episode, stated_answer(message, usage, episode.policy), turn, Future())
        episode.used_at = time.monotonic()
        self._turn_queue.append(sent)
        return self._with_reward(self._wait_for(sent.reply))

    def call(self, number: int, name: str, arguments: Mapping[str, Any], turn: int | None = None) -> EpisodeReply:
        """Takes a turn that is one tool call. turn: as in `turn`. Raises EpisodeError."""
        return self.turn(number, stated_call(name, arguments), turn=turn)

    def end(self, number: int, wait: float = 0.0) -> RewardedEpisode:
        """Ends an episode, if it has not ended yet, and returns its rewards. wait: as in `rewards`."""
        self.leave(number)
        return self.rewards(number, wait)

    def leave(self, number: int) -> None:
        """Ends an episode, if it has not ended yet."""
        episode = self._desk.episodes.get(number)
        if episode is not None:
            self._do(lambda driver: self._desk.end(episode, "ended by the client"))

    def rewards(self, number: int, wait: float = 0.0) -> RewardedEpisode:
        """Returns the rewards of an episode by the evidence so far; None where they are undecided.

        wait: longest time, in seconds, to wait until they are decided. The wait ends early if the campaign has nothing
        more to run.
        """
        if not isinstance(wait, int | float) or not 0 <= wait <= MAX_WAIT:
            raise EpisodeError(400, f"wait: {shown(wait)} is not from 0 to {MAX_WAIT:g} seconds")
        deadline = time.monotonic() + wait
        while True:
            seen_watermark = self._rewards.watermark()
            episode = self._rewards.of_episode(number)
            if episode.outcome is not None or not self._wait_for_evidence(seen_watermark, deadline):
                return episode

    def _wait_for_evidence(self, seen_watermark: int, deadline: float) -> bool:
        """Waits for evidence after a watermark; returns False once the time is over or the campaign runs nothing more.

        deadline: in seconds of the monotonic clock.
        """
        ladder = self._ladder
        while ladder.is_alive and not ladder.is_resting:
            remaining_seconds = deadline - time.monotonic()
            if remaining_seconds <= 0:
                return False
            with ladder.changed:
                ladder.changed.wait(min(remaining_seconds, LOOK_SECONDS))
            if self._rewards.watermark() > seen_watermark:
                return True
        return False

    def _with_reward(self, reply: EpisodeReply) -> EpisodeReply:
        """Returns the reply with the reward of its turn."""
        turns = self._rewards.of_episode(reply.episode, alone=True).turns
        return reply.model_copy(update={"reward": turns[reply.turn].reward})

    def _known(self, number: int) -> OpenEpisode:
        """Returns an episode that is open, or has ended not long ago. Raises EpisodeError for another number."""
        episode = self._desk.episodes.get(number) or self._desk.ended.get(number)
        if episode is None:
            raise EpisodeError(404, f"no episode with the number {shown(number)} is open here")
        return episode

    def _do(self, work: Callable[[Driver], T]) -> T:
        """Lets the thread that drives the campaign call a function; returns the function's result."""
        result: Future[T] = Future()
        self._work_queue.append((work, result))
        return self._wait_for(result)

    def _wait_for(self, reply: Future[T]) -> T:
        """Wakes the thread, and waits for the reply to an item of a queue. Raises EpisodeError if the environment has
        closed."""
        self._ladder.wake()
        # the thread may have closed before the item was queued; then nobody else would answer it
        if self._why_closed is not None:
            self._refuse_all(503, self._why_closed)
        return reply.result()

    def _refuse_all(self, status: int, why: str) -> None:
        """Refuses all requests that wait."""
        for queue in (self._work_queue, self._turn_queue):
            while queue:
                with suppress(IndexError):  # another thread has taken the last item
                    *_, reply = queue.popleft()  # the last field of an item of either queue
                    reply.set_exception(EpisodeError(status, why))

    def _serve(self, driver: Driver) -> bool:
        """Opens and ends episodes as clients asked, and writes the turns that they sent; returns whether there were
        any turns."""
        if not self._has_broken_old_groups:
            self._has_broken_old_groups = True
            self._desk.break_old_groups(driver)
        while self._work_queue:
            work, result = self._work_queue.popleft()
            try:
                result.set_result(work(driver))
            except Exception as error:  # noqa: BLE001 - it is raised again in the thread of the client
                result.set_exception(error)
        self._desk.end_idle()
        if not self._turn_queue or driver.mailbox.paused:
            return False
        # turns that arrive from now on wait for the next step
        sent = [self._turn_queue.popleft() for _ in range(len(self._turn_queue))]
        try:
            why = obstacle(driver)
            if why is not None:
                raise EpisodeError(409, f"no further turn may begin: {why}")
            self._desk.write_turns(driver, sent)
        except BaseException as error:
            # every client that waits for a reply has to hear of the error, whatever it is
            for turn in sent:
                if not turn.reply.done():
                    turn.reply.set_exception(error)
            if not isinstance(error, EpisodeError):
                raise
        return True

    def _leave(self, why: str, can_write: bool) -> None:
        """Ends all episodes, and refuses all later requests. can_write: whether the driver can still write."""
        self._why_closed = why
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
        """Carries out the tool calls of an assistant's message in OpenAI's format, and writes the turn.

        usage: the message's `prompt_tokens` and `completion_tokens`, which are charged. Raises EpisodeError.
        """
        return self._environment.turn(self.number, message, usage)

    def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> EpisodeReply:
        """Takes a turn that is one tool call. Raises EpisodeError."""
        return self._environment.call(self.number, name, arguments or {})

    def end(self, wait: float = 0.0) -> RewardedEpisode:
        """Ends the episode, if it has not ended yet, and returns its rewards; None where they are undecided.

        wait: longest time, in seconds, to wait until they are decided.
        """
        return self._environment.end(self.number, wait)
