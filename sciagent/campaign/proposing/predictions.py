"""Scores the predictions that proposers made for their own candidates against the rungs' later results."""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.domain.scoring import crps, read
from sciagent.store.database import tables as t
from sciagent.store.results import pooled

MANY = 2000  # the latest proposals that are scored


class PredictionScore(NamedTuple):
    """The predictions of one property, compared with one rung."""

    rung: str
    property: str
    n: int
    """Number of predictions with a result."""
    crps: float
    """Mean continuous ranked probability score, in the property's unit."""
    bias: float
    """Mean of predicted minus measured, in the property's unit."""
    inside: float
    """Share of the results within one stated error; 0.68 if the errors are right."""


def scores(connection: Connection, built: Built, trajectory_id: int | None = None) -> list[PredictionScore]:
    """Scores by rung and property, in the order of the ladder, without fast rungs. trajectory_id: only its
    predictions."""
    p, u = t.proposal.c, t.turn.c
    query = sa.select(p.candidate_id, p.predicted).where(
        p.campaign_id == built.row.id, p.status == "new", p.candidate_id.is_not(None)
    )
    if trajectory_id is not None:
        query = query.join(t.turn, u.id == p.turn_id).where(u.trajectory_id == trajectory_id)
    rows = connection.execute(query.order_by(p.id.desc()).limit(MANY)).all()
    predicted = {int(id_): values for id_, stated in rows if (values := read(stated))}
    return [score for rung in built.paid for score in _rung_scores(connection, rung, predicted)] if predicted else []


def _rung_scores(
    connection: Connection, rung: Any, predicted: dict[int, dict[str, tuple[float, float]]]
) -> list[PredictionScore]:
    v, pairs = rung.verifier, dict[str, list[tuple[float, float, float]]]()
    for id_, values in pooled.values_of(connection, list(predicted), v.name, v.version, v.settings_hash).items():
        for name, (value, error) in predicted[id_].items():
            if values and name in values:
                pairs.setdefault(name, []).append((value, error, values[name].value))
    return [
        PredictionScore(
            rung.spec.rung,
            name,
            len(some),
            sum(crps(*pair) for pair in some) / len(some),
            sum(value - answer for value, _, answer in some) / len(some),
            sum(abs(value - answer) <= error for value, error, answer in some) / len(some),
        )
        for name, some in sorted(pairs.items())
    ]
