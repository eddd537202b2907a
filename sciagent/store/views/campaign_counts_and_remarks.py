"""Counts of a campaign: candidates, hits, jobs, spending, and the remarks that `sciagent status` shows with them.

`counts` returns all of them; the other functions return one number or table each. Every query is served by an index.
The control is an extra rung, after the ladder, that decides nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.answers.status_and_comparison import (
    CampaignCounts,
    ControlCounts,
    FilterCounts,
    HitCounts,
    JobProgress,
    LabCounts,
    LetThrough,
    RateUse,
    RungCounts,
)
from sciagent.domain.cost_and_budget import RESOURCE_UNITS, WEEK
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Verdict
from sciagent.domain.proposer_interfaces import FILTERED
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.domain.safe_text_and_durations import one_line
from sciagent.domain.states_and_needs import AttemptState, CampaignState, JobState, Standing
from sciagent.store.campaign_state.campaigns import (
    AMBIGUOUS_STATE,
    FORMS_LEFT_OUT,
    NO_STATE,
    OPTION_REFUSED,
    CampaignRow,
    RungRow,
    all_rungs,
    driver_of,
    trouble,
)
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among
from sciagent.store.database.condition_for_part_of_candidates import WHOLE, CandidatePart
from sciagent.store.database.engine import db_now
from sciagent.store.job_queue import attempts
from sciagent.store.lab import tasks

_CC = t.campaign_candidate.c
MAX_NAMED = 3  # number of candidates or proposals that a remark names
MAX_LONG_JOBS = 20  # number of running jobs whose progress is told
LIMITS = {Outcome.TIMEOUT: "wall or stall", Outcome.OUT_OF_MEMORY: "memory"}  # limits by how a job at them ends
MAX_REMARK = 240  # number of characters of a reason in a remark
ENDED = (CampaignState.FINISHED, CampaignState.BUDGET_SPENT)


def spent(connection: Connection, campaign_id: int) -> dict[str, float]:
    """{resource: amount} booked for the campaign, always with core-seconds."""
    s = t.spend.c
    query = sa.select(s.resource, sa.func.sum(s.amount)).where(s.campaign_id == campaign_id).group_by(s.resource)
    return {"core_seconds": 0.0} | {resource: float(amount) for resource, amount in connection.execute(query)}


def spent_since(
    connection: Connection, campaign_id: int, resources: Sequence[str], since: float
) -> list[tuple[str, float, float]]:
    """(resource, amount, time of booking) of these resources booked after the time `since`, oldest first.

    Times are in seconds since the epoch.
    """
    if not resources:
        return []
    s = t.spend.c
    query = sa.select(s.resource, s.amount, s.at).where(
        s.campaign_id == campaign_id, s.resource.in_(resources), s.at > datetime.fromtimestamp(since, UTC)
    )
    rows = connection.execute(query.order_by(s.at, s.id))
    return [(resource, float(amount), at.timestamp()) for resource, amount, at in rows]


def jobs_by_rung(connection: Connection, campaign_id: int) -> dict[int, int]:
    """{rung id: number of jobs} of the campaign, in all states except cancelled."""
    j = t.job.c
    rung_ids = sa.select(t.rung.c.id).where(t.rung.c.campaign_id == campaign_id)
    query = sa.select(j.rung_id, sa.func.count()).where(j.rung_id.in_(rung_ids), j.state != JobState.CANCELLED)
    query = query.group_by(j.rung_id)
    return {rung_id: n for rung_id, n in connection.execute(query)}


def reuses_by_rung(connection: Connection, campaign_id: int) -> dict[int, int]:
    """{rung id: number of answers that were reused}."""
    d = t.decision.c
    query = sa.select(d.rung_id, sa.func.count()).where(d.campaign_id == campaign_id, d.action == "reuse")
    return {rung_id: n for rung_id, n in connection.execute(query.group_by(d.rung_id))}


def count(connection: Connection, table: sa.FromClause, *conditions: Any) -> int:
    """Number of rows of the table, or of the join, that meet the conditions."""
    return int(connection.execute(sa.select(sa.func.count()).select_from(table).where(*conditions)).scalar_one())


def hits(
    connection: Connection, campaign_id: int, part: CandidatePart = WHOLE, without: Sequence[int] = ()
) -> HitCounts:
    """Number of hits in a part of the campaign, and of compounds among them. It reads the hits alone. without: ids of
    candidates that are left out."""
    inchikey = t.candidate.c.inchikey
    numbers = (sa.func.count(), sa.func.count(inchikey), sa.func.count(inchikey.distinct()))
    query = (
        sa.select(*numbers)
        .select_from(t.campaign_candidate.join(t.candidate, t.candidate.c.id == _CC.candidate_id))
        .where(_CC.campaign_id == campaign_id, _CC.is_hit == sa.true(), part.condition)
    )
    if without:
        query = query.where(~among(connection, _CC.candidate_id, without))
    n_hits, n_with_inchikey, n_inchikeys = connection.execute(query).one()
    return HitCounts(n_hits, distinct=n_hits - n_with_inchikey + n_inchikeys)


def proposals(connection: Connection, campaign_id: int) -> int:
    """Number of proposals of a campaign, also of people, refused ones included, those that a filter dropped not."""
    return count(connection, t.proposal, t.proposal.c.campaign_id == campaign_id, t.proposal.c.status != FILTERED)


def filtered_proposals(connection: Connection, campaign_id: int) -> int:
    """Number of proposals that a filter dropped, without those whose candidate came into the campaign later."""
    return count(
        connection, t.proposal, t.proposal.c.campaign_id == campaign_id, t.proposal.c.status == FILTERED, ~was_sent_on()
    )


def was_sent_on() -> sa.ColumnElement[bool]:
    """Returns the condition that a filter dropped a proposal, and that its candidate came into the campaign later: sent
    on by a person, or let through when it was proposed again."""
    p = t.proposal.c
    came_later = sa.exists().where(_CC.campaign_id == p.campaign_id, _CC.candidate_id == p.candidate_id)
    return sa.and_(p.status == FILTERED, came_later)


def filter_counts(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> FilterCounts | None:
    """Returns what became of the candidates that the filters of a campaign let through; None without a filter.

    ladder: all its rungs. It reads the proposals that brought a candidate.
    """
    if not has_filter(row.spec.get("proposer")):
        return None
    terminal = next(rung.position for rung in ladder if rung.name == row.spec["terminal"])
    p = t.proposal.c
    action = p.filter_decision["action"].as_string()
    numbers = [sa.func.sum(sa.case((condition, 1), else_=0)) for condition in (_CC.depth >= terminal, _CC.is_hit)]
    is_member = sa.and_(_CC.campaign_id == p.campaign_id, _CC.proposal_id == p.id)
    query = (
        sa.select(action, sa.func.count(), *numbers)
        .select_from(t.proposal.join(t.campaign_candidate, is_member))
        .where(p.campaign_id == row.id, p.status == "new", action.in_(LET_THROUGH))
        .group_by(action)
    )
    by_action = {
        name: LetThrough(candidates=n, answered=answered, hits=n_hits)
        for name, n, answered, n_hits in connection.execute(query)
    }
    nothing = LetThrough(candidates=0, answered=0, hits=0)
    chosen, audited = (by_action.get(name, nothing) for name in LET_THROUGH)
    return FilterCounts(chosen=chosen, audited=audited)


def has_filter(proposer: object) -> bool:
    """Returns whether a proposer has a filter, or one of several has. proposer: as the canonical spec states it."""
    if not isinstance(proposer, Mapping):
        return False
    if proposer.get("filter"):
        return True
    parts = proposer.get("proposers")
    return isinstance(parts, Mapping) and any(has_filter(part) for part in parts.values())


def verifications(connection: Connection, campaign_id: int, terminal: int) -> int:
    """Number of candidates, without seeds, that have reached the rung at position `terminal` and were started there."""
    return count(connection, t.campaign_candidate, _CC.campaign_id == campaign_id, *is_asked_about(terminal))


def is_asked_about(terminal: int) -> tuple[sa.ColumnElement[bool], ...]:
    """The conditions on the candidates that `verifications` counts.

    Such a candidate is no seed. The rung at position `terminal` has answered it or runs on it, or the candidate is
    beyond the rung.
    """
    has_verdict_or_runs = sa.or_(_CC.verdict.is_not(None), _CC.standing == Standing.PENDING)
    is_at_terminal = sa.and_(_CC.position == terminal, has_verdict_or_runs)
    return _CC.in_seeds.is_(False), sa.or_(_CC.position > terminal, is_at_terminal)


def latest_hits(connection: Connection, campaign_id: int, terminal: int, n: int) -> Sequence[bool]:
    """Returns whether each of the n latest candidates is a hit that the rung at position `terminal` has answered.

    The latest candidate is the first. Seeds are left out.
    """
    query = sa.select(_CC.is_hit).where(
        _CC.campaign_id == campaign_id, _CC.position == terminal, _CC.in_seeds.is_(False), _CC.verdict.is_not(None)
    )
    latest_first = query.order_by(_CC.updated_at.desc(), _CC.seq.desc())
    return connection.execute(latest_first.limit(n)).scalars().all()


def n_candidates(connection: Connection, campaign_id: int) -> int:
    """Number of candidates of the campaign."""
    return count(connection, t.campaign_candidate, _CC.campaign_id == campaign_id)


def _used_of_limits(connection: Connection, row: CampaignRow, labels: Sequence[str]) -> dict[str, float]:
    """Returns {name of a limit in the budget: amount used}. labels: labels of the rungs, in ladder order."""
    used = spent(connection, row.id) | {"wall_minutes": row.wall_seconds / 60}
    if row.spec.get("budget", {}).get("verifications") is not None:
        terminal = labels.index(row.spec["terminal"])
        used["verifications"] = float(verifications(connection, row.id, terminal))
    return used


LET_THROUGH = ("keep", "audit")  # actions of a filter on what goes on: for its chance, and by lot
NOTHING_HIDDEN: Mapping[int, int] = MappingProxyType({})


def counts(connection: Connection, row: CampaignRow, hidden: Mapping[int, int] = NOTHING_HIDDEN) -> CampaignCounts:
    """Returns the counts that `sciagent status` shows, from a few queries.

    hidden: {candidate id: position of a rung} of the candidates that are counted as if the rung had not answered, for a
    person from whom blind measurements hide its answers."""
    ladder_places = places(connection, row)
    if hidden:
        ladder_places = _with_hidden(connection, row, ladder_places, hidden)
    n_by_hit_tier: Counter[str] = Counter()
    for place in ladder_places:
        # candidates without a tier are no hits; nothing reads their number
        n_by_hit_tier[place.hit_tier or ""] += place.candidates
    jobs = jobs_by_rung(connection, row.id)
    costs = spent_by_rung(connection, row.id)
    rates = _rates(connection, row)
    ladder = all_rungs(connection, row.id)
    d = t.decision.c
    n_unreadable = count(connection, t.proposal, *_is_unreadable(row))
    hit_counts = hits(connection, row.id, without=list(hidden))
    # limits per week are among the rates, with the date until which they hold
    shown_elsewhere = {*rates, "until"}
    return CampaignCounts(
        campaign=row.name,
        state=row.state,
        stop_reason=row.stop_reason,
        amended=row.state in ENDED and _amended_since_end(connection, row.id),
        trouble=trouble(connection, row.id),
        spent=_used_of_limits(connection, row, [rung.name for rung in ladder]),
        driver_core_seconds=row.driver_core_seconds,
        budget={name: limit for name, limit in row.spec.get("budget", {}).items() if name not in shown_elsewhere},
        proposals=proposals(connection, row.id),
        unreadable=n_unreadable,
        filtered=filtered_proposals(connection, row.id),
        filter=None if hidden else filter_counts(connection, row, ladder),
        candidates=sum(place.candidates for place in ladder_places),
        hits=hit_counts.hits,
        distinct_hits=hit_counts.distinct,
        hits_defined=row.has_limits,
        hits_by_tier={str(tier): n_by_hit_tier[tier] for tier in Tier},
        reused=count(connection, t.decision, d.campaign_id == row.id, d.action == "reuse"),
        held=_n_standing(ladder_places, Standing.HELD),
        vetoed=_n_standing(ladder_places, Standing.VETOED),
        waiting=_n_standing(ladder_places, Standing.OPEN, Standing.PENDING),
        driver=driver_of(connection, row.id),
        control=_control_counts(ladder, jobs, costs),
        tasks=_tasks(connection, row, ladder),
        rungs=tuple(
            _rung_counts(rung, ladder_places, _spent_at(rung, costs), jobs.get(rung.id, 0))
            for rung in ladder
            if not rung.control
        ),
        rates=rates,
        progress=job_progress(connection, row.id),
        notes=(
            *_remarks_on_standardisation(connection, row),
            *_remarks_on_unreadable(connection, row, n_unreadable),
            *_remarks_on_refused_options(connection, row),
            *_remarks_on_limits(connection, row),
        ),
    )


def job_progress(connection: Connection, campaign_id: int) -> tuple[JobProgress, ...]:
    """Returns the progress of running jobs that report it, longest running first, at most `MAX_LONG_JOBS`."""
    a = t.attempt.c
    query = (
        sa.select(a.job_id, t.rung.c.name, t.candidate.c.text, a.started_at, a.progress, a.progress_at)
        .select_from(t.attempt.join(t.job, t.job.c.id == a.job_id))
        .join(t.rung, t.rung.c.id == t.job.c.rung_id)
        .join(t.candidate, t.candidate.c.id == t.job.c.candidate_id)
        .where(a.campaign_id == campaign_id, a.state == AttemptState.RUNNING, a.progress_at.is_not(None))
        .order_by(a.id)
        .limit(MAX_LONG_JOBS)
    )
    now = db_now(connection)
    listed = []
    for job, rung, candidate, started_at, stored, reported_at in connection.execute(query):
        progress = attempts.progress_of(stored, reported_at, now)
        if progress is None:
            continue
        listed.append(
            JobProgress(
                job=job,
                rung=rung,
                candidate=candidate,
                done=progress.done,
                of=progress.of,
                remaining_seconds=progress.seconds_left,
                words=progress.words,
                started_at=started_at,
                reported_at=reported_at,
            )
        )
    return tuple(listed)


def _tasks(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> LabCounts | None:
    """Returns the counts of tasks of people; None if people do no rung."""
    need_approval = set()
    for stated in row.spec.get("ladder", ()):
        lab_settings = stated.get("lab") or {}
        if lab_settings.get("approve"):
            need_approval.add(stated["rung"])
    rung_ids = [rung.id for rung in ladder if rung.tier == Tier.WORLD]  # the tier of rungs that people do
    return tasks.counts(connection, row.id, rung_ids, need_approval)


def _control_counts(
    ladder: Sequence[RungRow], jobs: Mapping[int, int], costs: Mapping[tuple[int | None, str], float]
) -> ControlCounts | None:
    """Returns the runs of the control, which is the last rung if there is one."""
    rung = ladder[-1]
    if not rung.control:
        return None
    seconds = round(costs.get((rung.id, "core_seconds"), 0.0), 3)
    return ControlCounts(rung=rung.name, jobs=jobs.get(rung.id, 0), core_seconds=seconds)


def _remarks_on_standardisation(connection: Connection, row: CampaignRow) -> tuple[str, ...]:
    """Returns remarks on protonation states that are ambiguous or were not found, and on stereoisomers and tautomers
    that were left out; none without a pH and without enumeration in the spec."""
    stated = row.spec.get("standardise")
    if not isinstance(stated, Mapping):
        return ()
    e = t.event.c
    n_by_kind = dict[str, int]()
    smiles_by_kind = dict[str, list[str]]()
    query = sa.select(e.kind, e.payload).where(
        e.campaign_id == row.id, e.kind.in_((AMBIGUOUS_STATE, NO_STATE, FORMS_LEFT_OUT))
    )
    for kind, payload in connection.execute(query.order_by(e.id)):
        n_by_kind[kind] = n_by_kind.get(kind, 0) + payload["n"]
        smiles_by_kind.setdefault(kind, []).extend(payload["smiles"])
    ph = f"pH {stated['ph']:g}" if "ph" in stated else ""
    explanations = {
        AMBIGUOUS_STATE: (
            ph,
            "more than one protonation state within the spread of the pKa; the dominant one was taken",
        ),
        NO_STATE: (ph, "no protonation state that was found; the structure was left as it is"),
        FORMS_LEFT_OUT: ("standardise", "more stereoisomers or tautomers than `most`; the others were left out"),
    }
    remarks = []
    for kind, n in n_by_kind.items():
        examples = ", ".join(smiles_by_kind[kind][:MAX_NAMED])
        if n > MAX_NAMED:
            examples += ", …"
        what = "molecule" if kind == FORMS_LEFT_OUT else "candidate"
        have = f"{what} has" if n == 1 else f"{what}s have"
        setting, explanation = explanations[kind]
        remarks.append(f"{setting}: {n} {have} {explanation} (see sciagent explain): {examples}")
    return tuple(remarks)


def _remarks_on_refused_options(connection: Connection, row: CampaignRow) -> list[str]:
    """Returns a remark on each option of the requests to a model that its server refused."""
    e = t.event.c
    query = sa.select(e.payload).where(e.campaign_id == row.id, e.kind == OPTION_REFUSED).order_by(e.id)
    reasons: dict[tuple[str, str], str] = {}
    for payload in connection.execute(query).scalars():
        reasons.setdefault((payload["model"], payload["option"]), payload["why"])
    return [
        f"the server of {model} refuses {option}, which requests leave out: {why[:MAX_REMARK]}"
        for (model, option), why in reasons.items()
    ]


def _remarks_on_limits(connection: Connection, row: CampaignRow) -> list[str]:
    """Returns a remark for each rung and limit that ended jobs, with the command that raises it."""
    j = t.job.c
    query = (
        sa.select(t.rung.c.name, j.outcome, sa.func.count())
        .join(t.rung, t.rung.c.id == j.rung_id)
        .where(j.campaign_id == row.id, j.state == JobState.FAILED, j.outcome.in_(LIMITS))
        .group_by(t.rung.c.position, t.rung.c.name, j.outcome)
        .order_by(t.rung.c.position, j.outcome)
    )
    remarks = []
    for rung, outcome, n in connection.execute(query):
        jobs = "1 job" if n == 1 else f"{n} jobs"
        command = f"sciagent amend {row.name} --file FILE --reason WHY"
        remarks.append(
            f"{jobs} of {rung} ended at the {LIMITS[Outcome(outcome)]} limit; raised in the file ({command}), it runs "
            "them again"
        )
    return remarks


def _is_unreadable(row: CampaignRow) -> tuple[sa.ColumnElement[bool], ...]:
    """Returns the conditions on proposals that could not be read as a structure."""
    p = t.proposal.c
    return p.campaign_id == row.id, p.status == "refused", p.candidate_id.is_(None)


def _remarks_on_unreadable(connection: Connection, row: CampaignRow, n: int) -> list[str]:
    """Returns remarks on the first proposals that could not be read, and one on how many more there are.

    n: number of all proposals that could not be read.
    """
    if not n:
        return []
    p = t.proposal.c
    query = sa.select(p.text, p.detail, p.rationale).where(*_is_unreadable(row)).order_by(p.id).limit(MAX_NAMED)
    lines = [f"not read: {_why_unreadable(*proposal)}" for proposal in connection.execute(query)]
    n_more = n - len(lines)
    if n_more > 0:
        lines.append(f"and {n_more} more that could not be read")
    return lines


def _why_unreadable(text: str, detail: str | None, rationale: str | None) -> str:
    """Returns the proposal and the reason why it could not be read.

    A structure file has several lines, which are not shown, since the detail has its names. A proposal without a text
    comes from a file that has no text for a structure; then the rationale says why.
    """
    is_empty = not text.strip()
    if is_empty and rationale:
        return one_line(rationale, MAX_REMARK)
    why = one_line(detail or "no reason was kept", MAX_REMARK)
    if is_empty or "\n" in text:
        return why
    return f"{one_line(text, MAX_REMARK // 3)}: {why}"


def _amended_since_end(connection: Connection, campaign_id: int) -> bool:
    """Whether the last amendment of the campaign is later than its last end."""
    a = t.campaign_amendment.c
    e = t.event.c
    last_amendment = sa.select(sa.func.max(a.at)).where(a.campaign_id == campaign_id)
    last_end = sa.select(sa.func.max(e.at)).where(e.campaign_id == campaign_id, e.kind == "ended")
    amended_at = connection.execute(last_amendment).scalar()
    ended_at = connection.execute(last_end).scalar()
    return amended_at is not None and ended_at is not None and bool(amended_at > ended_at)


class LadderPlace(NamedTuple):
    """The number of candidates with one position, standing, verdict and hit tier."""

    position: int
    standing: str
    verdict: str | None
    hit_tier: str | None
    candidates: int


def places(connection: Connection, row: CampaignRow) -> list[LadderPlace]:
    """The numbers of the campaign's candidates, by position, standing, verdict and hit tier."""
    columns = (_CC.position, _CC.standing, _CC.verdict, _CC.hit_tier)
    query = sa.select(*columns, sa.func.count()).where(_CC.campaign_id == row.id).group_by(*columns)
    return [LadderPlace(*place) for place in connection.execute(query)]


