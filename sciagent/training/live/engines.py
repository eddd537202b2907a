"""Engines that sample the answers of rollouts. The usual one samples from the learner's own weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sciagent.agent.messages import EpisodeQuestion, PolicyError, Sampled
from sciagent.agent.policies.batches import BatchPolicy
from sciagent.agent.policies.local import InMemoryPolicy
from sciagent.domain.campaigns.policies import PolicyIdentity
from sciagent.training.learner.loading import LoadedModel
from sciagent.training.learner.step import Learner


class Engine(Protocol):
    """A sampler of the policy that is being trained."""

    def policy(self, learner: Learner, loaded: LoadedModel, version: PolicyIdentity) -> BatchPolicy:
        """Returns the policy with the learner's weights as they are now. version: its name and hash in the ledger."""

    def close(self) -> None: ...


class InProcessEngine:
    """Samples from the learner's own weights: nothing is written or copied."""

    def policy(self, learner: Learner, loaded: LoadedModel, version: PolicyIdentity) -> BatchPolicy:
        model = learner.accelerator.unwrap_model(learner.model)
        return LearnersPolicy(learner, InMemoryPolicy(model, loaded.tokenizer, version, threads=2))

    def close(self) -> None:
        """Does nothing: the learner keeps the weights."""


class LearnersPolicy:
    """A policy whose answers depend on the weights and on the questions alone.

    Keys and values of earlier calls are not used again: they would be those of older weights, and after a restart they
    would be missing, which changes the last digits.
    """

    def __init__(self, learner: Any, policy: InMemoryPolicy) -> None:
        self._learner, self._policy, self.name = learner, policy, policy.name

    def answers(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        self._policy.forget()
        with self._learner.accelerator.autocast():
            return self._policy.sample_many(questions)

    def identity(self, served: str) -> PolicyIdentity:
        return self._policy.identity(served)

    def close(self) -> None:
        self._policy.close()
