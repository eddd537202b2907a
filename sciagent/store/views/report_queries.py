"""Queries of a report on a whole campaign: the funnel, costs, rejections, reuse, amendments, proposals.

Every query uses an index. Queries over all candidates of the campaign read each of them once, inside the database.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Verdict
from sciagent.domain.states_and_needs import AttemptState, Standing
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow, rungs
from sciagent.store.database import tables as t
from sciagent.store.views.campaign_counts_and_remarks import LadderPlace, count, places, was_sent_on

_CC = t.campaign_candidate.c
ROWS_PER_CHUNK = 500
UNDECIDED_OUTCOMES = (Outcome.NOT_CONVERGED, Outcome.IMPLAUSIBLE, Outcome.UNSTABLE)


@dataclass(frozen=True)
class Passage:
    """The numbers of candidates that reached a rung, by result."""

    rung: RungRow
    came: int
    """All candidates that reached the rung."""
    passed: int
    failed: int
    refused: int
    inconclusive: int
    errors: int
    waiting: int
    running: int
    set_aside: int
    """Held or vetoed by people at this rung."""


def funnel(connection: Connection, row: CampaignRow) -> list[Passage]:
    """The passage of each rung, in order. A refusal that was skipped counts as refused, not as passed."""
    counted = places(connection, row)
    return [_passage(connection, row, rung, counted) for rung in rungs(connection, row.id)]


def _passage(connection: Connection, row: CampaignRow, rung: RungRow, counted: Sequence[LadderPlace]) -> Passage:
    """The passage of one rung. counted: numbers of candidates at all rungs."""
    # a candidate whose place is this rung either waits for it or runs, or has ended here with a verdict, or was held or
    # vetoed
    unfinished: Counter[str] = Counter()  # by standing
    ended: Counter[str] = Counter()  # by verdict
    set_aside = 0
    for place in counted:
        if place.position != rung.position:
            continue
        if place.standing in (Standing.OPEN, Standing.PENDING):
            unfinished[place.standing] += place.candidates
        elif place.verdict is not None and place.standing in (Standing.DROPPED, Standing.SETTLED):
            ended[place.verdict] += place.candidates
        else:
            set_aside += place.candidates
    beyond = sum(place.candidates for place in counted if place.position > rung.position)
    ladder = row.spec.get("ladder", ())
    # candidates that the rung refused and that skipped it; they are beyond the rung now
    skipped = 0
    if rung.position < len(ladder) and ladder[rung.position].get("on_refusal") == "skip":
        # at least 0, since `_refused` does not count the refusals of fast rungs, which have no jobs
        n_refused_elsewhere = max(_refused(connection, rung) - ended[Verdict.NOT_APPLICABLE], 0)
        # new evidence may have put a refused candidate back to a lower rung, so that it is not beyond this one
        skipped = min(n_refused_elsewhere, beyond)
    return Passage(
        rung,
        came=beyond + unfinished.total() + ended.total() + set_aside,
        passed=ended[Verdict.PASS] + beyond - skipped,
        failed=ended[Verdict.FAIL],
        refused=ended[Verdict.NOT_APPLICABLE] + skipped,
        inconclusive=ended[Verdict.INCONCLUSIVE],
        errors=ended[Verdict.ERROR],
        waiting=unfinished[Standing.OPEN],
        running=unfinished[Standing.PENDING],
        set_aside=set_aside,
    )


def _refused(connection: Connection, rung: RungRow) -> int:
    """Number of candidates that the rung refused, by its own runs or by reused answers."""
    j = t.job.c
    d = t.decision.c
    e = t.evidence.c
    decisions = t.decision.join(t.evidence, e.id == d.evidence_id)
    is_reuse = sa.and_(d.rung_id == rung.id, d.action == "reuse")
    n_reused = count(connection, decisions, is_reuse, e.outcome == Outcome.REFUSED)
    n_computed = count(connection, t.job, j.rung_id == rung.id, j.outcome == Outcome.REFUSED)
    return n_computed + n_reused


def cost_fate() -> Any:
    """A column with what became of a booked cost.

    `proposing` (the cost of a proposer, which is of no job), `batch` (a batch of a fast rung, with candidates of every
    verdict), `running` (a job or a task that is not over, or the first of several measurements, from which no verdict
    follows yet), `no_answer` (the attempt gave no evidence), `refused`, `inconclusive`, `passed`, `failed`.
    """
    a = t.attempt.c
    r = t.rung.c
    # the first condition that holds counts
    return sa.case(
        (a.id.is_(None), "proposing"),
        (a.job_id.is_(None), "batch"),
        (a.state == AttemptState.RUNNING, "running"),
        (a.outcome == Outcome.REFUSED, "refused"),
        (a.outcome.in_(UNDECIDED_OUTCOMES), "inconclusive"),
        (sa.or_(a.outcome.is_(None), a.outcome.not_in((Outcome.OK, Outcome.NOT_OBTAINED))), "no_answer"),
        (sa.or_(_CC.position > r.position, _CC.verdict == Verdict.PASS), "passed"),
        (_CC.verdict == Verdict.FAIL, "failed"),
        (sa.and_(_CC.candidate_id.is_not(None), _CC.verdict.is_(None)), "running"),
        else_="inconclusive",
    )


def join_of_booked_costs() -> Any:
    """A join of booked costs with their attempt, job, rung and candidate, each NULL if there is none."""
    s = t.spend.c
    a = t.attempt.c
    j = t.job.c
    r = t.rung.c
    return (
        t.spend.outerjoin(t.attempt, a.id == s.attempt_id)
        .outerjoin(t.job, j.id == a.job_id)
        .outerjoin(t.rung, r.id == s.rung_id)
        .outerjoin(t.campaign_candidate, sa.and_(_CC.campaign_id == s.campaign_id, _CC.candidate_id == j.candidate_id))
    )


def booked_costs(connection: Connection, row: CampaignRow) -> list[tuple[int | None, str, str, float]]:
    """(rung id or None, resource, fate, amount): sums over all booked costs of the campaign."""
    s = t.spend.c
    fate_column = cost_fate().label("fate")
    query = (
        sa.select(s.rung_id, s.resource, fate_column, sa.func.sum(s.amount))
        .select_from(join_of_booked_costs())
        .where(s.campaign_id == row.id)
        .group_by(s.rung_id, s.resource, fate_column)
    )
    rows = connection.execute(query)
    return [(rung_id, resource, str(fate), float(amount)) for rung_id, resource, fate, amount in rows]


def rejection_reasons(connection: Connection, row: CampaignRow, names: Sequence[str], limit: int = 60) -> list[Any]:
    """(rung position, verdict, reason, property or None, n, id, text and detail of the first candidate): reasons why
    candidates ended, the most frequent first.

    names: properties of gates and objectives; a gate's detail begins with the property that missed its limits.
    """
    cases = [(_CC.detail.startswith(f"{name} ", autoescape=True), name) for name in names]
    missed_property = sa.case(*cases, else_=sa.null()) if cases else sa.null()
    # the first column is the one by which the example is found
    example = sa.select(_CC.candidate_id, _CC.candidate_id.label("id"), t.candidate.c.text, _CC.detail)
    example = example.join(t.candidate, t.candidate.c.id == _CC.candidate_id).where(_CC.campaign_id == row.id)
    return _largest_groups(
        connection,
        by=(_CC.position, _CC.verdict, _CC.reason, missed_property.label("missed")),
        id_=_CC.candidate_id,
        where=(_CC.campaign_id == row.id, _CC.reason.is_not(None)),
        example=example,
        limit=limit,
    )


def proposals_without_candidate(connection: Connection, row: CampaignRow, limit: int = 40) -> list[Any]:
    """(status, reason, n, candidate id or None, text and detail of the first proposal) of proposals that gave no new
    candidate, without those that a filter dropped and whose candidate came into the campaign later."""
    p = t.proposal.c
    return _largest_groups(
        connection,
        by=(p.status, p.reason),
        id_=p.id,
        where=(p.campaign_id == row.id, p.status != "new", ~was_sent_on()),
        example=sa.select(p.id, p.candidate_id, p.text, p.detail),
        limit=limit,
    )


def _largest_groups(
    connection: Connection, *, by: Sequence[Any], id_: Any, where: Sequence[Any], example: sa.Select[Any], limit: int
) -> list[Any]:
    """(columns `by`, n, columns of the example) of each group, the largest group first.

    by: the columns that define a group. id_: the column whose smallest value in the group is the id of its example.
    where: conditions on the rows that are counted. example: selects the id, and the columns that are returned.
    """
    n = sa.func.count().label("n")
    first_id = sa.func.min(id_).label("first")
    query = sa.select(*by, n, first_id).where(*where).group_by(*by).order_by(n.desc(), "first").limit(limit)
    groups = connection.execute(query).all()
    example_ids = [group.first for group in groups]
    examples = {}
    for example_id, *columns in connection.execute(example.where(id_.in_(example_ids))):
        examples[example_id] = columns
    return [(*group[:-1], *examples[group.first]) for group in groups]


def events(connection: Connection, row: CampaignRow, kind: str, limit: int = 200) -> tuple[int, list[Any]]:
    """The number of events of this kind, and the latest events as (at, payload)."""
    e = t.event.c
    is_of_kind = (e.campaign_id == row.id, e.kind == kind)
    latest = sa.select(e.at, e.payload).where(*is_of_kind).order_by(e.id.desc()).limit(limit)
    return count(connection, t.event, *is_of_kind), list(connection.execute(latest))


def reused_answers(connection: Connection, row: CampaignRow) -> list[tuple[int | None, str | None, str, int]]:
    """(rung id, campaign that paid or None, source of the evidence, n) of all reused answers."""
    d = t.decision.c
    e = t.evidence.c
    a = t.attempt.c
    c = t.campaign.c
    query = (
        sa.select(d.rung_id, c.name, e.source, sa.func.count().label("n"))
        .select_from(t.decision)
        .join(t.evidence, e.id == d.evidence_id)
        .outerjoin(t.attempt, a.id == e.attempt_id)
        .outerjoin(t.campaign, c.id == a.campaign_id)
        .where(d.campaign_id == row.id, d.action == "reuse")
        .group_by(d.rung_id, c.name, e.source)
        .order_by(d.rung_id, sa.desc("n"))
    )
    return [(rung_id, name, source, int(n)) for rung_id, name, source, n in connection.execute(query)]


def amendments(connection: Connection, row: CampaignRow, limit: int = 100) -> list[Any]:
    """Amendments as (at, who, path, old, new, why), the latest first."""
    m = t.campaign_amendment.c
    query = sa.select(m.at, m.who, m.path, m.old, m.new, m.why).where(m.campaign_id == row.id)
    return list(connection.execute(query.order_by(m.id.desc()).limit(limit)))


def measured_by(connection: Connection, rung: RungRow, limit: int = 100) -> list[Any]:
    """(engine versions, time) of at most `limit` pieces of the rung's latest evidence, and of as many reused ones."""
    a = t.attempt.c
    e = t.evidence.c
    d = t.decision.c
    latest_attempts = sa.select(a.id).where(a.rung_id == rung.id).order_by(a.id.desc()).limit(limit).subquery()
    latest = sa.select(e.versions, e.at).join(latest_attempts, latest_attempts.c.id == e.attempt_id).limit(limit)
    reused = sa.select(e.versions, e.at).join(t.decision, e.id == d.evidence_id)
    reused = reused.where(d.rung_id == rung.id, d.action == "reuse").limit(limit)
    return [*connection.execute(latest), *connection.execute(reused)]


