"""Asks a model for several episodes at once, each in a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any, NamedTuple

from sciagent.agent.episode import Episode
from sciagent.agent.messages import Message, PolicyClient, PolicyError, Sampled, Sampling
from sciagent.agent.tools.registry import Observation

TRIES = 5  # of a question, where asking again may help
FIRST_PAUSE = 1.0  # seconds before the second; each is twice the last


class ModelAnswer(NamedTuple):
    """The answer to a question."""

    episode: Episode
    sampled: Sampled | None
    """None if the model failed."""
    fault: str
    """Why the model failed."""
    fetched: Mapping[int, Observation] = MappingProxyType({})
    """Results of the answer's calls of MCP servers, by position of the call."""


class Asking:
    """Asks questions in threads."""

    def __init__(
        self,
        policy: PolicyClient,
        at_once: int,
        bell: threading.Event,
        fetch: Callable[[Message], Mapping[int, Observation]],
    ) -> None:
        """at_once: most questions at a time. bell: set whenever an answer arrives. fetch: calls the MCP servers that an
        answer names, in the same thread, so that slow servers delay no other episode."""
        self.policy, self._fetch, self._bell = policy, fetch, bell
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="episode")
        self._answers: queue.SimpleQueue[ModelAnswer] = queue.SimpleQueue()
        self._stop = threading.Event()
        self.out = 0
        """Number of questions whose answers were not taken yet."""

    def ask(self, episode: Episode, tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> None:
        """Ask for the episode's next message; `next` returns it."""
        self.out += 1
        self._threads.submit(self._ask, episode, episode.messages, tools, sampling)

    def _ask(
        self, episode: Episode, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling
    ) -> None:
        try:
            sampled = self._sampled(messages, tools, sampling)
            fetched = {} if episode.wants_summary else self._fetch(sampled.message)
            self._answers.put(ModelAnswer(episode, sampled, "", fetched))
        except BaseException as error:  # noqa: BLE001  an answer must come, or the driver would wait for ever
            fault = str(error) if isinstance(error, PolicyError) else f"{type(error).__name__}: {error}"
            self._answers.put(ModelAnswer(episode, None, fault[:1000]))
        self._bell.set()

    def _sampled(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Sampled:
        pause = FIRST_PAUSE
        for tries_left in reversed(range(TRIES)):
            try:
                return self.policy.sample(messages, tools, sampling)
            except PolicyError as error:
                if not error.retry or not tries_left:
                    raise
            if self._stop.wait(pause):
                break
            pause *= 2
        raise PolicyError("stopped while it waited to ask again")

    def is_ready(self) -> bool:
        """Whether an answer has arrived."""
        return not self._answers.empty()

    def next(self) -> ModelAnswer:
        """Wait for the next answer."""
        answered = self._answers.get()
        self.out -= 1
        return answered

    def close(self) -> None:
        """Give up the open questions; a resumed campaign asks them again."""
        self._stop.set()
        self.policy.close()
        self._threads.shutdown(wait=True, cancel_futures=True)
