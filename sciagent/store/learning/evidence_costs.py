"""Reads the cost at which evidence was computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among


def shares(connection: Connection, evidence_ids: Sequence[int]) -> Mapping[int, Mapping[str, float]]:
    """{evidence id: what it cost}: its share of the attempt that computed it. Imported evidence has no attempt."""
    a, e = t.attempt.c, t.evidence.c
    query = sa.select(e.id, a.cost, a.n_candidates).select_from(t.evidence.join(t.attempt, a.id == e.attempt_id))
    rows = connection.execute(query.where(among(connection, e.id, evidence_ids))).all() if evidence_ids else ()
    return {int(id_): {name: amount / max(n, 1) for name, amount in cost.items()} for id_, cost, n in rows}
