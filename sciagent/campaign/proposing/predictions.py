"""What proposers foretold of their own candidates, scored by what rungs have said since."""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.domain.scoring import crps, read
from sciagent.store.database import tables as t
from sciagent.store.results import evidence

MANY = 2000  # proposals that are looked at, the latest


class Score(NamedTuple):
    """Of one property at one rung. n: predictions that have an answer. crps, bias: means, in the property's unit; bias:
    foretold less measured. inside: share of the answers within one error, which is .68 for who knows what he knows."""

    rung: str
    property: str
    n: int
    crps: float
    bias: float
    inside: float


def scores(connection: Connection, built: Built, trajectory_id: int | None = None) -> list[Score]:
    """By rung and property, in the order of the ladder, fast rungs left out."""
    p, u = t.proposal.c, t.turn.c
    query = sa.select(p.candidate_id, p.predicted).where(
        p.campaign_id == built.row.id, p.status == "new", p.candidate_id.is_not(None)
    )
    if trajectory_id is not None:
        query = query.join(t.turn, u.id == p.turn_id).where(u.trajectory_id == trajectory_id)
    rows = connection.execute(query.order_by(p.id.desc()).limit(MANY)).all()
    foretold = {int(id_): said for id_, predicted in rows if (said := read(predicted))}
    return [one for rung in built.paid for one in _of(connection, rung, foretold)] if foretold else []


def _of(connection: Connection, rung: Any, foretold: dict[int, dict[str, tuple[float, float]]]) -> list[Score]:
    v, pairs = rung.verifier, dict[str, list[tuple[float, float, float]]]()
    for id_, values in evidence.values_of(connection, list(foretold), v.name, v.version, v.settings_hash).items():
        for name, (value, error) in foretold[id_].items():
            if values and name in values:
                pairs.setdefault(name, []).append((value, error, values[name][0][0]))
    return [
        Score(
            rung.spec.rung,
            name,
            len(some),
            sum(crps(*one) for one in some) / len(some),
            sum(value - answer for value, _, answer in some) / len(some),
            sum(abs(value - answer) <= error for value, error, answer in some) / len(some),
        )
        for name, some in sorted(pairs.items())
    ]
