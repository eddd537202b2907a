"""Series and comparisons of a report: progress, values for the objectives, pairs of values, and two campaigns.

Progress is hits, best utility and the amount of every resource booked so far, by time, for a campaign and for each of
its proposers; the verdicts are those that stand now.
Pairs are values of the same candidates from two rungs, or from imports and a rung. Two campaigns are compared by the
candidates that they share, and by statistics of a rung's values.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from sciagent.store.views.report_candidates import is_of_rung, rung_values
from sciagent.store.views.report_episodes_and_proposers import join_of_job_costs, turn_cost
from sciagent.store.views.report_queries import stream, with_proposer

# written into the statement, since SQLite does not use the index of imported evidence for a bound parameter
_IMPORT_LITERAL: sa.ColumnElement[str] = sa.literal_column(f"'{IMPORT_VERIFIER}'")

_CC = t.campaign_candidate.c
_P = t.proposal.c
_U = t.turn.c
_T = t.trajectory.c
MAX_SPENDING_POINTS = 150  # about half as many as are kept of a campaign's spending


@dataclass(frozen=True)
class ProgressStep:
    """The state of a campaign, or of a proposer, at a moment."""

    at: datetime
    costs: Mapping[str, float]
    """{resource: amount booked until then}."""
    hits: int
    utility: float | None
    """The best utility so far; None before the first."""


@dataclass(frozen=True)
class SpendingPoint:
    """What a campaign had spent at a moment."""

    at: datetime
    amounts: Mapping[tuple[int | None, str], float]
    """{(rung id, or None for the proposers, resource): amount booked until then}."""


@dataclass(frozen=True)
class CampaignProgress:
    """Hits, best utility and spending of a campaign from its start to its last booking or answer."""

    steps: list[ProgressStep]
    """The first and the last state, and those at which hits or utility changed."""
    spending: list[SpendingPoint]
    """In order of time; the last one has all that was booked."""


@dataclass(frozen=True)
class _Booking:
    """An amount that was booked."""

    at: datetime
    proposer: str | None
    rung_id: int | None
    resource: str
    amount: float


@dataclass(frozen=True)
class _Answer:
    """The answer that decided a candidate."""

    at: datetime
    proposer: str | None
    is_hit: bool
    utility: float | None


def progress(connection: Connection, row: CampaignRow, terminal: RungRow, points: int = 800) -> CampaignProgress:
    """Returns the progress of the whole campaign, with every resource. About 2 x `points` steps are kept.

    The hits are those that stand now. Each counts from the moment at which it became known: from the deciding rung's
    last answer, from the correction that made it a hit, or from the import of the measured value that decides.
    """
    everybody = sa.null()
    bookings = _bookings(connection, row, t.spend, everybody)
    answers = _answers(connection, row, terminal, everybody)
    spending = _SpendingPoints(MAX_SPENDING_POINTS)
    steps = _steps(_in_order(spending.recorded(bookings), answers), row.created_at, points)
    start = ProgressStep(at=row.created_at, costs={}, hits=0, utility=None)
    # no proposer was selected, so that all steps are those of None
    return CampaignProgress(steps.get(None, [start, start]), spending.points)


def progress_by_proposer(
    connection: Connection, row: CampaignRow, terminal: RungRow, resource: str = "core_seconds", points: int = 300
) -> dict[str | None, list[ProgressStep]]:
    """Returns the steps of each proposer, with the amounts of one resource that were booked for its candidates and its
    own turns."""
    of_jobs = _bookings(connection, row, with_proposer(join_of_job_costs()), _T.proposer, resource)
    bookings = heapq.merge(of_jobs, _turns(connection, row, resource), key=lambda booking: booking.at)
    answers = _answers(connection, row, terminal, _T.proposer)
    return _steps(_in_order(bookings, answers), row.created_at, points)


def _in_order(bookings: Iterable[_Booking], answers: Iterable[_Answer]) -> Iterator[_Booking | _Answer]:
    """Merges both by time. Of equal times the booking comes first, since it paid for the answer."""
    return heapq.merge(bookings, answers, key=lambda event: event.at)


class _SpendingPoints:
    """Collects about 2 x `limit` points of a campaign's spending while its bookings are read."""

    def __init__(self, limit: int) -> None:
        self.points: list[SpendingPoint] = []
        self._limit = limit
        self._bookings_per_point = 1

    def recorded(self, bookings: Iterable[_Booking]) -> Iterator[_Booking]:
        """Yields the bookings, and writes the points. The last point has all of them."""
        amounts: dict[tuple[int | None, str], float] = {}
        last: datetime | None = None
        for number, booking in enumerate(bookings):
            key = (booking.rung_id, booking.resource)
            amounts[key] = amounts.get(key, 0.0) + booking.amount
            last = booking.at
            if number % self._bookings_per_point == 0:
                self._add(SpendingPoint(booking.at, dict(amounts)))
            yield booking
        if last is not None:
            self.points.append(SpendingPoint(last, amounts))

    def _add(self, point: SpendingPoint) -> None:
        if self.points and self.points[-1].at == point.at:
            self.points[-1] = point  # the resources of one booking
            return
        self.points.append(point)
        if len(self.points) > 2 * self._limit:
            self.points = self.points[::2]
            self._bookings_per_point *= 2


