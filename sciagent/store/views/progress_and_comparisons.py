"""Series and comparisons of a report: progress, values for the objectives, pairs of values, and two campaigns.

Progress is hits and best utility against the core-seconds booked so far, for a campaign and for each of its proposers.
Pairs are values of the same candidates from two rungs, or from imports and a rung. Two campaigns are compared by the
candidates that they share, and by statistics of a rung's values.
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

from sciagent.domain.answers.candidate_and_value_answers import CandidateName
from sciagent.domain.answers.status_and_comparison import SharedCandidates, ValueSpread
from sciagent.domain.display_units import Units, quantity_in_chosen_unit
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.domain.states_and_needs import Standing
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among
from sciagent.store.results.candidates import names_of
from sciagent.store.results.evidence import IMPORT_VERIFIER
from sciagent.store.results.pooled_replicates import is_experimental
from sciagent.store.views.report_candidates import is_of_rung, rung_values
from sciagent.store.views.report_episodes_and_proposers import join_of_job_costs, turn_cost
from sciagent.store.views.report_queries import join_of_booked_costs, stream, with_proposer

_CC = t.campaign_candidate.c
_P = t.proposal.c
_U = t.turn.c
_T = t.trajectory.c
_Event = tuple[datetime, str | None, float, bool | None, float | None]
"""(time, proposer, core-seconds, whether the answer is a hit, its utility); the last two are None if the cost bought no
answer of the terminal rung."""


@dataclass(frozen=True)
class ProgressStep:
    """The state of a campaign, or of a proposer, after `core_seconds` of booked cost."""

    core_seconds: float
    hits: int
    utility: float | None
    """The best utility so far; None before the first."""


def progress(connection: Connection, row: CampaignRow, terminal: RungRow, points: int = 800) -> list[ProgressStep]:
    """Steps of the whole campaign, each with all core-seconds booked before it; about 2 x `points` steps are kept."""
    events = (
        _paid(connection, row, terminal, join_of_booked_costs(), sa.null()),
        _reused(connection, row, terminal, sa.null()),
    )
    start = ProgressStep(core_seconds=0.0, hits=0, utility=None)
    steps = _steps(heapq.merge(*events, key=lambda event: event[0]), points)
    return steps.get(None, [start, start])  # no proposer was selected, so that all events have None


def progress_by_proposer(
    connection: Connection, row: CampaignRow, terminal: RungRow, points: int = 300
) -> dict[str | None, list[ProgressStep]]:
    """Steps of each proposer, with the core-seconds booked for its candidates and its own turns."""
    events = (
        _paid(connection, row, terminal, with_proposer(join_of_job_costs()), _T.proposer),
        _reused(connection, row, terminal, _T.proposer),
        _turns(connection, row),
    )
    return _steps(heapq.merge(*events, key=lambda event: event[0]), points)


def _steps(events: Iterable[_Event], points: int) -> dict[str | None, list[ProgressStep]]:
    """The steps of each proposer at which hits or utility changed, thinned out, with the first and the last step.

    events: in the order of their times. points: each time that a proposer has more than twice as many steps, every
    second step is dropped.
    """
    steps: dict[str | None, list[ProgressStep]] = {}
    cost: dict[str | None, float] = {}
    for _, proposer, amount, hit, utility in events:
        own_steps = steps.setdefault(proposer, [ProgressStep(core_seconds=0.0, hits=0, utility=None)])
        last = own_steps[-1]
        cost[proposer] = cost.get(proposer, 0.0) + amount
        known_utilities = [value for value in (last.utility, utility) if value is not None]
        best_utility = max(known_utilities, default=None)
        if hit or best_utility != last.utility:
            hits = last.hits + 1 if hit else last.hits
            own_steps.append(ProgressStep(cost[proposer], hits, best_utility))
            if len(own_steps) > 2 * points:
                every_second = own_steps[1:-1:2]
                steps[proposer] = [own_steps[0], *every_second, own_steps[-1]]
    for proposer, own_steps in steps.items():
        last = own_steps[-1]
        own_steps.append(ProgressStep(cost[proposer], last.hits, last.utility))
    return steps


def _paid(connection: Connection, row: CampaignRow, terminal: RungRow, costs: Any, proposer: Any) -> Iterator[_Event]:
    """Booked core-seconds, with hit and utility if they paid for an answer of the terminal rung.

    costs: a join with the columns of spend, attempt, job and candidate. proposer: the column of the proposer, or NULL.
    """
    s = t.spend.c
    a = t.attempt.c
    # the first replicate alone counts, so that a hit is counted once
    is_answer = sa.and_(a.outcome == Outcome.OK, s.rung_id == terminal.id, t.job.c.replicate == 0)
    query = (
        sa.select(s.at, proposer, s.amount, sa.case((is_answer, _CC.is_hit)), sa.case((is_answer, _CC.utility)))
        .select_from(costs)
        .where(s.campaign_id == row.id, s.resource == "core_seconds")
        .order_by(s.at, s.id)
    )
    yield from stream(connection, query)


def _reused(connection: Connection, row: CampaignRow, terminal: RungRow, proposer: Any) -> Iterator[_Event]:
    """Answers of the terminal rung that were reused."""
    d = t.decision.c
    is_member = sa.and_(_CC.campaign_id == d.campaign_id, _CC.candidate_id == d.candidate_id)
    joined = t.decision.join(t.campaign_candidate, is_member).outerjoin(t.proposal, _P.id == _CC.proposal_id)
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
        sa.select(_U.at, _T.proposer, turn_cost("core_seconds"))
        .select_from(t.trajectory.join(t.turn, _U.trajectory_id == _T.id))
        .where(_T.campaign_id == row.id)
        .order_by(_U.at, _U.id)
    )
    for at, who, amount in stream(connection, query):
        yield at, who, float(amount or 0.0), None, None


MAX_CANDIDATES = 20_000  # candidates of a rung that are read, the best first


@dataclass(frozen=True)
class ObjectiveValues:
    """The values that a rung gave one candidate for the objectives."""

    candidate_id: int
    kind: str
    """`hit`, `verified`, `open` or `fallen`, from `kind_of`."""
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
        sa.select(_CC.candidate_id, _CC.standing, _CC.is_hit)
        .where(_CC.campaign_id == row.id, _CC.depth >= rung.position)
        .order_by(*t.BEST_FIRST)
        .limit(MAX_CANDIDATES)
    )
    kinds = {id_: kind_of(standing, is_hit) for id_, standing, is_hit in connection.execute(query)}
    answers = rung_values(connection, list(kinds), rung)
    with_values = []
    for id_, kind in kinds.items():
        answer = answers.get(id_) or {}
        values = {}
        for name, quantity in answer.items():
            if name in names and quantity.censoring is Censoring.NONE:
                values[name] = quantity_in_chosen_unit(name, quantity, row.units).value
        if values:
            with_values.append(ObjectiveValues(id_, kind, values))
    return with_values


ROWS_PER_CHUNK = 500  # candidates that are read at a time
MAX_NAMED_HITS = 10  # number of shared hits that are named
# written into the statement, since SQLite does not use the index of imported evidence for a bound parameter
_IMPORT_LITERAL: sa.ColumnElement[str] = sa.literal_column(f"'{IMPORT_VERIFIER}'")


class Replicates(NamedTuple):
    """One source's values of one property of a candidate, at one level, in the unit that the campaign chose."""

    candidate_id: int
    level_id: int
    values: list[tuple[float, float | None]]
    """(value, standard uncertainty or None if unknown) of each replicate."""
    is_censored: bool
    """Whether one of the values is only a limit."""


