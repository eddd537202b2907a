"""Series and comparisons of a report: progress against cost, values for the objectives, and pairs of values from two
sources.

Progress is hits and best utility against the core-seconds booked so far, for a campaign and for each of its proposers.

Pairs are values of the same candidates from two rungs, from imports and a rung, or from two campaigns. Replicates are
pooled.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.answers.status import SharedCandidates, ValueSpread
from sciagent.domain.answers.values import CandidateName
from sciagent.domain.chosen_units import Units, shown_quantity
from sciagent.domain.outcomes import Outcome
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.domain.states import Standing
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among
from sciagent.store.results.candidates import names_of
from sciagent.store.results.evidence import IMPORT_VERIFIER
from sciagent.store.views.candidates import is_of_rung, rung_values
from sciagent.store.views.episodes import join_of_job_costs, turn_cost
from sciagent.store.views.queries import join_of_booked_costs, stream, with_proposer

_CC = t.campaign_candidate.c
_P = t.proposal.c
_U = t.turn.c
_J = t.trajectory.c
_Event = tuple[datetime, str | None, float, bool | None, float | None]  # time, proposer, core-seconds, hit, utility


@dataclass(frozen=True)
class ProgressStep:
    """The state of a campaign, or of a proposer, after `core_seconds` of booked cost."""

    core_seconds: float
    hits: int
    utility: float | None
    """The best utility so far; None before the first."""


def progress(connection: Connection, row: CampaignRow, terminal: RungRow, points: int = 800) -> list[ProgressStep]:
    """Steps of the whole campaign, with all core-seconds booked before; at most 2 x `points` steps are kept."""
    events = (
        _paid(connection, row, terminal, join_of_booked_costs(), sa.null()),
        _reused(connection, row, terminal, sa.null()),
    )
    start = ProgressStep(0.0, 0, None)
    return _steps(heapq.merge(*events, key=lambda event: event[0]), points).get(None, [start, start])


def progress_by_proposer(
    connection: Connection, row: CampaignRow, terminal: RungRow, points: int = 300
) -> dict[str | None, list[ProgressStep]]:
    """Steps of each proposer, with the core-seconds booked for its candidates and its own turns."""
    events = (
        _paid(connection, row, terminal, with_proposer(join_of_job_costs()), _J.proposer),
        _reused(connection, row, terminal, _J.proposer),
        _turns(connection, row),
    )
    return _steps(heapq.merge(*events, key=lambda event: event[0]), points)


def _steps(events: Iterable[_Event], points: int) -> dict[str | None, list[ProgressStep]]:
    """The steps of each proposer at which hits or utility changed, thinned out, with the first and the last."""
    steps: dict[str | None, list[ProgressStep]] = {}
    cost: dict[str | None, float] = {}
    for _, who, amount, hit, utility in events:
        mine = steps.setdefault(who, [ProgressStep(0.0, 0, None)])
        cost[who] = cost.get(who, 0.0) + amount
        best = max((value for value in (mine[-1].utility, utility) if value is not None), default=None)
        if hit or best != mine[-1].utility:
            mine.append(ProgressStep(cost[who], mine[-1].hits + bool(hit), best))
            if len(mine) > 2 * points:
                steps[who] = [mine[0], *mine[1:-1:2], mine[-1]]
    for who, mine in steps.items():
        mine.append(ProgressStep(cost[who], mine[-1].hits, mine[-1].utility))
    return steps


def _paid(connection: Connection, row: CampaignRow, terminal: RungRow, costs: Any, proposer: Any) -> Iterator[_Event]:
    """Booked core-seconds, with hit and utility if they paid for an answer of the terminal rung."""
    s = t.spend.c
    a = t.attempt.c
    settles = sa.and_(a.outcome == Outcome.OK, s.rung_id == terminal.id, t.job.c.replicate == 0)
    query = (
        sa.select(s.at, proposer, s.amount, sa.case((settles, _CC.is_hit)), sa.case((settles, _CC.utility)))
        .select_from(costs)
        .where(s.campaign_id == row.id, s.resource == "core_seconds")
        .order_by(s.at, s.id)
    )
    yield from stream(connection, query)


def _reused(connection: Connection, row: CampaignRow, terminal: RungRow, proposer: Any) -> Iterator[_Event]:
    """Answers of the terminal rung that were reused."""
    d = t.decision.c
    here = sa.and_(_CC.campaign_id == d.campaign_id, _CC.candidate_id == d.candidate_id)
    joined = t.decision.join(t.campaign_candidate, here).outerjoin(t.proposal, _P.id == _CC.proposal_id)
    query = (
        sa.select(d.at, proposer, sa.literal(0.0), _CC.is_hit, _CC.utility)
        .select_from(with_proposer(joined))
        .where(d.rung_id == terminal.id, d.action == "reuse")
        .order_by(d.at, d.id)
    )
    yield from stream(connection, query)


def _turns(connection: Connection, row: CampaignRow) -> Iterator[_Event]:
    """The cost of the proposers' own turns."""
    query = (
        sa.select(_U.at, _J.proposer, turn_cost("core_seconds"))
        .select_from(t.trajectory.join(t.turn, _U.trajectory_id == _J.id))
        .where(_J.campaign_id == row.id)
        .order_by(_U.at, _U.id)
    )
    for at, who, amount in stream(connection, query):
        yield at, who, float(amount or 0.0), None, None