def _with_hidden(
    connection: Connection, row: CampaignRow, places: Sequence[LadderPlace], hidden: Mapping[int, int]
) -> list[LadderPlace]:
    """Returns the places with the candidates of `hidden` at their rungs, without an answer there."""
    numbers = {place[:-1]: place.candidates for place in places}
    columns = (_CC.candidate_id, _CC.position, _CC.standing, _CC.verdict, _CC.hit_tier)
    is_hidden = among(connection, _CC.candidate_id, list(hidden))
    for candidate_id, *place in connection.execute(sa.select(*columns).where(_CC.campaign_id == row.id, is_hidden)):
        position = hidden[candidate_id]
        if place[0] < position:
            continue
        numbers[tuple(place)] -= 1
        waiting = (position, Standing.PENDING, None, None)
        numbers[waiting] = numbers.get(waiting, 0) + 1
    return [LadderPlace(*place, n) for place, n in numbers.items() if n]


def spent_by_rung(connection: Connection, campaign_id: int) -> dict[tuple[int | None, str], float]:
    """{(rung id, resource): amount} booked for the campaign; the rung is None for costs without a rung."""
    s = t.spend.c
    query = sa.select(s.rung_id, s.resource, sa.func.sum(s.amount)).where(s.campaign_id == campaign_id)
    rows = connection.execute(query.group_by(s.rung_id, s.resource))
    return {(rung_id, resource): float(amount) for rung_id, resource, amount in rows}


