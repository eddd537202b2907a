"""Engines that sample the answers of rollouts. The usual one samples from the learner's own weights."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Protocol

from sciagent.agent.messages import EpisodeQuestion, PolicyError, Sampled
from sciagent.agent.policies.batches import BatchPolicy
from sciagent.agent.policies.local import InMemoryPolicy
from sciagent.domain.policies import PolicyIdentity
from sciagent.training.learner.loading import LoadedModel
from sciagent.training.learner.step import Learner
from sciagent.training.live import versions


class Engine(Protocol):
    """A sampler of the policy that is being trained."""

    def policy(self, learner: Learner, loaded: LoadedModel, version: PolicyIdentity) -> BatchPolicy:
        """Returns the policy with the learner's weights as they are now. version: its name and hash in the ledger."""

    def close(self) -> None: ...


class InProcessEngine:
    """Samples in this process: from the learner's own weights, or from a copy of them beside the training."""

    def __init__(self, is_beside: bool = False) -> None:
        """is_beside: the weights change while a version of the policy is asked. One version is asked at a time."""
        self._is_beside, self._copy = is_beside, None

    def policy(self, learner: Learner, loaded: LoadedModel, version: PolicyIdentity) -> BatchPolicy:
        import torch

        model = self._copied(learner.policy) if self._is_beside else learner.policy
        threads = torch.get_num_threads()
        return LearnersPolicy(learner, InMemoryPolicy(model, loaded.tokenizer, version, threads=threads))

    def _copied(self, model: Any) -> Any:
        if self._copy is None:
            self._copy = copy.deepcopy(model)
        versions.put(self._copy, versions.trained_weights(model))
        return self._copy

    def close(self) -> None:
        """Does nothing: the weights go with the engine."""


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
