"""Records of training in the ledger: evaluations, uses of turns, and groups of rollouts with new verdicts.

A complete evaluation is written once, under the hash of what was asked and answered. A use of a turn says which policy
was trained on it, with which version of rewards. A group has new verdicts if one of its candidates got evidence after a
watermark, which counts the pieces of evidence in the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.errors import UnknownNameError
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among, enter_by_hash, insert_or_ignore
from sciagent.store.database.engine import db_now
from sciagent.store.database.lab_learning_and_people_tables import training_use

_E = t.evaluation.c
_A = t.evaluation_arm.c


class EvaluationOfPolicy(NamedTuple):
    """The arm of an evaluation that was a policy."""

    id: int
    """Number of the evaluation."""
    arm: str
    answer: Mapping[str, Any]
    """Figures of all arms, as `sciagent evaluate --json` prints them."""
    at: datetime


def enter(
    connection: Connection, spec: Mapping[str, Any], answer: Mapping[str, Any], policies: Mapping[str, int], who: str
) -> int:
    """Returns the number of an evaluation, and writes it if it is new. policies: ids of policies by arm."""
    values = {"spec": dict(spec), "answer": dict(answer), "who": who, "at": db_now(connection)}
    id_ = enter_by_hash(connection, t.evaluation, content_hash([spec, answer]), values)
    rows = [{"evaluation_id": id_, "name": arm, "policy_id": policy} for arm, policy in policies.items()]
    insert_or_ignore(connection, t.evaluation_arm, rows)
    return id_


def of_policy(connection: Connection, policy_id: int) -> list[EvaluationOfPolicy]:
    """The evaluations of a policy, oldest first."""
    query = sa.select(_E.id, _A.name, _E.answer, _E.at).join(t.evaluation_arm, _A.evaluation_id == _E.id)
    rows = connection.execute(query.where(_A.policy_id == policy_id).order_by(_E.id))
    return [EvaluationOfPolicy(*row) for row in rows]


def check(connection: Connection, evaluation_id: int) -> None:
    """Raises UnknownNameError if there is no such evaluation."""
    known = connection.execute(sa.select(_E.id).order_by(_E.id)).scalars().all()
    if evaluation_id not in known:
        raise UnknownNameError("evaluation", str(evaluation_id), map(str, known))


def groups_with_news(connection: Connection, campaign_id: int, after: int) -> list[int]:
    """Returns the ids of the groups of a campaign with a candidate that has evidence after a watermark, in order.

    The query takes time in proportion to the new evidence, however many groups there are.
    """
    e = t.evidence.c
    p = t.proposal.c
    u = t.turn.c
    trajectory = t.trajectory.c
    query = (
        sa.select(trajectory.group_id)
        .distinct()
        .select_from(t.evidence)
        .join(t.proposal, sa.and_(p.candidate_id == e.candidate_id, p.campaign_id == campaign_id))
        .join(t.turn, u.id == p.turn_id)
        .join(t.trajectory, trajectory.id == u.trajectory_id)
        .where(e.watermark > after, trajectory.group_id.is_not(None))
    )
    return sorted(int(id_) for id_ in connection.execute(query).scalars())


def write(connection: Connection, policy_id: int, reward_version: int, turn_ids: Sequence[int]) -> None:
    """Writes the uses of turns on which a policy was trained; uses that are in the ledger already stay as they are."""
    common = {"policy_id": policy_id, "reward_version_id": reward_version, "at": db_now(connection)}
    insert_or_ignore(connection, training_use, [{**common, "turn_id": id_} for id_ in turn_ids])


def of_groups(connection: Connection, group_ids: Sequence[int]) -> list[tuple[int, int, int]]:
    """(group id, id of the policy, id of the version of rewards) of each use of a turn of these groups, in order."""
    u = training_use.c
    trajectory = t.trajectory.c
    query = sa.select(trajectory.group_id, u.policy_id, u.reward_version_id)
    query = query.select_from(training_use.join(t.turn, t.turn.c.id == u.turn_id).join(t.trajectory))
    rows = connection.execute(query.where(among(connection, trajectory.group_id, group_ids)).order_by(u.id))
    return [(int(group), int(policy), int(version)) for group, policy, version in rows]
