"""The policies that campaign files and commands name: a role, a model of this machine, or a policy of the ledger."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from sciagent.agent import install_and_find_models
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.file.proposers import LlmSpec
from sciagent.domain.policy_identity import IN_PROCESS, PolicyIdentity
from sciagent.errors import UnknownNameError, UsageError
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies_and_roles
from sciagent.store.learning.policies_and_roles import PolicyRow


def with_model_name(built: Built, proposer: str, spec: LlmSpec) -> LlmSpec:
    """Returns the settings of a model with its name. proposer: the proposer's name; empty if it is the only one.

    The first start writes the policy to the ledger. Every later start takes the same one, whatever was promoted since.
    Raises UnknownNameError for an unknown role or policy, and UsageError if its weights are not on this machine.
    """
    if spec.policy is None:
        return spec
    policy = _pinned(built, proposer, spec.policy)
    name = _local_model(policy) if spec.endpoint is None else policy.name
    return spec.model_copy(update={"model": name, "policy": None})


def named_model(ledger: Ledger, named: str) -> str:
    """Returns the name of the model of this machine that a role, a model or a policy of the ledger stands for.

    Raises UnknownNameError, and UsageError if the weights of the policy are not on this machine.
    """
    with ledger.begin() as connection:
        return _local_model(_resolved(connection, named))


def _pinned(built: Built, proposer: str, named: str) -> PolicyRow:
    """Returns the policy that the proposer began with. At the first start, this is the named policy, and the ledger
    records it.

    Raises UnknownNameError.
    """
    with built.ledger.begin() as connection:
        known = policies_and_roles.pinned(connection, built.row.id, proposer)
        if known is not None:
            return known
        policy = _resolved(connection, named)
        policies_and_roles.pin(connection, built.row.id, proposer, named, policy.id)
        return policy


def _resolved(connection: Connection, named: str) -> PolicyRow:
    """Returns the policy of a role, of a model of this machine, or with this name in the ledger, in this order.

    A model of this machine is entered in the ledger. Raises UnknownNameError.
    """
    here = {model.name: model for model in install_and_find_models.installed()}
    roles = policies_and_roles.current(connection)
    if named in here and named not in roles:
        identity = PolicyIdentity(here[named].policy, IN_PROCESS, here[named].sha256)
        return policies_and_roles.get(connection, policies_and_roles.enter(connection, identity))
    try:
        return policies_and_roles.resolved(connection, named)
    except UnknownNameError:
        names = {
            row.name.partition("@")[0] for row in policies_and_roles.rows(connection)
        }  # without the version after the @
        raise UnknownNameError("role, model or policy", named, {*roles, *here, *names}) from None


def _local_model(policy: PolicyRow) -> str:
    """Returns the name of the model of this machine with the weights of a policy. Raises UsageError."""
    if policy.adapter_sha256 is not None:
        raise UsageError(
            f"{policy.name} is an adapter, which only a server can add to its base model: "
            "sciagent adapters NAME FOLDER, then `endpoint` in the campaign file"
        )
    return install_and_find_models.of_weights(policy.base_sha256, policy.name).name