_STANDING = t.campaign_candidate.c
MAX_CANDIDATES = 20_000  # candidates of a rung that are read, the best first


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
        .limit(MAX_CANDIDATES)
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


ROWS_PER_CHUNK = 500
MAX_NAMED_HITS = 10  # number of shared hits that are named
_LITERAL: sa.ColumnElement[str] = sa.literal_column(
    f"'{IMPORT_VERIFIER}'"
)  # the index of imported evidence serves no bound parameter on SQLite


class Replicates(NamedTuple):
    """One source's values of one property of a candidate, at one level, in the unit that the campaign chose."""

    level_id: int
    values: list[tuple[float, float | None]]
    """(value, standard uncertainty or None if unknown) of each replicate."""
    is_censored: bool
    """Whether one of the values is only a limit."""


def replicate_pairs(
    connection: Connection, row: CampaignRow, lower: RungRow | None, upper: RungRow, property_name: str
) -> Iterator[tuple[Replicates, Replicates, bool]]:
    """Yields (values of `lower`, values of `upper`, whether it is a hit) for candidates with values of both sources.

    lower: a rung, or None for imported values; these count beside all values of `upper`, whichever campaign paid for
    them. A candidate has one pair for each combination of levels.
    """
    e = t.current_evidence.c
    from_files = sa.exists().where(e.candidate_id == _CC.candidate_id, e.verifier == IMPORT_VERIFIER)
    candidates = sa.select(_CC.candidate_id, _CC.is_hit).where(
        _CC.campaign_id == row.id,
        _CC.is_hit.in_([True, False]),
        from_files if lower is None else _CC.depth >= upper.position,
    )
    for rows in connection.execute(candidates, execution_options={"yield_per": ROWS_PER_CHUNK}).partitions():
        hits = dict(map(tuple, rows))
        xs = _replicates(connection, lower, property_name, list(hits), row.units)
        for candidate_id, ys in _replicates(connection, upper, property_name, list(xs), row.units).items():
            for x, y in product(xs[candidate_id], ys):
                yield x, y, bool(hits[candidate_id])


def _replicates(
    connection: Connection, rung: RungRow | None, property_name: str, ids: Sequence[int], units: Units
) -> dict[int, list[Replicates]]:
    """Current values of a rung, or imported values, by candidate.

    There are two queries, since for a single one the database may first read every value of the property.
    """
    e = t.current_evidence.c
    q = t.quantity.c
    p = t.property_.c
    of_source = e.verifier == IMPORT_VERIFIER if rung is None else is_of_rung(rung)
    evidence = sa.select(e.id, e.candidate_id).where(among(connection, e.candidate_id, ids), of_source)
    owner = dict(map(tuple, connection.execute(evidence.order_by(e.id))))
    values = (
        sa.select(q.evidence_id, q.level_id, q.value, q.unit, q.uncertainty, q.censoring)
        .join(t.property_, sa.and_(p.id == q.property_id, p.name == property_name))
        .where(among(connection, q.evidence_id, list(owner)))
        .order_by(q.evidence_id, q.id)
    )
    groups: dict[int, dict[int, list[Quantity]]] = {}
    for evidence_id, level_id, value, unit, spread, censoring in connection.execute(values):
        quantity = shown_quantity(property_name, Quantity(value, unit, spread, Censoring(censoring)), units)
        groups.setdefault(owner[evidence_id], {}).setdefault(level_id, []).append(quantity)
    return {
        candidate_id: [
            Replicates(
                level_id,
                [(q.value, q.uncertainty) for q in values],
                any(q.censoring is not Censoring.NONE for q in values),
            )
            for level_id, values in by_level.items()
        ]
        for candidate_id, by_level in groups.items()
    }


