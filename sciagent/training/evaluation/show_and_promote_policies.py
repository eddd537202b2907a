"""The policies of a ledger: what they come from, how they were evaluated and rewarded, and the roles that they have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.agent import install_and_find_models
from sciagent.domain.policy_identity import IN_PROCESS, PolicyIdentity
from sciagent.errors import UnknownNameError, UsageError
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import evaluations_and_turn_uses, policies_and_roles
from sciagent.store.learning.policies_and_roles import PolicyRow, RoleChange
from sciagent.training.evaluation.evaluation_command_answers import (
    ChangedRole,
    ListedPolicy,
    PolicyEvaluation,
    PolicyReward,
    ShownPolicy,
)

ROLE = re.compile(r"[a-z][a-z0-9_-]{0,63}")
MAX_VERSIONS = 20  # most versions of rewards that are shown for a policy, the latest ones


def listed(ledger: Ledger) -> list[ListedPolicy]:
    """Returns all policies of the ledger, oldest first."""
    with ledger.read() as connection:
        return list(_listed(connection).values())


def show(ledger: Ledger, name: str) -> ShownPolicy:
    """Returns what the ledger knows of a policy. name: the policy's name, with or without its hash, or a role.

    Raises UnknownNameError.
    """
    with ledger.read() as connection:
        chosen = policies_and_roles.resolved(connection, name)
        rows = {row.id: row for row in policies_and_roles.rows(connection)}
        return ShownPolicy(
            policy=_listed(connection)[chosen.id],
            parents=tuple(_parents(rows, chosen)),
            recipe=chosen.recipe,
            evaluations=tuple(_evaluations(connection, chosen.id)),
            rewards=tuple(_rewards(connection, chosen.id)),
            changes=tuple(change for id_, change in _changes(connection, rows) if id_ == chosen.id),
        )


def promote(
    ledger: Ledger, name: str, role: str, *, evaluation: int | None = None, who: str, why: str = ""
) -> ChangedRole:
    """Lets a role, a name such as `production`, point to a policy.

    name: of a policy of the ledger, or of a model of this machine. evaluation: number of the evaluation that justifies
    the promotion; None: the last evaluation of the policy. Raises UnknownNameError, and UsageError for a text that
    cannot be a role.
    """
    if not ROLE.fullmatch(role):
        raise UsageError(f'"{role}" is no name of a role: a-z, 0-9, "_" and "-", the first a letter, 64 at most')
    with ledger.begin() as connection:
        if any(row.name.partition("@")[0] == role for row in policies_and_roles.rows(connection)):
            raise UsageError(f'"{role}" is the name of a policy; choose another name for the role')
        policy_id = _entered(connection, name)
        if evaluation is not None:
            evaluations_and_turn_uses.check(connection, evaluation)
        else:
            evaluations = list(evaluations_and_turn_uses.of_policy(connection, policy_id))
            evaluation = evaluations[-1].id if evaluations else None
        policies_and_roles.promote(connection, role, policy_id, evaluation_id=evaluation, who=who, why=why)
        return _last_change(connection, role)


def rollback(ledger: Ledger, role: str, *, who: str, why: str = "") -> ChangedRole:
    """Lets a role point to the policy that it pointed to before its last promotion.

    Raises UnknownNameError, and UsageError if there is no earlier policy.
    """
    with ledger.begin() as connection:
        policies_and_roles.rollback(connection, role, who=who, why=why)
        return _last_change(connection, role)


def _entered(connection: Connection, name: str) -> int:
    """Returns the id of a policy. A model of this machine is first entered in the ledger if it is not there yet."""
    try:
        return policies_and_roles.find(connection, name).id
    except UnknownNameError:
        installed = {model.name: model for model in install_and_find_models.installed()}
        if name not in installed:
            raise
        model = installed[name]
        return policies_and_roles.enter(connection, PolicyIdentity(model.policy, IN_PROCESS, base_sha256=model.sha256))


def _last_change(connection: Connection, role: str) -> ChangedRole:
    """Returns the last promotion or rollback of a role that has one."""
    rows = {row.id: row for row in policies_and_roles.rows(connection)}
    changes_of_role = [change for _, change in _changes(connection, rows) if change.role == role]
    return changes_of_role[-1]


def _changes(connection: Connection, rows: Mapping[int, PolicyRow]) -> list[tuple[int, ChangedRole]]:
    """Returns all promotions and rollbacks, oldest first, each with the id of its policy. rows: policies by id."""
    last_changes: dict[str, RoleChange] = {}  # by role
    shown_changes = []
    for change in policies_and_roles.changes(connection):
        earlier = last_changes.get(change.role)
        shown = ChangedRole(
            role=change.role,
            policy=rows[change.policy_id].name,
            before=None if earlier is None else rows[earlier.policy_id].name,
            is_rollback=change.undoes_id is not None,
            evaluation=change.evaluation_id,
            who=change.who,
            why=change.why,
            at=change.at,
        )
        shown_changes.append((change.policy_id, shown))
        last_changes[change.role] = change
    return shown_changes


def _listed(connection: Connection) -> dict[int, ListedPolicy]:
    """Returns all policies by id, oldest first."""
    rows = {row.id: row for row in policies_and_roles.rows(connection)}
    roles_by_policy: dict[int, list[str]] = {}
    for role, change in policies_and_roles.current(connection).items():
        roles_by_policy.setdefault(change.policy_id, []).append(role)
    model_names = {model.sha256: model.name for model in install_and_find_models.installed()}
    listed_policies = {}
    for row in rows.values():
        # name of the model of this machine; a policy with an adapter is no model by itself
        model = None
        if row.adapter_sha256 is None and row.base_sha256 is not None:
            model = model_names.get(row.base_sha256)
        listed_policies[row.id] = ListedPolicy(
            policy=row.name,
            source=row.source,
            parent=None if row.parent_id is None else rows[row.parent_id].name,
            training=_training(row.recipe),
            roles=tuple(sorted(roles_by_policy.get(row.id, ()))),
            model=model,
            at=row.at,
        )
    return listed_policies


def _training(recipe: Mapping[str, Any] | None) -> str | None:
    """Returns the kind of training that made a policy; None for a policy that was not trained here."""
    return None if recipe is None else str(recipe.get("training", "trained"))


def _parents(rows: Mapping[int, PolicyRow], row: PolicyRow) -> list[str]:
    """Returns the names of the policies that a policy comes from, the latest first. rows: all policies by id."""
    names = []
    while row.parent_id is not None:
        row = rows[row.parent_id]
        names.append(row.name)
    return names


def _evaluations(connection: Connection, policy_id: int) -> list[PolicyEvaluation]:
    """Returns the policy's figures in each of its evaluations."""
    shown = []
    for row in evaluations_and_turn_uses.of_policy(connection, policy_id):
        figures = row.answer["arms"][row.arm]
        fields: dict[str, Any] = {
            "evaluation": row.id,
            "arm": row.arm,
            "tasks": tuple(row.answer["tasks"]),
            "at": row.at,
        }
        for name in ("hits_per_verification", "hits_per_core_second", "scaffolds_per_verification"):
            fields[name] = None if figures[name] is None else tuple(figures[name])
        shown.append(PolicyEvaluation.model_validate(fields))
    return shown


def _rewards(connection: Connection, policy_id: int) -> list[PolicyReward]:
    """Returns the mean outcome of the policy's episodes in each of the latest versions of rewards, oldest first.

    Only versions that reward an episode of the policy count.
    """
    r = t.reward.c
    u = t.turn.c
    v = t.reward_version.c
    # the policy of an episode is that of its first turn; the reward without a turn is the outcome of the episode
    query = (
        sa.select(v.id, t.campaign.c.name, sa.func.count(), sa.func.avg(r.value))
        .select_from(
            t.reward.join(t.turn, sa.and_(u.trajectory_id == r.trajectory_id, u.number == 0))
            .join(t.reward_version, v.id == r.reward_version_id)
            .join(t.campaign, t.campaign.c.id == v.campaign_id)
        )
        .where(r.turn_id.is_(None), r.value.is_not(None), u.policy_id == policy_id)
        .group_by(v.id, t.campaign.c.name)
        .order_by(v.id.desc())
        .limit(MAX_VERSIONS)
    )
    rows = connection.execute(query).all()
    return [PolicyReward(version=id_, campaign=name, episodes=n, mean=mean) for id_, name, n, mean in reversed(rows)]