def has_measured(connection: Connection, rung: RungRow, property_name: str, looked_at: int = 50) -> bool:
    """Whether the rung has given this property, judged by `looked_at` of its latest and of its reused answers."""
    if property_name in rung.derived:
        return True
    q = t.quantity.c
    p = t.property_.c
    e = t.evidence.c
    d = t.decision.c
    a = t.attempt.c
    attempts = sa.select(a.id).where(a.rung_id == rung.id, a.outcome == Outcome.OK)
    attempts = attempts.order_by(a.id.desc()).limit(looked_at)
    latest = sa.select(e.id).where(e.attempt_id.in_(sa.select(attempts.subquery().c.id))).limit(looked_at)
    reused = sa.select(d.evidence_id).where(d.rung_id == rung.id, d.action == "reuse").limit(looked_at)
    a_value = sa.select(q.id).join(t.property_, sa.and_(p.id == q.property_id, p.name == property_name)).limit(1)
    for evidence_ids in (latest, reused):
        query = a_value.where(q.evidence_id.in_(sa.select(evidence_ids.subquery().c[0])))
        if connection.execute(query).first() is not None:
            return True
    return False


def directives(connection: Connection, row: CampaignRow, limit: int = 200) -> list[Any]:
    """People's directives, the latest first, as mappings: at, who, verb, candidate (its text), payload, why."""
    d = t.directive.c
    c = t.candidate.c
    query = (
        sa.select(d.at, d.who, d.verb, c.text.label("candidate"), d.payload, d.why)
        .outerjoin(t.candidate, c.id == d.candidate_id)
        .where(d.campaign_id == row.id)
        .order_by(d.id.desc())
        .limit(limit)
    )
    return list(connection.execute(query).mappings())


