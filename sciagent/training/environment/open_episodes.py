"""The open episodes of an environment, in which clients take turns.

`EpisodeDesk` opens episodes, writes their turns and ends them; its methods run in the ladder's thread. Episodes of a
group, called siblings, begin alike and are compared with each other.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sciagent.agent.messages_sampling_and_policy_client import Sampled, to_openai
from sciagent.campaign.driving.driver import Driver
from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.errors import EpisodeError
from sciagent.store.campaign_state import proposer_trajectories
from sciagent.store.campaign_state.proposer_trajectories import Asked
from sciagent.store.learning import rollout_groups as group_rows
from sciagent.training.environment.checked_client_input import ClientPolicy, EpisodeRequest
from sciagent.training.rollouts.campaign_rollouts import count_step, model_spec, obstacle
from sciagent.training.rollouts.lock_step import RolloutRunner
from sciagent.training.rollouts.open_and_resume_groups import (
    EpisodeReply,
    Group,
    OpenedEpisode,
    RolloutPlan,
    Sibling,
    break_group,
)

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