def replicate_pairs(
    connection: Connection, row: CampaignRow, lower: RungRow | None, upper: RungRow, property_name: str
) -> Iterator[tuple[Replicates, Replicates, bool]]:
    """Yields (values of `lower`, values of `upper`, whether it is a hit) for candidates with values of both sources.

    lower: a rung; None for imported values, which are paired with the values of `upper` also where the candidate did
    not reach `upper` in this campaign. A candidate has one pair for each combination of levels.
    """
    e = t.current_evidence.c
    is_imported = sa.exists().where(e.candidate_id == _CC.candidate_id, e.verifier == IMPORT_VERIFIER)
    candidates = sa.select(_CC.candidate_id, _CC.is_hit).where(
        _CC.campaign_id == row.id,
        _CC.is_hit.in_([True, False]),  # both values, since the index has this column
        is_imported if lower is None else _CC.depth >= upper.position,
    )
    for rows in connection.execute(candidates, execution_options={"yield_per": ROWS_PER_CHUNK}).partitions():
        is_hit = {candidate_id: bool(hit) for candidate_id, hit in rows}
        lower_values = _replicates(connection, lower, property_name, list(is_hit), row.units)
        upper_values = _replicates(connection, upper, property_name, list(lower_values), row.units)
        for candidate_id, values_of_upper in upper_values.items():
            for of_lower, of_upper in product(lower_values[candidate_id], values_of_upper):
                yield of_lower, of_upper, is_hit[candidate_id]


def _replicates(
    connection: Connection, rung: RungRow | None, property_name: str, ids: Sequence[int], units: Units
) -> dict[int, list[Replicates]]:
    """{candidate id: current values of the property at each level}. rung: None for imported values.

    There are two queries, since for a single query the database may read every value of the property first.
    """
    e = t.current_evidence.c
    q = t.quantity.c
    p = t.property_.c
    is_of_source = e.verifier == IMPORT_VERIFIER if rung is None else is_of_rung(rung)
    evidence = sa.select(e.id, e.candidate_id).where(among(connection, e.candidate_id, ids), is_of_source)
    candidate_of = {evidence_id: id_ for evidence_id, id_ in connection.execute(evidence.order_by(e.id))}
    values = (
        sa.select(q.evidence_id, q.level_id, q.value, q.unit, q.uncertainty, q.censoring)
        .join(t.property_, sa.and_(p.id == q.property_id, p.name == property_name))
        .where(among(connection, q.evidence_id, list(candidate_of)))
        .order_by(q.evidence_id, q.id)
    )
    groups: dict[int, dict[int, list[Quantity]]] = {}
    for evidence_id, level_id, value, unit, uncertainty, censoring in connection.execute(values):
        quantity = quantity_in_chosen_unit(
            property_name, Quantity(value, unit, uncertainty, Censoring(censoring)), units
        )
        by_level = groups.setdefault(candidate_of[evidence_id], {})
        by_level.setdefault(level_id, []).append(quantity)
    return {
        candidate_id: [_as_replicates(candidate_id, level_id, quantities) for level_id, quantities in by_level.items()]
        for candidate_id, by_level in groups.items()
    }


