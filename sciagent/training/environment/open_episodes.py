"""The open episodes of an environment, and the thread that drives its campaign while clients propose.

`LadderThread` serves the clients' requests and runs the ladder between them. `EpisodeDesk` opens episodes, writes their
turns and ends them; its methods run in the ladder's thread. `SeedsThenClients` is the source of the campaign's
proposals. Episodes of a group, called siblings, begin alike and are compared with each other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sciagent.agent.messages import Sampled, to_openai
from sciagent.campaign.core.built_campaign import Built
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.proposing.source_contract_and_scripts import Source, TurnResult
from sciagent.domain.cost import Cost
from sciagent.domain.evidence import content_hash
from sciagent.domain.states_and_needs import CampaignState
from sciagent.errors import EpisodeError
from sciagent.store.campaign_state import proposer_trajectories
from sciagent.store.campaign_state.campaigns import DriverLease
from sciagent.store.campaign_state.proposer_trajectories import Asked
from sciagent.store.learning import rollout_groups as group_rows
from sciagent.training.environment.checked_client_input import ClientPolicy, EpisodeRequest
from sciagent.training.rollouts.campaign_rollouts import count_step, model_spec, obstacle, seed_source
from sciagent.training.rollouts.lock_step import RolloutRunner
from sciagent.training.rollouts.sibling_groups import (
    EpisodeReply,
    Group,
    OpenedEpisode,
    RolloutPlan,
    Sibling,
    break_group,
)
from sciagent.verification.sandbox.host import Worker

MAX_RUNNERS = 8  # policies whose tools are kept ready
SEED_DIGITS = 12  # hexadecimal digits of a task's seed; JSON keeps such whole numbers exactly
MAX_ENDED = 1000  # ended episodes that are remembered, to answer repeated requests


@dataclass
class OpenEpisode:
    """An episode that a client may take turns in."""

    group: Group
    sibling: Sibling
    runner: RolloutRunner
    opened: OpenedEpisode
    """The answer that the client got when it opened the episode."""
    policy: str
    """Name and version of the client's policy."""
    asked: Asked
    """The moment of the environment's last message to the episode."""
    used_at: float = field(default_factory=time.monotonic)
    """Time of the client's last request, in seconds of the monotonic clock."""
    last_turn: tuple[Sampled, EpisodeReply] | None = None
    """The client's last answer, and the reply to it; None before the first answer."""

    @property
    def number(self) -> int:
        return self.sibling.episode.number


class SentTurn(NamedTuple):
    """A turn that a client has sent and that is not written yet."""

    episode: OpenEpisode
    answer: Sampled
    number: int | None
    """Number of the turn, as the client states it; None: it states none."""
    reply: Future[EpisodeReply]
    """The reply to the turn, which is set once the turn is written."""