def _rates(connection: Connection, row: CampaignRow) -> dict[str, RateUse]:
    """{resource: limit on any seven days, with the amount spent in the last seven days}."""
    budget = row.spec.get("budget", {})
    # a limit per week is a mapping, a limit on the whole campaign is a number
    limits = {name: limit for name, limit in budget.items() if name in RESOURCE_UNITS and isinstance(limit, dict)}
    if not limits:
        return {}
    week_ago = db_now(connection).timestamp() - WEEK
    booked = spent_since(connection, row.id, sorted(limits), week_ago)
    until = {"until": budget["until"]} if "until" in budget else {}
    return {resource: _rate(resource, {**limit, **until}, booked) for resource, limit in limits.items()}


def _rate(resource: str, limit: Mapping[str, Any], booked: Sequence[tuple[str, float, float]]) -> RateUse:
    """Returns the use of a weekly limit, and when more may be spent if it is used up.

    booked: as from `spent_since`, oldest first.
    """
    own_bookings = [(amount, at) for name, amount, at in booked if name == resource]
    used = sum(amount for amount, _ in own_bookings)
    if used < limit["amount"]:
        return RateUse(**limit, used=used, more_at=None)
    free_at = None
    still_counted = used
    for amount, at in own_bookings:
        still_counted -= amount
        free_at = datetime.fromtimestamp(at + WEEK, UTC)  # when this booking is a week old
        if still_counted < limit["amount"]:
            break
    return RateUse(**limit, used=used, more_at=free_at)


