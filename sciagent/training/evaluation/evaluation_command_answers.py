"""The answers of `sciagent evaluate` and `sciagent policy`.

They say how arms compare, and what the ledger knows of a policy: its training, its evaluations and its roles.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import Field

from sciagent.domain.answers.candidate_and_value_answers import AnswerModel
from sciagent.training.evaluation.evaluation_spec import Interval


class EvaluatedCampaign(AnswerModel):
    """One campaign of an evaluation. Seed candidates count in none of its figures."""

    arm: str
    task: str
    """Name in the task's campaign file."""
    seed: int
    campaign: str
    """Name of the campaign in the ledger."""
    state: str
    """State of the campaign, such as `budget_spent`."""
    stop_reason: str
    """Why it ended."""
    verifications: int
    """Number of candidates that the terminal rung was asked about."""
    hits: int
    """Number of hits among them."""
    hits_at: tuple[int, ...]
    """Numbers of the verifications that were hits, from 1."""
    scaffolds: int
    """Number of distinct Murcko scaffolds among the hits."""
    core_seconds: float
    """Cost of sampling, of all answers of the ladder whichever campaign paid for them, and of failed attempts."""
    calls: int
    """Number of calls of a model, or of proposals of a script."""
    valid_calls: int
    """Number of calls that were carried out, or of proposals that were molecules."""


class EvaluatedArm(AnswerModel):
    """The figures of one arm."""

    hits: int
    """Number of hits in all campaigns of the arm."""
    hits_per_verification: Interval
    """Hits by granted verification: mean, lower and upper end of the interval."""
    hits_per_core_second: Interval | None
    """Hits by core-second of sampling and verification: mean, lower and upper end of the interval; None if nothing was
    spent."""
    scaffolds: int
    """Number of distinct Murcko scaffolds among the hits of a campaign, summed over the campaigns."""
    scaffolds_per_verification: Interval
    """Distinct scaffolds among the hits of a campaign, by granted verification."""
    valid: float | None
    """Share of the calls that were carried out; of a script's proposals that were molecules. None without calls."""
    verifications: int
    """Number of verifications that were made; an arm that ran out of proposals makes fewer than were granted."""
    core_seconds: float
    policy: str | None = None
    """Name and hash of the model; None for an arm without one."""
    failed: tuple[str, ...] = ()
    """Why campaigns of the arm are missing; empty if none is."""


class ArmDifference(AnswerModel):
    """The difference of two arms, from the same tasks and seeds of both."""

    arm: str
    minus: str
    """The other arm."""
    hits_per_verification: Interval
    hits_per_core_second: Interval | None
    scaffolds_per_verification: Interval


class EvaluationAnswer(AnswerModel):
    """The result of an evaluation."""

    arms: Mapping[str, EvaluatedArm]
    """The figures by arm; an arm without any campaign is in `failed` instead."""
    differences: tuple[ArmDifference, ...]
    """Each arm minus each arm listed before it."""
    tasks: tuple[str, ...]
    """Names of the tasks."""
    seeds: tuple[int, ...]
    verifications: int
    """Verifications that each campaign was granted."""
    failed: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Why arms have no figures, by arm."""
    campaigns: tuple[EvaluatedCampaign, ...]
    evaluation: int | None = None
    """Number of the evaluation in the ledger, once it is complete."""
    stopped: str | None = None
    """Why campaigns remain to be run; None if none remains."""


class ListedPolicy(AnswerModel):
    """A policy of the ledger."""

    policy: str
    """Name and hash of the weights."""
    source: str
    """`in process`, `script`, or the address of its server."""
    parent: str | None
    """The policy that it was trained from; None if it was not trained here."""
    training: str | None
    """Kind of its training, such as `sft` or `grpo`; None if it was not trained here."""
    roles: tuple[str, ...]
    """The roles that point to it."""
    model: str | None
    """Its name in `sciagent models`; None if its weights are not on this machine."""
    at: datetime
    """Time at which it was entered in the ledger."""


class PolicyEvaluation(AnswerModel):
    """The result of a policy in one evaluation."""

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
    """Settings of its training; None if it was not trained here."""
    evaluations: tuple[PolicyEvaluation, ...]
    """Oldest first."""
    rewards: tuple[PolicyReward, ...]
    """Its mean reward in each of the latest versions of rewards, oldest first."""
    changes: tuple[ChangedRole, ...]
    """Promotions and rollbacks to this policy, oldest first."""