def proposals(connection: Connection, row: CampaignRow) -> Iterator[Any]:
    """(candidate id, id, at, turn, proposer, status, reason, detail, text, candidate key, operation, rationale,
    predicted, decision of a filter) of every proposal, by status and in order of arrival."""
    p = t.proposal.c
    trajectory = t.trajectory.c
    origin = (p.candidate_id, p.id, p.at, t.turn.c.number, trajectory.proposer)
    content = (p.status, p.reason, p.detail, p.text, t.candidate.c.key, p.operation, p.rationale, p.predicted)
    query = (
        sa.select(*origin, *content, p.filter_decision)
        .select_from(with_proposer(t.proposal))
        .outerjoin(t.candidate, t.candidate.c.id == p.candidate_id)
        .where(p.campaign_id == row.id)
        .order_by(p.status, p.id)  # the order of the index
    )
    yield from stream(connection, query)


def proposed_texts(connection: Connection, campaign_id: int, candidate_id: int) -> list[str]:
    """The texts under which a candidate was proposed in a campaign, the oldest first."""
    p = t.proposal.c
    query = sa.select(p.text).where(p.candidate_id == candidate_id, p.campaign_id == campaign_id).order_by(p.id)
    return list(connection.execute(query).scalars())


def with_proposer(joined: Any) -> Any:
    """Adds turns and trajectories to a join that holds proposals; proposals of people have neither."""
    with_turn = joined.outerjoin(t.turn, t.turn.c.id == t.proposal.c.turn_id)
    return with_turn.outerjoin(t.trajectory, t.trajectory.c.id == t.turn.c.trajectory_id)


def stream(connection: Connection, query: sa.Select[Any]) -> Iterator[Any]:
    """Yields the rows of a query, with ROWS_PER_CHUNK rows at a time in memory."""
    yield from connection.execute(query, execution_options={"yield_per": ROWS_PER_CHUNK})


def said_chances(
    connection: Connection, row: CampaignRow, terminal: int, limit: int = 100_000
) -> list[tuple[float, bool]]:
    """(chance that a filter said, whether it is a hit) of the candidates that filters let through and that the rung at
    position `terminal` has answered, in the order of their proposals."""
    p = t.proposal.c
    cc = t.campaign_candidate.c
    log_chance = p.filter_decision["log_chance"].as_float()
    is_member = sa.and_(cc.campaign_id == p.campaign_id, cc.proposal_id == p.id)
    query = (
        sa.select(log_chance, cc.is_hit)
        .select_from(t.proposal.join(t.campaign_candidate, is_member))
        .where(p.campaign_id == row.id, p.status == "new", cc.depth >= terminal, log_chance.is_not(None))
        .order_by(p.id)
        .limit(limit)
    )
    return [(math.exp(logarithm), bool(is_hit)) for logarithm, is_hit in connection.execute(query)]