class EpisodeDesk:
    """Opens episodes for clients, writes their turns, and ends those that clients leave."""

    def __init__(self, turns: int, most: int, idle_seconds: float) -> None:
        """turns: largest number of turns of an episode. most: largest number of open episodes. idle_seconds: an episode
        whose client is silent for longer is ended."""
        self._turns = turns
        self._most = most
        self._idle_seconds = idle_seconds
        self.episodes: dict[int, OpenEpisode] = {}
        """The episodes that go on, by number. The episodes of a group are opened together."""
        self.ended: dict[int, OpenEpisode] = {}
        """The latest episodes that have ended, by number, the oldest first."""
        self._untaken: dict[str, tuple[EpisodeRequest, list[OpenEpisode]]] = {}
        """By the client's name of a group: its first request, and its episodes that no client has taken yet."""
        self._runners: dict[str, RolloutRunner] = {}
        """Runners by the name of their policy, the latest used last."""

    def break_old_groups(self, driver: Driver) -> None:
        """Marks the groups that a killed environment has left open as broken."""
        with driver.session.begin() as connection:
            for row in group_rows.of_campaign(connection, driver.built.row.id, "open"):
                if "client" in row.task:  # the group belongs to an environment, not to other rollouts
                    break_group(connection, row, "its environment was stopped")

    def open(self, driver: Driver, request: EpisodeRequest) -> OpenEpisode:
        """Opens an episode, or the next one of a group that was opened before. Raises EpisodeError."""
        why = obstacle(driver)
        if why is not None:
            raise EpisodeError(409, f"no further episode begins: {why}")
        name = request.group
        if name is not None and name in self._untaken:
            first_request, untaken = self._untaken[name]
            if request != first_request:
                differences = _differences(first_request, request)
                raise EpisodeError(409, f'group "{name}" was opened with {differences}; take another name')
        else:
            untaken = self._open_group(driver, request)
        episode = untaken.pop(0)
        if name is not None and untaken:
            self._untaken[name] = request, untaken
        elif name is not None:
            self._untaken.pop(name, None)
        episode.used_at = time.monotonic()
        return episode

    def tools(self, driver: Driver, policy: str) -> Sequence[Mapping[str, Any]]:
        """Returns the schemas of the tools in OpenAI's format."""
        return self._runner(driver, policy).schemas

    def _open_group(self, driver: Driver, request: EpisodeRequest) -> list[OpenEpisode]:
        """Opens a group; returns its episodes."""
        if len(self.episodes) + request.siblings > self._most:
            message = f"{len(self.episodes)} episodes are open, and at most {self._most} may be; end some first"
            raise EpisodeError(429, message)
        runner = self._runner(driver, request.policy)
        seed = request.seed
        if request.task is not None:
            seed = task_seed(driver.built.spec.seed, request.task)
        plan = RolloutPlan(
            groups=1,
            siblings=request.siblings,
            turns=self._turns,
            policy=request.policy,
            purpose=request.purpose,
            seed=seed,
            client=request.group or "",
        )
        [group] = runner.opened(plan)
        with driver.built.ledger.read() as connection:
            asked = proposer_trajectories.asked_now(connection)
        episodes = []
        for sibling in group.siblings:
            opened = self._opened(group, sibling, runner)
            episodes.append(OpenEpisode(group, sibling, runner, opened, request.policy, asked))
        self.episodes |= {episode.number: episode for episode in episodes}
        return episodes

    def _runner(self, driver: Driver, policy: str) -> RolloutRunner:
        """Returns the runner of a policy, and makes it if there is none yet."""
        runner = self._runners.pop(policy, None)
        if runner is None:
            changes = {"model": policy, "endpoint": None, "structured": False}
            spec = model_spec(driver.built).model_copy(update=changes)
            runner = RolloutRunner(driver.built, driver.session.lease, driver.worker, ClientPolicy(policy), spec)
        self._runners[policy] = runner  # the latest used one is last
        while len(self._runners) > MAX_RUNNERS:
            _remove_first(self._runners)
        return runner

    def _opened(self, group: Group, sibling: Sibling, runner: RolloutRunner) -> OpenedEpisode:
        """Returns the answer to the client that opens an episode."""
        return OpenedEpisode(
            episode=sibling.episode.number,
            group=group.row.number,
            sibling=sibling.number,
            siblings=group.row.size,
            turns=self._turns,
            messages=tuple(map(to_openai, sibling.episode.opening)),
            tools=tuple(runner.schemas),
        )

    def write_turns(self, driver: Driver, sent: Sequence[SentTurn]) -> None:
        """Writes turns, and sets their replies. The turns of one policy are written in one step.

        A second turn of the same episode is refused.
        """
        turns_by_runner: dict[int, dict[int, SentTurn]] = {}
        for turn in sent:
            turns = turns_by_runner.setdefault(id(turn.episode.runner), {})
            if turn.episode.number in turns:
                turn.reply.set_exception(EpisodeError(409, f"a turn of episode {turn.episode.number} is under way"))
            elif not _answer_without_writing(turn):
                turns[turn.episode.number] = turn
        for turns in turns_by_runner.values():
            if turns:
                self._write_step(driver, list(turns.values()))

    def _write_step(self, driver: Driver, turns: Sequence[SentTurn]) -> None:
        """Writes the turns of one policy, and sets their replies."""
        groups_by_identity = {id(turn.episode.group): turn.episode.group for turn in turns}  # each group once
        groups = list(groups_by_identity.values())
        answers = {turn.episode.sibling.id: (turn.answer, turn.episode.asked) for turn in turns}
        step_result = turns[0].episode.runner.take(groups, answers)
        count_step(driver, step_result)
        with driver.built.ledger.read() as connection:
            asked = proposer_trajectories.asked_now(connection)
        for turn in turns:
            episode = turn.episode
            reply = _reply(episode)
            episode.asked = asked
            episode.used_at = time.monotonic()
            episode.last_turn = (turn.answer, reply)
            if reply.done:
                self._close(episode)
            turn.reply.set_result(reply)

    def end(self, episode: OpenEpisode, why: str, is_abandoned: bool = False) -> None:
        """Ends an episode. An episode that has ended already stays as it is. is_abandoned: its client left it."""
        if episode.sibling.ended is None:
            episode.runner.end(episode.group, episode.sibling, why, is_abandoned=is_abandoned)
        self._close(episode)

    def end_idle(self) -> None:
        """Ends the episodes whose clients have been silent for too long."""
        earliest = time.monotonic() - self._idle_seconds
        idle_episodes = [each for each in self.episodes.values() if each.used_at < earliest]
        for episode in idle_episodes:
            self.end(episode, f"its client was silent for {self._idle_seconds:g} s", is_abandoned=True)

    def end_all(self, why: str) -> None:
        """Ends all episodes that go on, as abandoned by their clients."""
        for episode in list(self.episodes.values()):
            self.end(episode, why, is_abandoned=True)

    def _close(self, episode: OpenEpisode) -> None:
        """Moves an episode from `episodes` to `ended`, and offers it to no client any more.

        Only the latest `MAX_ENDED` ended episodes are remembered.
        """
        if self.episodes.pop(episode.number, None) is not None:
            self.ended[episode.number] = episode
        while len(self.ended) > MAX_ENDED:
            _remove_first(self.ended)
        for name, (_, untaken) in list(self._untaken.items()):
            if episode in untaken:
                untaken.remove(episode)
                if not untaken:
                    del self._untaken[name]


