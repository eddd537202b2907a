"""Builds the figures of a campaign: hits or the best utility against each resource and against time, and the spending
over time by rung.

Where people do the deciding rung, their resources come first: money, person-hours and lab slots. The report, the page
of the campaign, notebooks and `sciagent report --json` all show these figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy.engine import Connection

from sciagent.domain.answers.figures import Figure, FigureAxis, FigureSeries
from sciagent.domain.cost_and_budget import RESOURCE_UNITS
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.domain.states_and_needs import CampaignState
from sciagent.report.parts.wording import many, resource_words
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow, all_rungs
from sciagent.store.database.engine import db_now
from sciagent.store.views.progress_and_comparisons import CampaignProgress, ProgressStep, progress

PROPOSING = "proposers"
"""Name of the line with the costs of no rung."""
TIME = FigureAxis(name="time", words="time since the start", unit="s")
_OF_PEOPLE = ("money", "person_hours", "lab_slots")
_OF_MACHINES = ("core_seconds", "gpu_seconds", "llm_tokens")
_OTHERS = tuple(name for name in RESOURCE_UNITS if name not in (*_OF_PEOPLE, *_OF_MACHINES))
_AXIS_UNITS = {"core_seconds": "core-seconds", "gpu_seconds": "GPU-seconds"}
GOING_ON = (CampaignState.RUNNING, CampaignState.WAITING, CampaignState.PAUSED)


def terminal_of(row: CampaignRow, ladder: Sequence[RungRow]) -> RungRow:
    """Returns the rung that decides."""
    return next(rung for rung in ladder if rung.name == row.spec["terminal"])


def ordered_resources(booked: Mapping[str, float], terminal: RungRow) -> list[str]:
    """Returns the names of the resources of which something was booked, the most telling first.

    booked: {resource: amount}. Where people do the deciding rung, their resources come first.
    """
    if terminal.tier == Tier.WORLD:
        order = (*_OF_PEOPLE, *_OF_MACHINES, *_OTHERS)
    else:
        order = (*_OF_MACHINES, *_OF_PEOPLE, *_OTHERS)
    return [name for name in order if booked.get(name)]


def resource_axis(resource: str, of_what: str = "") -> FigureAxis:
    """Returns the axis of an amount that was booked, in the unit of the ledger. of_what: ends the words."""
    unit = _AXIS_UNITS.get(resource, RESOURCE_UNITS[resource])
    return FigureAxis(name=resource, words=f"{resource_words(resource)} booked{of_what}", unit=unit)


def campaign_figures(connection: Connection, row: CampaignRow, points: int = 800) -> tuple[Figure, ...]:
    """Returns the figures of a campaign that have something to show.

    points: about twice as many points of each line are kept. Without a hit, or without a utility where nothing defines
    hits, there are only those of the spending.
    """
    ladder = all_rungs(connection, row.id)
    terminal = terminal_of(row, ladder)
    reached = progress(connection, row, terminal, points)
    as_of = db_now(connection)
    resources = ordered_resources(reached.steps[-1].costs, terminal)
    figures = list[Figure]()
    lines = {row.name: reached.steps}
    for resource in resources:
        figures += reached_against(resource, row, terminal, lines, as_of)
    figures += _reached_over_time(row, terminal, reached.steps, as_of)
    figures += [_spending(resource, row, ladder, reached, as_of) for resource in resources]
    return tuple(figures)


def reached_against(
    resource: str,
    row: CampaignRow,
    terminal: RungRow,
    lines: Mapping[str, Sequence[ProgressStep]],
    as_of: datetime,
    of_what: str = ", all rungs",
) -> list[Figure]:
    """Returns the figure of hits, or of the best utility, against a resource; nothing if nothing was reached.

    lines: {campaign or proposer: its steps}. A campaign whose hits came before any cost has a line that rises at 0.
    of_what: ends the words of the x axis.
    """
    y_axis = _reached_axis(row)
    series = []
    for name, steps in lines.items():
        places = [step.costs.get(resource, 0.0) for step in steps]
        series.append(_line(name, places, _reached(row, steps)))
    if not _has_height(series):
        return []
    return [
        Figure(
            name=f"{y_axis.name}_against_{resource}",
            title=f"{_capital(y_axis.words)} against {resource_words(resource)}",
            shape="steps",
            x_axis=resource_axis(resource, of_what),
            y_axis=y_axis,
            series=tuple(series),
            rung=terminal.name,
            as_of=as_of,
            notes=(*_notes(row, terminal), *_notes_on_free_hits(row, resource, lines)),
        )
    ]


def _reached_over_time(
    row: CampaignRow, terminal: RungRow, steps: Sequence[ProgressStep], as_of: datetime
) -> list[Figure]:
    """Returns the figure of hits, or of the best utility, against time; nothing if nothing was reached."""
    y_axis = _reached_axis(row)
    places = [_elapsed(row, step.at) for step in steps]
    heights = _reached(row, steps)
    if row.state in GOING_ON:
        places.append(max(places[-1], _elapsed(row, as_of)))
        heights.append(heights[-1])
    line = _line(row.name, places, heights)
    if not _has_height([line]):
        return []
    return [
        Figure(
            name=f"{y_axis.name}_over_time",
            title=f"{_capital(y_axis.words)} over time",
            shape="steps",
            x_axis=TIME,
            y_axis=y_axis,
            series=(line,),
            rung=terminal.name,
            as_of=as_of,
            notes=_notes(row, terminal),
        )
    ]


def _spending(
    resource: str, row: CampaignRow, ladder: Sequence[RungRow], reached: CampaignProgress, as_of: datetime
) -> Figure:
    """Returns the figure of a resource's spending over time, with a line for each rung that has spent of it."""
    y_axis = resource_axis(resource)
    names: dict[int | None, str] = {rung.id: rung.name for rung in ladder}
    names[None] = PROPOSING
    series = []
    for rung_id, name in names.items():
        places = [0.0]
        heights = [0.0]
        for point in reached.spending:
            places.append(_elapsed(row, point.at))
            heights.append(point.amounts.get((rung_id, resource), 0.0))
        if row.state in GOING_ON:
            places.append(max(places[-1], _elapsed(row, as_of)))
            heights.append(heights[-1])
        if heights[-1]:
            series.append(FigureSeries(name=name, x=tuple(places), y=tuple(heights)))
    people = {rung.name for rung in ladder if rung.tier == Tier.WORLD}
    drawn = [line.name for line in series]
    return Figure(
        name=f"{resource}_over_time",
        title=f"{_capital(resource_words(resource))} booked over time, by rung",
        shape="stacked",
        x_axis=TIME,
        y_axis=y_axis,
        series=tuple(series),
        rung=None,
        as_of=as_of,
        notes=("The cost of a task is booked when a person claims it.",) if people.intersection(drawn) else (),
    )