def _spent_at(rung: RungRow, costs: Mapping[tuple[int | None, str], float]) -> dict[str, float]:
    """Returns {resource: amount} booked for a rung. costs: as from `spent_by_rung`."""
    return {resource: amount for (rung_id, resource), amount in costs.items() if rung_id == rung.id}


def _rung_counts(rung: RungRow, places: Sequence[LadderPlace], spent: Mapping[str, float], jobs: int) -> RungCounts:
    """Counts of one rung. A candidate at a higher rung counts as passed, even if the verdict here was waived.

    spent: {resource: amount}.
    """
    at_rung = [place for place in places if place.position == rung.position]
    n_above = sum(place.candidates for place in places if place.position > rung.position)
    n_passed_here = sum(place.candidates for place in at_rung if place.verdict == Verdict.PASS)
    passed = n_above + n_passed_here
    failed = _n_ended_with(at_rung, Verdict.FAIL, Verdict.NOT_APPLICABLE)
    inconclusive = _n_ended_with(at_rung, Verdict.INCONCLUSIVE)
    errors = _n_ended_with(at_rung, Verdict.ERROR)
    running = sum(
        place.candidates for place in at_rung if place.standing == Standing.PENDING and place.verdict != Verdict.PASS
    )
    return RungCounts(
        rung=rung.name,
        tier=Tier(rung.tier),
        done=passed + failed + inconclusive + errors,
        passed=passed,
        failed=failed,
        inconclusive=inconclusive,
        errors=errors,
        core_seconds=round(spent.get("core_seconds", 0.0), 3),
        spent={resource: round(amount, 3) for resource, amount in sorted(spent.items())},
        running=running,
        jobs=jobs,
    )


def _n_standing(places: Sequence[LadderPlace], *standings: Standing) -> int:
    """Number of candidates in these places that have one of the standings."""
    return sum(place.candidates for place in places if place.standing in standings)


def _n_ended_with(places: Sequence[LadderPlace], *verdicts: Verdict) -> int:
    """Number of candidates in these places that ended with one of the verdicts."""
    ended_standings = (Standing.DROPPED, Standing.SETTLED, Standing.VETOED)
    ended = [place for place in places if place.standing in ended_standings]
    return sum(place.candidates for place in ended if place.verdict in verdicts)