def _remove_first(entries: dict[Any, Any]) -> None:
    """Removes the entry that was added first."""
    first_key = next(iter(entries))
    del entries[first_key]


def task_seed(campaign_seed: int, task: int) -> int:
    """Returns the seed of a task. task: its number, from 0."""
    digits = content_hash([campaign_seed, "task", task])[:SEED_DIGITS]
    return int(digits, 16)


def _reply(episode: OpenEpisode) -> EpisodeReply:
    """Returns the reply to the last turn of an episode, without the turn's reward."""
    turns = episode.sibling.episode.turns
    return EpisodeReply(
        episode=episode.number,
        turn=len(turns) - 1,
        messages=tuple(map(to_openai, turns[-1][1:])),  # the turn's first message is the policy's own
        reward=None,
        done=episode.sibling.ended is not None,
        ended=episode.sibling.ended,
    )


def _answer_without_writing(turn: SentTurn) -> bool:
    """Sets the reply of a turn that is not to be carried out, and returns True; returns False for any other turn.

    A repeated turn gets its earlier reply. A turn out of order, or of an ended episode, gets an error.
    """
    episode = turn.episode
    next_number = len(episode.sibling.episode.turns)
    if turn.number == next_number - 1 and episode.last_turn is not None:
        last_answer, last_reply = episode.last_turn
        if last_answer == turn.answer:
            turn.reply.set_result(last_reply)
            return True
    if episode.sibling.ended is not None:
        turn.reply.set_exception(EpisodeError(409, f"episode {episode.number} has ended: {episode.sibling.ended}"))
        return True
    if turn.number not in (None, next_number):
        message = f"turn: the next one has the number {next_number}, not {turn.number}"
        turn.reply.set_exception(EpisodeError(409, message))
        return True
    return False


def _differences(first: EpisodeRequest, request: EpisodeRequest) -> str:
    """Returns the fields in which two requests differ, with both values, as a text."""
    other_values = vars(request)
    differences = []
    for name, value in vars(first).items():
        if other_values[name] != value:
            differences.append(f"{name} {value!r}, not {other_values[name]!r}")
    return ", ".join(differences)


STEP_SECONDS = 0.25  # longest wait for a job or a client in one step of the thread
CLOSED_REASON = "the environment was closed"