def _steps(
    events: Iterable[_Booking | _Answer], started_at: datetime, points: int
) -> dict[str | None, list[ProgressStep]]:
    """The steps of each proposer at which hits or utility changed, thinned out, with the first and the last step.

    events: in the order of their times. points: each time that a proposer has more than twice as many steps, every
    second step is dropped.
    """
    steps: dict[str | None, list[ProgressStep]] = {}
    costs: dict[str | None, dict[str, float]] = {}
    last_at: dict[str | None, datetime] = {}
    for event in events:
        proposer = event.proposer
        start = ProgressStep(at=started_at, costs={}, hits=0, utility=None)
        own_steps = steps.setdefault(proposer, [start])
        own_costs = costs.setdefault(proposer, {})
        last_at[proposer] = event.at
        if isinstance(event, _Booking):
            own_costs[event.resource] = own_costs.get(event.resource, 0.0) + event.amount
            continue
        last = own_steps[-1]
        known_utilities = [value for value in (last.utility, event.utility) if value is not None]
        best_utility = max(known_utilities, default=None)
        if event.is_hit or best_utility != last.utility:
            hits = last.hits + 1 if event.is_hit else last.hits
            own_steps.append(ProgressStep(event.at, dict(own_costs), hits, best_utility))
            if len(own_steps) > 2 * points:
                every_second = own_steps[1:-1:2]
                steps[proposer] = [own_steps[0], *every_second, own_steps[-1]]
    for proposer, own_steps in steps.items():
        last = own_steps[-1]
        own_steps.append(ProgressStep(last_at[proposer], costs[proposer], last.hits, last.utility))
    return steps


def _bookings(
    connection: Connection, row: CampaignRow, costs: Any, proposer: Any, resource: str | None = None
) -> Iterator[_Booking]:
    """The bookings of a campaign in order of time.

    costs: the table of spending, or a join with it. proposer: the column of the proposer, or NULL. resource: None for
    all of them.
    """
    s = t.spend.c
    query = sa.select(s.at, proposer, s.rung_id, s.resource, s.amount).select_from(costs)
    query = query.where(s.campaign_id == row.id)
    if resource is not None:
        query = query.where(s.resource == resource)
    for booking in stream(connection, query.order_by(s.at, s.id)):
        yield _Booking(*booking)


def _answers(connection: Connection, row: CampaignRow, terminal: RungRow, proposer: Any) -> Iterator[_Answer]:
    """The answers that decided: of each candidate with a utility, and of each hit, in order of time."""
    corrected_at = _corrections_to_hits(connection, row)
    by_rung = _answers_of_rung(connection, row, terminal, proposer, corrected_at)
    without_rung = _hits_without_rung(connection, row, terminal, proposer, corrected_at)
    return heapq.merge(by_rung, without_rung, key=lambda answer: answer.at)


def _corrections_to_hits(connection: Connection, row: CampaignRow) -> dict[int, datetime]:
    """{candidate id: time of the last correction of an answer that made it a hit}."""
    e = t.event.c
    query = sa.select(e.at, e.payload).where(e.campaign_id == row.id, e.kind == "restated").order_by(e.id)
    corrected_at = {}
    for at, payload in connection.execute(query):
        was_hit, is_hit = payload["is_hit"]
        if is_hit and not was_hit:
            corrected_at[int(payload["candidate_id"])] = at
    return corrected_at


def _answered_by_rung(row: CampaignRow, terminal: RungRow) -> sa.Subquery:
    """(candidate id, time) of the last answer of the terminal rung on each candidate, of its own jobs or reused.

    A booking that came after the answer of its attempt counts as the time of the answer, which it paid for.
    """
    s = t.spend.c
    a = t.attempt.c
    j = t.job.c
    d = t.decision.c
    booked = sa.select(s.attempt_id, sa.func.max(s.at).label("at")).where(
        s.campaign_id == row.id, s.rung_id == terminal.id, s.attempt_id.is_not(None)
    )
    bookings = booked.group_by(s.attempt_id).subquery()
    ended_at = sa.func.coalesce(a.ended_at, bookings.c.at)
    answered_at = sa.case((bookings.c.at > ended_at, bookings.c.at), else_=ended_at)
    of_jobs = (
        sa.select(j.candidate_id, answered_at.label("at"))
        .select_from(t.job.join(t.attempt, a.job_id == j.id).outerjoin(bookings, bookings.c.attempt_id == a.id))
        .where(j.rung_id == terminal.id, a.outcome == Outcome.OK)
    )
    reused = sa.select(d.candidate_id, d.at).where(d.rung_id == terminal.id, d.action == "reuse")
    answers = sa.union_all(of_jobs, reused).subquery()
    last_at = sa.func.max(answers.c.at).label("at")
    return sa.select(answers.c.candidate_id, last_at).group_by(answers.c.candidate_id).subquery()


