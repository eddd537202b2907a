"""Policies that answer many questions at once. In a lock-step, all episodes ask for their next message together."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from sciagent.agent.conversation_and_asking import sample_patiently
from sciagent.agent.messages_sampling_and_policy_client import EpisodeQuestion, PolicyClient, PolicyError, Sampled
from sciagent.domain.policy_identity import PolicyIdentity

AT_ONCE = 64  # most questions that an endpoint is asked at the same time


class BatchPolicy(Protocol):
    """A policy that answers the questions of one step of all episodes together."""

    name: str

    def answers(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        """Returns the answers in the order of the questions. The error of one question does not affect the others."""

    def identity(self, served: str) -> PolicyIdentity:
        """Returns what is known of the policy that answered. served: its name in the answer."""

    def close(self) -> None: ...


class ManyAtOnce(PolicyClient, Protocol):
    """A model of this process, which samples many answers at once."""

    def sample_many(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        """Returns the answers in the order of the questions."""


class InProcessPolicy:
    """Asks a model of this process all questions at once."""

    def __init__(self, policy: ManyAtOnce) -> None:
        self._policy = policy
        self.name = policy.name

    def answers(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        return self._policy.sample_many(questions)

    def identity(self, served: str) -> PolicyIdentity:
        return self._policy.identity(served)

    def close(self) -> None:
        self._policy.close()


class ThreadedPolicy:
    """Asks a model of a server in one thread per question, and tries again where that may help."""

    def __init__(self, policy: PolicyClient) -> None:
        self._policy = policy
        self.name = policy.name
        self._stop = threading.Event()
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="rollout")

    def answers(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        return list(self._threads.map(self._answer, questions))

    def _answer(self, question: EpisodeQuestion) -> Sampled | PolicyError:
        try:
            return sample_patiently(self._policy, question.messages, question.tools, question.sampling, stop=self._stop)
        except PolicyError as error:
            return error

    def identity(self, served: str) -> PolicyIdentity:
        return self._policy.identity(served)

    def close(self) -> None:
        self._stop.set()
        self._policy.close()
        self._threads.shutdown(wait=True, cancel_futures=True)