def _as_replicates(candidate_id: int, level_id: int, quantities: Sequence[Quantity]) -> Replicates:
    values = [(quantity.value, quantity.uncertainty) for quantity in quantities]
    is_censored = any(quantity.censoring is not Censoring.NONE for quantity in quantities)
    return Replicates(candidate_id, level_id, values, is_censored)


def imported_properties(connection: Connection, row: CampaignRow) -> list[str]:
    """Names of the properties for which candidates of the campaign have imported values."""
    e = t.current_evidence.c
    q = t.quantity.c
    p = t.property_.c
    query = (
        sa.select(p.name)
        .distinct()
        .select_from(t.campaign_candidate)
        .join(t.current_evidence, sa.and_(e.candidate_id == _CC.candidate_id, e.verifier == _IMPORT_LITERAL))
        .join(t.quantity, q.evidence_id == e.id)
        .join(t.property_, p.id == q.property_id)
        .where(_CC.campaign_id == row.id)
        .order_by(p.name)
    )
    return list(connection.execute(query).scalars())


def experimental_levels(connection: Connection, ids: Sequence[int]) -> set[int]:
    """Ids of the levels that are experiments: an experiment has neither a basis set nor a computed geometry."""
    rows = connection.execute(sa.select(t.level.c.id, t.level.c.spec).where(t.level.c.id.in_(ids)))
    return {int(id_) for id_, spec in rows if is_experimental(spec)}


def charges(connection: Connection, ids: Sequence[int]) -> dict[int, int]:
    """{candidate id: total charge}."""
    c = t.candidate.c
    return {
        id_: charge for id_, charge in connection.execute(sa.select(c.id, c.charge).where(among(connection, c.id, ids)))
    }


def level_labels(connection: Connection, ids: Sequence[int]) -> dict[int, str]:
    """{level id: label}."""
    query = sa.select(t.level.c.id, t.level.c.label).where(t.level.c.id.in_(ids))
    return {id_: label for id_, label in connection.execute(query)}


def shared_candidates(connection: Connection, first: CampaignRow, second: CampaignRow) -> SharedCandidates:
    """The candidates and hits that two campaigns share, and the first of the shared hits."""
    a = t.campaign_candidate.alias("a")
    b = t.campaign_candidate.alias("b")
    joined = a.join(b, sa.and_(b.c.candidate_id == a.c.candidate_id, b.c.campaign_id == second.id))
    both_hit = sa.and_(a.c.is_hit, b.c.is_hit)
    columns: list[Any] = [sa.func.count()]
    for condition in (both_hit, a.c.is_hit, b.c.is_hit):
        n_meeting = sa.func.sum(sa.case((condition, 1), else_=0))
        columns.append(sa.func.coalesce(n_meeting, 0))
    counts: sa.Select[Any] = sa.select(*columns).select_from(joined).where(a.c.campaign_id == first.id)
    n_shared, n_hits_of_both, n_hits_of_first, n_hits_of_second = connection.execute(counts).one()
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
        both=n_shared,
        hits_of_both=n_hits_of_both,
        hits_of_first_known_to_second=n_hits_of_first,
        hits_of_second_known_to_first=n_hits_of_second,
        shared_hits=tuple(
            CandidateName(key=key, kind=kind, text=text, names=names.get(id_, {})) for id_, key, kind, text in hits
        ),
    )


def value_spreads(
    connection: Connection, row: CampaignRow, rung: RungRow, name: str, units: Units
) -> tuple[ValueSpread, ...]:
    """Statistics of a rung's values of a property, by level; usually there is one level.

    Only candidates that reached the rung in this campaign count; the ledger may have values of others.
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
    spreads = []
    for label, unit, n, *numbers in connection.execute(query):
        level_label = label
        if fit is not None:
            numbers = [fit.value(number) for number in numbers]
            level_label = fit.level_of(label)
        low, mean, high = (quantity_in_chosen_unit(name, Quantity(number, unit), units) for number in numbers)
        # a unit or a calibration may turn the order of the values round
        lowest, highest = sorted([low.value, high.value])
        spread = ValueSpread(level=level_label, unit=mean.unit, low=lowest, mean=mean.value, high=highest, n=n)
        spreads.append(spread)
    return tuple(spreads)