def _answers_of_rung(
    connection: Connection, row: CampaignRow, terminal: RungRow, proposer: Any, corrected_at: Mapping[int, datetime]
) -> Iterator[_Answer]:
    """The answers of the terminal rung; a hit that a correction made is left out."""
    answered = _answered_by_rung(row, terminal)
    is_member = sa.and_(_CC.campaign_id == row.id, _CC.candidate_id == answered.c.candidate_id)
    joined = answered.join(t.campaign_candidate, is_member).outerjoin(t.proposal, _P.id == _CC.proposal_id)
    is_decided = sa.or_(_CC.is_hit, _CC.utility.is_not(None))
    at: sa.ColumnElement[datetime] = answered.c.at
    if row.spec.get("measured") == "decide":
        imported_at = _imported_at()
        at = sa.case((sa.and_(_CC.is_hit, imported_at > at), imported_at), else_=at)
    query = sa.select(at.label("at"), proposer, _CC.is_hit, _CC.utility, _CC.candidate_id)
    query = query.select_from(with_proposer(joined)).where(is_decided).order_by("at", _CC.candidate_id)
    for moment, who, is_hit, utility, candidate_id in stream(connection, query):
        if not (is_hit and candidate_id in corrected_at):
            yield _Answer(moment, who, is_hit, utility)


def _hits_without_rung(
    connection: Connection, row: CampaignRow, terminal: RungRow, proposer: Any, corrected_at: Mapping[int, datetime]
) -> list[_Answer]:
    """The hits that no answer of the terminal rung decided, and those that a correction made, in order of time.

    A measured value counts from its import, or from the proposal of the candidate if that came later. Of any other hit
    the time of its last change counts.
    """
    answered = _answered_by_rung(row, terminal)
    imported_at = _imported_at()
    known_at = sa.case((imported_at.is_(None), _CC.updated_at), (_P.at > imported_at, _P.at), else_=imported_at)
    has_no_answer = _CC.candidate_id.not_in(sa.select(answered.c.candidate_id))
    was_corrected = among(connection, _CC.candidate_id, list(corrected_at))
    joined = t.campaign_candidate.outerjoin(t.proposal, _P.id == _CC.proposal_id)
    query = (
        sa.select(known_at, proposer, _CC.is_hit, _CC.utility, _CC.candidate_id)
        .select_from(with_proposer(joined))
        .where(_CC.campaign_id == row.id, _CC.is_hit == sa.true(), sa.or_(has_no_answer, was_corrected))
    )
    answers = []
    for moment, who, is_hit, utility, candidate_id in connection.execute(query):
        at = corrected_at.get(candidate_id, moment)
        answers.append(_Answer(at, who, is_hit, utility))
    return sorted(answers, key=lambda answer: answer.at)


def _imported_at() -> sa.ColumnElement[datetime]:
    """A column with the time of the last current import of a value of the candidate; NULL without one."""
    e = t.current_evidence.c
    imports = sa.select(sa.func.max(e.at)).where(e.candidate_id == _CC.candidate_id, e.verifier == _IMPORT_LITERAL)
    return imports.correlate(t.campaign_candidate).scalar_subquery()


def _turns(connection: Connection, row: CampaignRow, resource: str) -> Iterator[_Booking]:
    """The cost of the proposers' own turns."""
    query = (
        sa.select(_U.at, _T.proposer, turn_cost(resource))
        .select_from(t.trajectory.join(t.turn, _U.trajectory_id == _T.id))
        .where(_T.campaign_id == row.id)
        .order_by(_U.at, _U.id)
    )
    for at, who, amount in stream(connection, query):
        yield _Booking(at, who, None, resource, float(amount or 0.0))


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


def charges(connection: Connection, ids: Sequence[int]) -> dict[int, int]:
    """{candidate id: total charge}."""
    c = t.candidate.c
    return {
        id_: charge for id_, charge in connection.execute(sa.select(c.id, c.charge).where(among(connection, c.id, ids)))
    }


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