def _line(name: str, places: Sequence[float], heights: Sequence[float | None]) -> FigureSeries:
    """Returns a line with the first and the last point and those at which the height changed; a point before the first
    height is left out."""
    x = list[float]()
    y = list[float]()
    known = [(place, height) for place, height in zip(places, heights, strict=True) if height is not None]
    for position, (place, height) in enumerate(known):
        is_last = position == len(known) - 1
        if not x or height != y[-1] or (is_last and place != x[-1]):
            x.append(place)
            y.append(height)
    return FigureSeries(name=name, x=tuple(x), y=tuple(y))


def _reached(row: CampaignRow, steps: Sequence[ProgressStep]) -> list[float | None]:
    """Returns the number of hits at each step; the best utility where nothing defines hits."""
    if row.has_limits:
        return [float(step.hits) for step in steps]
    return [step.utility for step in steps]


def _reached_axis(row: CampaignRow) -> FigureAxis:
    if row.has_limits:
        return FigureAxis(name="hits", words="hits", unit="1")
    return FigureAxis(name="utility", words="best utility so far", unit="1")


def _has_height(series: Sequence[FigureSeries]) -> bool:
    return any(max(line.y, default=0.0) > 0 for line in series)


def _elapsed(row: CampaignRow, at: datetime) -> float:
    """Returns the seconds from the start of the campaign to a moment."""
    return max(0.0, (at - row.created_at).total_seconds())


def _notes(row: CampaignRow, terminal: RungRow) -> tuple[str, ...]:
    """Returns sentences on what the curve counts."""
    if not row.has_limits:
        return (f"The best utility that {terminal.name} has decided so far; reused answers come at no cost.",)
    counted = "The hits that stand now, each from the moment at which it became known"
    return (f"{counted}; reused answers and imported values come at no cost.",)


def _notes_on_free_hits(
    row: CampaignRow, resource: str, lines: Mapping[str, Sequence[ProgressStep]]
) -> tuple[str, ...]:
    """Returns a sentence on the hits that were known before anything was booked of the resource."""
    n_free = 0
    for steps in lines.values():
        n_free += max((step.hits for step in steps if not step.costs.get(resource)), default=0)
    if not n_free or not row.has_limits:
        return ()
    verb = "was" if n_free == 1 else "were"
    return (f"{many(n_free, 'hit')} {verb} known before anything was booked of this resource.",)


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"
