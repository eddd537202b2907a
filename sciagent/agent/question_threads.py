"""Asks a model for the next messages of several episodes at once, one thread per question."""

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
from sciagent.store.campaign_state.trajectories import Asked

TRIES = 5  # attempts per question
FIRST_PAUSE = 1.0  # seconds before the second attempt; each later pause is twice as long


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


def sample_patiently(
    policy: PolicyClient,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
    sampling: Sampling,
    *,
    stop: threading.Event,
) -> Sampled:
    """Samples an answer, and asks again after a failure that may pass. stop: ends the waiting. Raises PolicyError."""
    pause = FIRST_PAUSE
    for tries_left in reversed(range(TRIES)):
        try:
            return policy.sample(messages, tools, sampling)
        except PolicyError as error:
            if not error.retry or not tries_left:
                raise
        if stop.wait(pause):
            break
        pause *= 2
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
        self.policy, self._fetch, self._bell = policy, fetch, bell
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="episode")
        self._answers: queue.SimpleQueue[ModelAnswer] = queue.SimpleQueue()
        self._stop = threading.Event()
        self.out = 0
        """Number of questions whose answers have not been taken yet."""

    def ask(
        self, episode: Episode, tools: Sequence[Mapping[str, Any]], sampling: Sampling, asked: Asked | None = None
    ) -> None:
        """Asks for the episode's next message in a thread; `next` returns the answer. asked: the present moment of the
        ledger, which comes back with the answer."""
        self.out += 1
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
            sampled = sample_patiently(self.policy, messages, tools, sampling, stop=self._stop)
            self._answers.put(ModelAnswer(episode, sampled, "", self._fetch(sampled.message), asked))
        except BaseException as error:  # noqa: BLE001  an answer must come, or the driver would wait for ever
            fault = str(error) if isinstance(error, PolicyError) else f"{type(error).__name__}: {error}"
            self._answers.put(ModelAnswer(episode, None, fault[:1000], asked=asked))
        self._bell.set()

    def is_ready(self) -> bool:
        """Returns whether an answer has arrived."""
        return not self._answers.empty()

    def next(self) -> ModelAnswer:
        """Waits for the next answer and returns it."""
        answered = self._answers.get()
        self.out -= 1
        return answered

    def close(self) -> None:
        """Cancels the open questions; a resumed campaign asks them again."""
        self._stop.set()
        self.policy.close()
        self._threads.shutdown(wait=True, cancel_futures=True)
