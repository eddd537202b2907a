"""Reads the cost at which evidence was computed, whoever paid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.cost import RESOURCE_UNITS, Cost
from sciagent.domain.evidence import Computation
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among


def shares(connection: Connection, evidence_ids: Sequence[int]) -> Mapping[int, Mapping[str, float]]:
    """{evidence id: what it cost}: its share of the attempt that computed it. Imported evidence has no attempt."""
    a, e = t.attempt.c, t.evidence.c
    query = sa.select(e.id, a.cost, a.n_candidates).select_from(t.evidence.join(t.attempt, a.id == e.attempt_id))
    rows = connection.execute(query.where(among(connection, e.id, evidence_ids))).all() if evidence_ids else ()
    return {int(id_): {name: amount / max(n, 1) for name, amount in cost.items()} for id_, cost, n in rows}


class EvidenceCost(NamedTuple):
    """The cost of one answer on a candidate."""

    turn_id: int | None
    """The turn within which the answer was computed; None outside of turns."""
    cost: Cost


def of_computations(
    connection: Connection, computations: Sequence[Computation], candidate_ids: Sequence[int], as_of: int
) -> Mapping[int, list[EvidenceCost]]:
    """{candidate id: the cost of each answer of these computations up to a watermark}."""
    a, e = t.attempt.c, t.evidence.c
    chosen = (
        sa.and_(e.verifier == one.verifier, e.verifier_version == one.version, e.settings_hash == one.settings_hash)
        for one in computations
    )
    query = sa.select(e.candidate_id, a.turn_id, a.cost, a.n_candidates, e.id).select_from(
        t.evidence.join(t.attempt, a.id == e.attempt_id)
    )
    query = query.where(
        e.watermark <= as_of, sa.or_(sa.false(), *chosen), among(connection, e.candidate_id, candidate_ids)
    )
    found: dict[int, list[EvidenceCost]] = {}
    for candidate_id, turn_id, cost, n, _ in connection.execute(query.order_by(e.id)) if computations else ():
        share = Cost({name: amount / max(n, 1) for name, amount in cost.items() if name in RESOURCE_UNITS})
        found.setdefault(int(candidate_id), []).append(EvidenceCost(turn_id, share))
    return found
