"""The ladder in figures: the fate of the candidates, the cost by rung, and how alike neighbouring rungs rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.domain.pooling import pooled
from sciagent.domain.properties import properties
from sciagent.report.parts import charts
from sciagent.report.parts.agreement import KEPT, SCALE_OF_ITS_METHOD, Pairs, RankAgreement, agreement
from sciagent.report.parts.wording import with_unit, words
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.views import report_pairs
from sciagent.store.views import report_queries as ask

MAX_COMPARED = 8  # charts of rung against rung
WASTED = ("no_answer", "inconclusive")


@dataclass(frozen=True)
class CostRow:
    rung: str
    by_fate: dict[str, float]  # core-seconds

    @property
    def total(self) -> float:
        return sum(self.by_fate.values())

    @property
    def wasted(self) -> float:
        return sum(self.by_fate.get(name, 0.0) for name in WASTED)


@dataclass(frozen=True)
class Spending:
    """What a campaign spent."""

    rows: list[CostRow]
    others: list[tuple[str, str, float]]
    """(rung, resource, amount) of resources other than core-seconds."""

    @property
    def total(self) -> float:
        return sum(r.total for r in self.rows)

    @property
    def wasted(self) -> float:
        return sum(r.wasted for r in self.rows)


def spending(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> Spending:
    names: dict[int | None, str] = {r.id: r.name for r in ladder}
    parts: dict[str, dict[str, float]] = {r.name: {} for r in ladder}
    others: dict[tuple[str, str], float] = {}
    for rung_id, resource, fate, amount in ask.costs(connection, row):
        name = names.get(rung_id, "proposer")
        if resource == "core_seconds":
            mine = parts.setdefault(name, {})
            mine[fate] = mine.get(fate, 0.0) + amount
        else:
            others[name, resource] = others.get((name, resource), 0.0) + amount
    rows = [CostRow(name, by_fate) for name, by_fate in parts.items()]
    return Spending(rows, [(name, resource, amount) for (name, resource), amount in sorted(others.items())])


@dataclass(frozen=True)
class Compared:
    """Two rungs that measured the same property."""

    property: str
    lower: str
    upper: str
    x_level: str
    y_level: str
    unit: str
    seen: int
    used: int
    """Pairs that the figures rest on."""
    drawn: int
    """Points of the chart."""
    censored: int
    figures: RankAgreement
    shared_scale: bool
    chart: str


def compared(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> list[Compared]:
    """Each rung against the next that measured the same property; properties of objectives and gates come first."""
    comparisons: list[Compared] = []
    for name in _named(row):
        lower: RungRow | None = None
        for upper in (r for r in ladder if ask.measures(connection, r, name)):
            if lower is not None and len(comparisons) < MAX_COMPARED:
                comparisons += _compare(connection, row, lower, upper, name)
            lower = upper
    return comparisons[:MAX_COMPARED]


def imported(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> list[Compared]:
    """Imported values against every rung that measured the same property, over the candidates that have both."""
    known = report_pairs.imported_properties(connection, row)
    wanted = [name for name in _named(row) if name in known]
    comparisons: list[Compared] = []
    for name in dict.fromkeys([*wanted, *known]):
        for rung in (r for r in ladder if ask.measures(connection, r, name)):
            if len(comparisons) < MAX_COMPARED:
                comparisons += _compare(connection, row, None, rung, name)
    return comparisons[:MAX_COMPARED]


def _named(row: CampaignRow) -> list[str]:
    spec = row.spec
    names = [o["property"] for o in spec.get("objectives", ())]
    names += [name for rung in spec.get("ladder", ()) for name in rung.get("gate", {})]
    return list(dict.fromkeys(names))


def _compare(
    connection: Connection, row: CampaignRow, lower: RungRow | None, upper: RungRow, name: str
) -> list[Compared]:
    """A comparison for each pair of levels. lower: None for imported values. Replicates of a candidate count once."""
    groups: dict[tuple[int, int], Pairs] = {}
    for x, y, hit in report_pairs.pairs(connection, row, lower, upper, name):
        pairs = groups.setdefault((x.level_id, y.level_id), Pairs())
        if x.is_censored or y.is_censored:
            pairs.censored += 1
        else:
            pairs.add(*pooled(*zip(*x.values, strict=True)), *pooled(*zip(*y.values, strict=True)), hit)
    labels = report_pairs.levels(connection, [i for key in groups for i in key])
    unit, shared = properties()[name].unit, name not in SCALE_OF_ITS_METHOD
    below, beside = ("imported values", ", imported") if lower is None else (lower.name, f" at {lower.name}")
    comparisons = []
    for (x_level, y_level), pairs in groups.items():
        if not pairs.rows:
            continue
        chart = charts.scatter(
            pairs,
            f"{with_unit(name, unit)}{beside}",
            f"{with_unit(name, unit)} at {upper.name}",
            None if lower is None else limits(row, lower, name),
            limits(row, upper, name),
            f"{'imported' if lower is None else lower.name}-{upper.name}-{name}-{x_level}-{y_level}",
        )
        figures = agreement(pairs.x, pairs.y, shared)
        comparisons.append(
            Compared(
                words(name), below, upper.name, labels[x_level], labels[y_level], unit, pairs.n,
                min(pairs.n, KEPT), min(pairs.n, charts.DRAWN), pairs.censored, figures, shared, chart,
            )
        )  # fmt: skip
    return comparisons


def limits(row: CampaignRow, rung: RungRow, name: str) -> tuple[float | None, float | None] | None:
    """The rung's gate on the property; at the terminal rung, the objective's acceptance limits."""
    ladder: Sequence[Any] = row.spec.get("ladder", ())
    gate = ladder[rung.position].get("gate", {}).get(name) if rung.position < len(ladder) else None
    if gate is None and rung.name == row.spec.get("terminal"):
        gate = next((o.get("accept") for o in row.spec.get("objectives", ()) if o["property"] == name), None)
    return None if gate is None else (gate[0], gate[1])
