"""Charts of the objectives: the distribution of each with its limits, and two of them against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.domain.chosen_units import unit_of
from sciagent.domain.properties import properties
from sciagent.report.analysis.ladder import limits
from sciagent.report.parts import objective_charts as charts
from sciagent.report.parts.objective_charts import NamedPoint
from sciagent.report.parts.wording import with_unit, words
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.views import candidates as report_candidates
from sciagent.store.views.report_objectives import ObjectiveValues, objective_values

SHOWN_RUNGS = 2  # the terminal rung and the one below it that measured an objective
FEWEST = 2  # smallest number of values for a chart
POINTS = 600  # largest number of points of a Pareto plot


@dataclass(frozen=True)
class ObjectiveChart:
    """A chart with its caption."""

    title: str
    rung: str
    n: int
    """Number of candidates."""
    chart: str
    """SVG."""
    drawn: int = 0
    """Number of points of a plot of two objectives, if it shows points."""
    limited: bool = True
    """Whether the chart shows limits."""


@dataclass(frozen=True)
class ObjectiveCharts:
    """The charts of the objectives, those of the terminal rung first."""

    distributions: list[ObjectiveChart]
    fronts: list[ObjectiveChart]
    """The first two objectives against each other."""


def objective_charts(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> ObjectiveCharts:
    """Returns the charts of the terminal rung, and of the next rung below it that measured an objective."""
    objectives = [o for o in row.spec.get("objectives", ()) if o["property"] in properties()]
    wanted = [o["property"] for o in objectives]
    last = next(r.position for r in ladder if r.name == row.spec["terminal"])
    distributions: list[ObjectiveChart] = []
    fronts: list[ObjectiveChart] = []
    rungs_shown = 0
    for rung in reversed(ladder[: last + 1]):
        found = _named(objective_values(connection, row, rung, wanted), objectives)
        if not found or rungs_shown == SHOWN_RUNGS:
            continue
        rungs_shown += 1
        for objective in objectives:
            distributions += _distribution(row, rung, objective, found)
        if len(wanted) > 1:
            fronts += _front(connection, row, rung, objectives[:2], found)
    return ObjectiveCharts(distributions, fronts)


def _named(found: Sequence[ObjectiveValues], objectives: Sequence[Mapping[str, Any]]) -> Sequence[ObjectiveValues]:
    """Returns the candidates, of which none is called a miss where no objective has limits."""
    if any(set(o.get("accept") or ()) - {None} for o in objectives):
        return found
    return [replace(candidate, kind="settled") if candidate.kind == "verified" else candidate for candidate in found]


def _distribution(
    row: CampaignRow, rung: RungRow, objective: Mapping[str, Any], found: Sequence[ObjectiveValues]
) -> list[ObjectiveChart]:
    name = objective["property"]
    by_kind: dict[str, list[float]] = {}
    for candidate in found:
        if name in candidate.values:
            by_kind.setdefault(candidate.kind, []).append(candidate.values[name])
    if (n := sum(map(len, by_kind.values()))) < FEWEST:
        return []
    label = f"{with_unit(name, unit_of(name, row.units))} at {rung.name}"
    window = limits(row, rung, name)
    chart = charts.distribution(by_kind, label, window, f"spread-{rung.position}-{name}")
    return [ObjectiveChart(words(name), rung.name, n, chart, limited=any(edge is not None for edge in window or ()))]


def _front(
    connection: Connection,
    row: CampaignRow,
    rung: RungRow,
    objectives: Sequence[Mapping[str, Any]],
    found: Sequence[ObjectiveValues],
) -> list[ObjectiveChart]:
    x, y = (objective["property"] for objective in objectives)
    both = [candidate for candidate in found if x in candidate.values and y in candidate.values]
    chosen = thinned(both, POINTS)
    if len(chosen) < FEWEST:
        return []
    ids = [candidate.candidate_id for candidate in chosen]
    members = report_candidates.members(connection, row, ids)
    points = [
        NamedPoint(candidate.values[x], candidate.values[y], candidate.kind, members[candidate.candidate_id].label)
        for candidate in chosen
    ]
    chart = charts.pareto(
        points,
        [f"{with_unit(name, unit_of(name, row.units))} at {rung.name}" for name in (x, y)],
        [limits(row, rung, name) for name in (x, y)],
        [objective["direction"] for objective in objectives],
        f"pareto-{rung.position}",
    )
    return [ObjectiveChart(f"{words(x)} and {words(y)}", rung.name, len(both), chart, len(chosen))]


def thinned(candidates: Sequence[ObjectiveValues], most: int) -> Sequence[ObjectiveValues]:
    """Returns all candidates, or the best sixth of `most` with others at equal distances in the order."""
    if len(candidates) <= most:
        return candidates
    best = most // 6
    step = (len(candidates) - best) / (most - best)
    return [*candidates[:best], *(candidates[best + int(i * step)] for i in range(most - best))]
