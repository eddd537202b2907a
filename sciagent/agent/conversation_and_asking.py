"""A conversation with a model: its messages so far, the limits that end it, and the opening messages.

`Asking` asks for the next messages of several conversations at once, each in a thread of its own.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from sciagent.agent.messages_sampling_and_policy_client import Message, PolicyClient, PolicyError, Sampled, Sampling
from sciagent.agent.tools.tool_contract_and_calls import Observation
from sciagent.store.campaign_state.proposer_trajectories import Asked

Thinking = Literal["preserve", "strip"]
"""Whether the thinking in earlier answers is shown again or left out."""
_SYSTEM = """You search for {many} that meet a goal. You work by calling tools, one or a few at a time, and see what \
each call brought. Cheap checks answer at once; dearer ones answer later, in a later turn or episode. New {many} \
that meet the goal count; one that is known already counts for nothing. Small steps from the best so far often help."""
SYSTEM = _SYSTEM.format(many="molecules")
STRUCTURED = """Answer with one JSON object and nothing else: {"name": TOOL, "arguments": {...}}."""
FULL_SHARE = 0.75  # of the context; a longer conversation loses its oldest turns, so that an answer still fits
MAX_FAULT = 1000  # characters of the reason why a model failed
KEPT_TURNS = 4  # number of latest turns that stay in the prompt when the conversation has grown too long


@dataclass(frozen=True)
class EpisodeLimits:
    """The limits of an episode."""

    turns: int = 8
    """Largest number of answers."""
    tokens: int = 4096
    """Largest number of sampled tokens."""
    context: int = 8192
    """Largest number of tokens of a prompt and its answer together."""
    seconds: float = 3600.0
    """Longest elapsed time of the model, in seconds."""
    thinking: Thinking = "preserve"


@dataclass
class Episode:
    """The state of one episode."""

    number: int
    """Number of the trajectory that stores the episode."""
    seed: int
    opening: tuple[Message, ...]
    """System and user message at the beginning of every prompt."""
    limits: EpisodeLimits
    numbered: list[str] = field(default_factory=list)
    """The notations of the candidates that the conversation has shown with a number, the first with #1."""
    turns: list[tuple[Message, ...]] = field(default_factory=list)
    """The answers so far, each with the messages that followed it."""
    first: int = 0
    """Number of the first turn that is still in the prompt."""
    tokens: int = 0
    """Number of tokens sampled so far."""
    seconds: float = 0.0
    """Elapsed time of the model so far, in seconds."""
    last_length: int = 0
    """Number of tokens of the last prompt and its answer."""
    held: tuple[int, ...] = ()
    """Token ids of the last prompt and answer. For the next prompt, only the additional ids are stored."""
    added: tuple[str, ...] = ()
    """Notations of the candidates that got a number in the last turn."""

    @property
    def messages(self) -> list[Message]:
        """The messages of the next prompt."""
        later = list[Message]()
        for turn in self.turns[self.first :]:
            later.extend(turn)
        if self.limits.thinking == "strip":
            later = [message.without_thinking() for message in later]
        if self.first:
            later.insert(0, Message("user", f"(Turns 1 to {self.first} are left out: the conversation grew too long.)"))
        return [*self.opening, *later]

    def observe(self, sampled: Sampled, observed: Sequence[Message], numbered: Sequence[str] = ()) -> None:
        """Adds an answer and its observations. Drops the oldest turns if the conversation exceeds FULL_SHARE.

        numbered: notations of the candidates to which the observations give the next numbers.
        """
        self.turns.append((sampled.message, *observed))
        self.numbered += numbered
        self.added = tuple(numbered)
        self.tokens += sampled.output_tokens
        self.seconds += sampled.seconds
        self.last_length = sampled.prompt_tokens + sampled.output_tokens
        self.held = ()
        if sampled.tokens:
            self.held = (*sampled.tokens.prompt_ids, *sampled.tokens.output_ids)
        if self.last_length > FULL_SHARE * self.limits.context:
            self.first = max(self.first, len(self.turns) - KEPT_TURNS)

    @property
    def cursor(self) -> Mapping[str, Any]:
        """State stored with a turn; a resumed episode continues from it."""
        return {
            "first": self.first,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "length": self.last_length,
            "numbered": list(self.added),
        }

    def restore(self, turn: tuple[Message, ...], cursor: Mapping[str, Any]) -> None:
        """Adds the next turn of the ledger, with the cursor that was stored after it."""
        self.turns.append(turn)
        self.added = tuple(cursor.get("numbered", ()))
        self.numbered += self.added
        self.first = int(cursor.get("first", 0))
        self.tokens = int(cursor.get("tokens", 0))
        self.seconds = float(cursor.get("seconds", 0.0))
        self.last_length = int(cursor.get("length", 0))

    @property
    def ended(self) -> str | None:
        """Returns the limit that ended the episode; None if no limit is reached."""
        if len(self.turns) >= self.limits.turns:
            return f"{self.limits.turns} turns"
        if self.tokens >= self.limits.tokens:
            return f"{self.limits.tokens} tokens"
        if self.seconds >= self.limits.seconds:
            return f"{self.limits.seconds:g} seconds of the model"
        return None


