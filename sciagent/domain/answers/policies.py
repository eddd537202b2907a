"""The answers of `sciagent policy`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sciagent.domain.answers.evaluation import Interval
from sciagent.domain.answers.model import AnswerModel


class ListedPolicy(AnswerModel):
    """A policy of the ledger."""

    policy: str
    """Name and hash of the weights."""
    source: str
    """`in process`, `script`, or the address of its server."""
    parent: str | None
    """The policy that it was trained from; None if it was not trained here."""
    training: str | None
    """How it was trained, such as `sft` or `grpo`; None if it was not trained here."""
    roles: tuple[str, ...]
    """The roles that point to it."""
    model: str | None
    """Its name in `sciagent models list`; None if its weights are not on this machine."""
    at: datetime
    """When it was entered in the ledger."""


class PolicyEvaluation(AnswerModel):
    """What an evaluation says of a policy."""

    evaluation: int
    """Number of the evaluation in the ledger."""
    arm: str
    tasks: tuple[str, ...]
    hits_per_verification: Interval
    hits_per_core_second: Interval | None
    scaffolds_per_verification: Interval
    at: datetime


class PolicyReward(AnswerModel):
    """The rewards of a policy's episodes in one version of rewards."""

    version: int
    """Number of the version in the ledger."""
    campaign: str
    episodes: int
    """Number of its episodes whose outcome is decided."""
    mean: float
    """Mean outcome of an episode, in hits or utility."""


class ChangedRole(AnswerModel):
    """A promotion or a rollback."""

    role: str
    policy: str
    """The policy that the role points to from then on."""
    before: str | None
    """The policy that it pointed to before; None for a new role."""
    is_rollback: bool
    evaluation: int | None
    """The evaluation that speaks for it."""
    who: str
    why: str
    at: datetime


class ShownPolicy(AnswerModel):
    """All that the ledger knows of a policy."""

    policy: ListedPolicy
    parents: tuple[str, ...]
    """The policies that it comes from, its parent first."""
    recipe: Mapping[str, Any] | None
    """How it was trained; None if it was not trained here."""
    evaluations: tuple[PolicyEvaluation, ...]
    """Oldest first."""
    rewards: tuple[PolicyReward, ...]
    """Of the latest versions of rewards, oldest first."""
    changes: tuple[ChangedRole, ...]
    """Promotions and rollbacks to this policy, oldest first."""
