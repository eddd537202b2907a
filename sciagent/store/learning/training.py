"""Evaluations in the ledger. A complete evaluation is written once, under the hash of what was asked and answered."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence import content_hash
from sciagent.errors import UnknownNameError
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import id_of_hash, insert_or_ignore
from sciagent.store.database.clock import db_now

_E, _A = t.evaluation.c, t.evaluation_arm.c


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
    id_ = id_of_hash(connection, t.evaluation, content_hash([spec, answer]), values)
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