class SeedsThenClients:
    """The source that proposes the campaign's seeds, and then waits for clients."""

    patience = 10**9  # the campaign ends after this number of turns without a new candidate: practically never
    total: int | None = None
    """Number of all proposals; None, since clients may make any number."""
    fault: str | None = None

    def __init__(self, seeds: Source) -> None:
        self._seeds = seeds
        self.has_seeds = True
        """Whether the source may still have seeds to propose."""

    @property
    def is_busy(self) -> bool:
        """Whether the campaign waits for more proposals: always, since clients may come."""
        return True

    @property
    def is_ready(self) -> bool:
        return self.has_seeds

    def prepare(self) -> bool:
        return self.has_seeds and self._seeds.prepare()

    def take(self, limit: int) -> TurnResult | None:
        """Proposes up to `limit` seeds; never returns None, which would end the campaign."""
        taken = self._seeds.take(limit)
        if taken is None:
            self.has_seeds = False
            return TurnResult(n_proposals=0, cost=Cost(), barren=False)
        return taken

    def close(self) -> None:
        self._seeds.close()


class LadderThread:
    """Drives a campaign in a thread of its own until it is stopped."""

    def __init__(
        self, built: Built, workers: int | None, serve: Callable[[Driver], bool], leave: Callable[[str, bool], None]
    ) -> None:
        """The thread calls `serve` before each step of the driver, and `leave` once, before the driver ends its jobs
        or after it has failed.

        serve: writes the turns that clients have sent; returns whether there were any. leave: takes the reason, and
        whether the driver can still write.
        """
        self._built = built
        self._workers = workers
        self._serve = serve
        self._leave = leave
        self._bell = threading.Event()
        """Set to wake the thread."""
        self._has_left = False
        """Whether `leave` was called."""
        self._driver: Driver | None = None
        self._source: SeedsThenClients | None = None
        self._started = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ladder")
        self.changed = threading.Condition()
        """Notified after each step of the driver."""
        self.error: BaseException | None = None
        """The error that ended the thread."""
        self.is_resting = False
        """Whether the campaign has ended: no further job starts until a client proposes."""

    def start(self) -> None:
        """Starts the thread; returns once the seeds are proposed, or as many as may wait. Raises the thread's error."""
        self._thread.start()
        self._started.wait()
        if self.error is not None:
            self._thread.join()
            raise self.error

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def wake(self) -> None:
        """Wakes the thread, since a client has sent something."""
        self._bell.set()

    def stop(self, now: bool = False) -> None:
        """Asks the thread to end; running jobs finish. now: running jobs are ended too, and run again later."""
        self._stopping.set()
        driver = self._driver  # the thread may set it to None meanwhile
        if driver is not None:
            if now:
                driver.abort()
            else:
                driver.request_stop(CLOSED_REASON)
        self.wake()

    def join(self, seconds: float | None = None) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            with Driver(self._built, self._workers, source=self._make_source) as driver:
                self._driver = driver
                if self._stopping.is_set():
                    driver.request_stop(CLOSED_REASON)
                self._drive(driver)
        except BaseException as error:  # noqa: BLE001 - it is raised again in the threads of the clients
            self.error = error
            self._leave_once(f"the ladder failed: {error}", can_write=False)
        finally:
            self._driver = None
            self._started.set()
            with self.changed:
                self.changed.notify_all()

    def _make_source(self, built: Built, lease: DriverLease, worker: Worker, bell: threading.Event) -> Source:
        self._bell = bell
        self._source = SeedsThenClients(seed_source(built, lease, worker, bell))
        return self._source

    def _drive(self, driver: Driver) -> None:
        """Takes steps of the driver until the thread has to stop and the campaign has reached a final state."""
        final_state: CampaignState | None = None
        stopping = driver.session.stopping
        while final_state is None or not stopping.is_set():
            if stopping.is_set():
                self._leave_once(driver.session.stop_reason)
            has_served = self._serve(driver)
            if final_state is None or has_served:
                final_state = driver.step(STEP_SECONDS)
            else:  # the campaign has reached its goal or spent its budget; people may still give directives
                driver.attend()
                self._bell.wait(STEP_SECONDS)
                self._bell.clear()
            self.is_resting = final_state is not None
            if final_state is not None or not self._will_propose_seeds(driver):
                self._started.set()
            with self.changed:
                self.changed.notify_all()
        self._leave_once(driver.session.stop_reason)

    def _will_propose_seeds(self, driver: Driver) -> bool:
        """Returns whether the next step will propose seeds."""
        return self._source is not None and self._source.has_seeds and driver.intake.is_asking

    def _leave_once(self, why: str, can_write: bool = True) -> None:
        if not self._has_left:
            self._has_left = True
            self._leave(why, can_write)
