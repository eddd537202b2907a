"""The models of proposers that name a policy. A campaign keeps the version that it found when it started."""

from __future__ import annotations

from sciagent.agent import models
from sciagent.campaign.core.build import Built
from sciagent.campaign.spec.sources import LlmSpec
from sciagent.store.learning import policies, roles
from sciagent.store.learning.policies import PolicyRow


def with_model(built: Built, proposer: str, spec: LlmSpec) -> LlmSpec:
    """Returns the settings of a model with its name. proposer: its name; empty if it is the only one.

    The policy of the first start is written to the ledger, and every later start takes it, whatever was promoted since.
    Raises UnknownNameError for an unknown role or policy, and UsageError if its weights are not on this machine.
    """
    if spec.policy is None:
        return spec
    policy = _pinned(built, proposer, spec.policy)
    name = models.of_weights(policy.base_sha256, policy.name).name if spec.endpoint is None else policy.name
    return spec.model_copy(update={"model": name, "policy": None})


def _pinned(built: Built, proposer: str, named: str) -> PolicyRow:
    with built.ledger.begin() as connection:
        known = policies.pinned(connection, built.row.id, proposer)
        if known is not None:
            return known
        policy = roles.resolved(connection, named)
        policies.pin(connection, built.row.id, proposer, named, policy.id)
        return policy