def opening(
    goal: str,
    learned: str,
    left: str,
    tools: Sequence[tuple[str, str]],
    structured: bool,
    skills: Sequence[str] = (),
    many: str = "molecules",
) -> tuple[Message, ...]:
    """Returns the system and the user message.

    learned: results so far. left: remaining budget. tools: (name, first sentence) of each tool, listed if answers are
    structured. structured: whether an answer is one JSON object. skills: texts at the end of the user message.
    many: the word for candidates.
    """
    system = _SYSTEM.format(many=many)
    if structured:
        listed = "\n".join(f"- {name}: {what}" for name, what in tools)
        system = f"{system}\n{STRUCTURED}\nTools:\n{listed}"
    parts = [goal, f"Left to spend: {left}.", learned or "Nothing was tried yet.", *skills]
    return Message("system", system), Message("user", "\n\n".join(parts))


TRIES = 5  # attempts per question at a server that does not limit its requests
FIRST_PAUSE = 1.0  # seconds before the second attempt; each later pause is twice as long
LONGEST_PAUSE = 60.0  # seconds; a server may ask for a longer one
MAX_STATED_WAIT = 86400.0  # seconds; a longer wait is stated as this one
PATIENCE = 900.0  # seconds after which a question is given up while the server limits its requests


class ModelAnswer(NamedTuple):
    """A model's answer to one question, or the reason why there is none."""

    episode: Episode
    sampled: Sampled | None
    """None if the model failed."""
    fault: str
    """Why the model failed; empty if it answered."""
    fetched: Mapping[int, Observation] = MappingProxyType({})
    """Results of the MCP calls in the answer, by position of the call."""
    asked: Asked | None = None
    """When the question was asked."""


class RequestLimit(NamedTuple):
    """A time for which a server takes no more requests."""

    until: datetime
    """When the next request is sent."""
    why: str
    """The server's words."""


def sample_patiently(
    policy: PolicyClient,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
    sampling: Sampling,
    *,
    stop: threading.Event,
    limited: Callable[[RequestLimit], None] = lambda limit: None,
) -> Sampled:
    """Samples an answer, and asks again after a failure that may pass: for PATIENCE while the server limits its
    requests, and TRIES times at most after other failures. The pause is the one that the server asks for.

    stop: ends the waiting. limited: is told each wait for a limit. Raises PolicyError.
    """
    give_up = time.monotonic() + PATIENCE
    pause = FIRST_PAUSE
    tries_left = TRIES
    while True:
        try:
            return policy.sample(messages, tools, sampling)
        except PolicyError as error:
            wait = pause if error.after is None else max(error.after, FIRST_PAUSE)
            if not error.is_limit:
                tries_left -= 1
            if not error.retry or not tries_left:
                raise
            if error.is_limit:
                until = datetime.now(UTC) + timedelta(seconds=min(wait, MAX_STATED_WAIT))
                if time.monotonic() + wait > give_up:
                    fault = f"{error} (limited until {until:%H:%M} UTC, and asked for {PATIENCE / 60:g} min at most)"
                    raise PolicyError(fault) from error
                limited(RequestLimit(until, str(error)))
        if stop.wait(wait):
            break
        pause = min(2 * pause, LONGEST_PAUSE)
    raise PolicyError("stopped while it waited to ask again")


class Asking:
    """A pool of threads that ask the model and collect its answers."""

    def __init__(
        self,
        policy: PolicyClient,
        at_once: int,
        bell: threading.Event,
        fetch: Callable[[Message], Mapping[int, Observation]],
    ) -> None:
        """at_once: largest number of questions at a time. bell: set whenever an answer arrives. fetch: carries out the
        MCP calls of an answer, in the same thread, so that a slow server delays no other episode."""
        self.policy = policy
        self._fetch = fetch
        self._bell = bell
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="episode")
        self._answers: queue.SimpleQueue[ModelAnswer] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._limits: queue.SimpleQueue[RequestLimit] = queue.SimpleQueue()
        self.unanswered = 0
        """Number of questions whose answers have not been taken yet."""

    def ask(
        self, episode: Episode, tools: Sequence[Mapping[str, Any]], sampling: Sampling, asked: Asked | None = None
    ) -> None:
        """Asks for the episode's next message in a thread; `next` returns the answer. asked: the present moment of the
        ledger, which comes back with the answer."""
        self.unanswered += 1
        self._threads.submit(self._ask, episode, episode.messages, tools, sampling, asked)

    def _ask(
        self,
        episode: Episode,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        sampling: Sampling,
        asked: Asked | None,
    ) -> None:
        try:
            sampled = sample_patiently(self.policy, messages, tools, sampling, stop=self._stop, limited=self._limited)
            fetched = self._fetch(sampled.message)
            self._answers.put(ModelAnswer(episode, sampled, fault="", fetched=fetched, asked=asked))
        except BaseException as error:  # noqa: BLE001  an answer must come, or the driver would wait for ever
            fault = str(error) if isinstance(error, PolicyError) else f"{type(error).__name__}: {error}"
            self._answers.put(ModelAnswer(episode, sampled=None, fault=fault[:MAX_FAULT], asked=asked))
        self._bell.set()

    def _limited(self, limit: RequestLimit) -> None:
        self._limits.put(limit)
        self._bell.set()

    def new_limit(self) -> RequestLimit | None:
        """Returns the one of the limits since the last call that lasts longest; None if there was none."""
        limits = list[RequestLimit]()
        with contextlib.suppress(queue.Empty):
            while True:
                limits.append(self._limits.get_nowait())
        return max(limits, default=None)

    def is_ready(self) -> bool:
        """Returns whether an answer has arrived."""
        return not self._answers.empty()

    def next(self) -> ModelAnswer:
        """Waits for the next answer and returns it."""
        answered = self._answers.get()
        self.unanswered -= 1
        return answered

    def close(self) -> None:
        """Cancels the open questions; a resumed campaign asks them again."""
        self._stop.set()
        self.policy.close()
        self._threads.shutdown(wait=True, cancel_futures=True)