def imported_properties(connection: Connection, row: CampaignRow) -> list[str]:
    """Names of the properties for which candidates of the campaign have imported values."""
    e = t.current_evidence.c
    q = t.quantity.c
    p = t.property_.c
    query = (
        sa.select(p.name)
        .distinct()
        .select_from(t.campaign_candidate)
        .join(t.current_evidence, sa.and_(e.candidate_id == _CC.candidate_id, e.verifier == _LITERAL))
        .join(t.quantity, q.evidence_id == e.id)
        .join(t.property_, p.id == q.property_id)
        .where(_CC.campaign_id == row.id)
        .order_by(p.name)
    )
    return list(connection.execute(query).scalars())


def experimental_levels(connection: Connection, ids: Sequence[int]) -> set[int]:
    """Those of the levels that are experiments: they have neither a basis set nor a computed geometry."""
    rows = connection.execute(sa.select(t.level.c.id, t.level.c.spec).where(t.level.c.id.in_(ids)))
    return {int(id_) for id_, spec in rows if not (spec.get("basis") or spec.get("geometry"))}


def level_labels(connection: Connection, ids: Sequence[int]) -> dict[int, str]:
    """{level id: label}."""
    query = sa.select(t.level.c.id, t.level.c.label).where(t.level.c.id.in_(ids))
    return dict(map(tuple, connection.execute(query)))


def shared_candidates(connection: Connection, first: CampaignRow, second: CampaignRow) -> SharedCandidates:
    """The candidates and hits that two campaigns share, and the first of the shared hits."""
    a = t.campaign_candidate.alias("a")
    b = t.campaign_candidate.alias("b")
    joined = a.join(b, sa.and_(b.c.candidate_id == a.c.candidate_id, b.c.campaign_id == second.id))
    both_hit = sa.and_(a.c.is_hit, b.c.is_hit)
    sums = (sa.func.coalesce(sa.func.sum(sa.case((hit, 1), else_=0)), 0) for hit in (both_hit, a.c.is_hit, b.c.is_hit))
    counted = sa.select(sa.func.count(), *sums).select_from(joined).where(a.c.campaign_id == first.id)
    n, both, hits_of_first, hits_of_second = connection.execute(counted).one()
    query = (
        sa.select(t.candidate.c.id, t.candidate.c.key, t.candidate.c.kind, t.candidate.c.text)
        .select_from(joined.join(t.candidate, t.candidate.c.id == a.c.candidate_id))
        .where(a.c.campaign_id == first.id, both_hit)
        .order_by(a.c.seq)
        .limit(MAX_NAMED_HITS)
    )
    hits = connection.execute(query).all()
    names = names_of(connection, [hit.id for hit in hits], [first.id, second.id])
    return SharedCandidates(
        both=n,
        hits_of_both=both,
        hits_of_first_known_to_second=hits_of_first,
        hits_of_second_known_to_first=hits_of_second,
        shared_hits=tuple(
            CandidateName(key=key, kind=kind, text=text, names=names.get(id_, {})) for id_, key, kind, text in hits
        ),
    )


def value_spreads(
    connection: Connection, row: CampaignRow, rung: RungRow, name: str, units: Units
) -> tuple[ValueSpread, ...]:
    """Statistics of a rung's values of a property, by level; usually there is one level.

    Only candidates that the campaign itself took to the rung count; the ledger may have values of others.
    units: units of the answer, by property.
    """
    e = t.current_evidence.c
    q = t.quantity.c
    p = t.property_.c
    level = t.level.c
    statistics = (sa.func.count(), sa.func.min(q.value), sa.func.avg(q.value), sa.func.max(q.value))
    query = (
        sa.select(level.label, q.unit, *statistics)
        .select_from(t.campaign_candidate)
        .join(t.current_evidence, e.candidate_id == _CC.candidate_id)
        .join(t.quantity, q.evidence_id == e.id)
        .join(t.property_, sa.and_(p.id == q.property_id, p.name == name))
        .join(t.level, level.id == q.level_id)
        .where(_CC.campaign_id == row.id, _CC.depth >= rung.position, is_of_rung(rung), q.censoring == "none")
        .group_by(level.label, q.unit)
    )
    fit = rung.fits.get(name)
    found = []
    for label, unit, n, *numbers in connection.execute(query):
        low, mean, high = (Quantity(fit.value(number) if fit else number, unit) for number in numbers)
        level_label = fit.level_of(label) if fit else label
        found.append(ValueSpread(level=level_label, **_spread(name, mean, low, high, units), n=n))
    return tuple(found)


def _spread(name: str, mean: Quantity, low: Quantity, high: Quantity, units: Units) -> dict[str, Any]:
    """Returns the unit, the lowest, mean and highest value in the unit in which the property is shown."""
    shown = shown_quantity(name, mean, units)
    lowest, highest = sorted(shown_quantity(name, end, units).value for end in (low, high))
    return {"unit": shown.unit, "low": lowest, "mean": shown.value, "high": highest}
