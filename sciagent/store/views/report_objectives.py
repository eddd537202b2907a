"""The values that a rung measured for the objectives, of the best candidates that reached it; replicates are pooled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.chosen_units import shown_quantity
from sciagent.domain.quantities import Censoring
from sciagent.domain.states import Standing
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.database import tables as t
from sciagent.store.views.candidates import rung_values

_STANDING = t.campaign_candidate.c
MOST = 20_000  # candidates of a rung that are read, the best first


@dataclass(frozen=True)
class ObjectiveValues:
    """The values that a rung gave one candidate for the objectives."""

    candidate_id: int
    kind: str
    """`hit`, `verified`, `open` or `fallen`."""
    values: dict[str, float]
    """{property: value in the unit that the campaign chose}; censored values are left out."""


def kind_of(standing: str, is_hit: bool) -> str:
    """Returns the kind of a candidate, which selects its style in a report: `hit`, `verified`, `open` or `fallen`."""
    if is_hit:
        return "hit"
    if standing == Standing.SETTLED:
        return "verified"
    return "open" if standing in (Standing.OPEN, Standing.PENDING, Standing.HELD) else "fallen"


def objective_values(
    connection: Connection, row: CampaignRow, rung: RungRow, names: Sequence[str]
) -> list[ObjectiveValues]:
    """Returns the values of the properties `names` that the rung gave the candidates that reached it, best first."""
    query = (
        sa.select(_STANDING.candidate_id, _STANDING.standing, _STANDING.is_hit)
        .where(_STANDING.campaign_id == row.id, _STANDING.depth >= rung.position)
        .order_by(*t.BEST_FIRST)
        .limit(MOST)
    )
    reached = {id_: kind_of(standing, is_hit) for id_, standing, is_hit in connection.execute(query)}
    answers = rung_values(connection, list(reached), rung)
    found = []
    for id_, kind in reached.items():
        own = {name: q for name, q in (answers.get(id_) or {}).items() if name in names}
        values = {
            name: shown_quantity(name, quantity, row.units).value
            for name, quantity in own.items()
            if quantity.censoring is Censoring.NONE
        }
        if values:
            found.append(ObjectiveValues(id_, kind, values))
    return found
