"""Figures of the ladder: the cost by rung, and the agreement of neighbouring rungs in ranking candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.domain.pooling import pooled
from sciagent.domain.properties import properties
from sciagent.report.parts import charts
from sciagent.report.parts.agreement import SCALE_OF_ITS_METHOD, Pair, RankAgreement, agreement
from sciagent.report.parts.candidates import named_order
from sciagent.report.parts.wording import with_unit, words
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.views import report_pairs
from sciagent.store.views import report_queries as ask

MAX_COMPARED = 8  # charts of rung against rung
WASTED = ("no_answer", "inconclusive")


@dataclass(frozen=True)
class Spending:
    """The spending of a campaign."""

    by_rung: dict[str, dict[str, float]]
    """{rung or `proposer`: {fate: core-seconds}}."""
    others: dict[tuple[str, str], float]
    """{(rung or `proposer`, resource): amount} of resources other than core-seconds."""

    @property
    def total(self) -> float:
        return sum(map(self.cost, self.by_rung))

    @property
    def wasted(self) -> float:
        return sum(map(self.wasted_at, self.by_rung))

    def cost(self, rung: str) -> float:
        return sum(self.by_rung[rung].values())

    def wasted_at(self, rung: str) -> float:
        """Returns the core-seconds of a rung that brought no verdict or an inconclusive one."""
        return sum(self.by_rung[rung].get(fate, 0.0) for fate in WASTED)


def spending(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> Spending:
    names: dict[int | None, str] = {r.id: r.name for r in ladder}
    spent = Spending({r.name: {} for r in ladder}, {})
    for rung_id, resource, fate, amount in ask.costs(connection, row):
        name = names.get(rung_id, "proposer")
        if resource == "core_seconds":
            by_fate = spent.by_rung.setdefault(name, {})
            by_fate[fate] = by_fate.get(fate, 0.0) + amount
        else:
            spent.others[name, resource] = spent.others.get((name, resource), 0.0) + amount
    return spent


@dataclass(frozen=True)
class Compared:
    """The comparison of two rungs that measured the same property."""

    property: str
    lower: str
    upper: str
    x_level: str
    y_level: str
    unit: str
    seen: int
    """Number of pairs without a censored value."""
    drawn: int
    """Number of points of the chart."""
    censored: int
    """Number of pairs left out because a value is censored."""
    figures: RankAgreement
    shared_scale: bool
    chart: str


def compared(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> list[Compared]:
    """Compares each rung with the next that measured the same property, for properties of objectives and gates."""
    comparisons: list[Compared] = []
    for name in named_order(row.spec):
        measuring = [rung for rung in ladder if ask.measures(connection, rung, name)]
        for lower, upper in pairwise(measuring):
            if len(comparisons) < MAX_COMPARED:
                comparisons += _compare(connection, row, lower, upper, name)
    return comparisons[:MAX_COMPARED]


def imported(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> list[Compared]:
    """Compares imported values with every rung that measured the same property, over candidates that have both."""
    known = report_pairs.imported_properties(connection, row)
    comparisons: list[Compared] = []
    for name in dict.fromkeys([*(name for name in named_order(row.spec) if name in known), *known]):
        for rung in (r for r in ladder if ask.measures(connection, r, name)):
            if len(comparisons) < MAX_COMPARED:
                comparisons += _compare(connection, row, None, rung, name)
    return comparisons[:MAX_COMPARED]


def _compare(
    connection: Connection, row: CampaignRow, lower: RungRow | None, upper: RungRow, name: str
) -> list[Compared]:
    """Returns a comparison for each pair of levels, with replicates pooled. lower: None for imported values."""
    groups: dict[tuple[int, int], list[Pair]] = {}
    censored: dict[tuple[int, int], int] = {}
    for x, y, hit in report_pairs.pairs(connection, row, lower, upper, name):
        levels = x.level_id, y.level_id
        if x.is_censored or y.is_censored:
            censored[levels] = censored.get(levels, 0) + 1
        else:
            pair = Pair(*pooled(*zip(*x.values, strict=True)), *pooled(*zip(*y.values, strict=True)), hit)
            groups.setdefault(levels, []).append(pair)
    labels = report_pairs.levels(connection, [i for levels in groups for i in levels])
    unit, shared = properties()[name].unit, name not in SCALE_OF_ITS_METHOD
    below, beside = ("imported values", ", imported") if lower is None else (lower.name, f" at {lower.name}")
    comparisons = []
    for (x_level, y_level), pairs in groups.items():
        chart = charts.scatter(
            pairs,
            f"{with_unit(name, unit)}{beside}",
            f"{with_unit(name, unit)} at {upper.name}",
            None if lower is None else limits(row, lower, name),
            limits(row, upper, name),
            f"{'imported' if lower is None else lower.name}-{upper.name}-{name}-{x_level}-{y_level}",
        )
        figures = agreement(np.array([p.x for p in pairs]), np.array([p.y for p in pairs]), shared)
        comparisons.append(
            Compared(
                words(name),
                below,
                upper.name,
                labels[x_level],
                labels[y_level],
                unit,
                len(pairs),
                min(len(pairs), charts.DRAWN),
                censored.get((x_level, y_level), 0),
                figures,
                shared,
                chart,
            )
        )
    return comparisons


def limits(row: CampaignRow, rung: RungRow, name: str) -> tuple[float | None, float | None] | None:
    """Returns the rung's gate on the property; at the terminal rung without a gate, the objective's limits."""
    ladder: Sequence[Any] = row.spec.get("ladder", ())
    gate = ladder[rung.position].get("gate", {}).get(name) if rung.position < len(ladder) else None
    if gate is None and rung.name == row.spec.get("terminal"):
        gate = next((o.get("accept") for o in row.spec.get("objectives", ()) if o["property"] == name), None)
    return None if gate is None else (gate[0], gate[1])
