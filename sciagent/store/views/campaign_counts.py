"""Counts of a campaign: candidates, hits, jobs, spending. Every query is served by an index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.answers.status import CampaignCounts, ControlCounts, LabCounts, RateUse, RungCounts
from sciagent.domain.budget import WEEK
from sciagent.domain.cost import RESOURCE_UNITS
from sciagent.domain.ladder import Tier
from sciagent.domain.outcomes import Verdict
from sciagent.domain.states import CampaignState, JobState, Standing
from sciagent.domain.text import one_line
from sciagent.store.campaign_state.campaigns import (
    AMBIGUOUS_STATE,
    NO_STATE,
    OPTION_REFUSED,
    CampaignRow,
    RungRow,
    all_rungs,
    driver_of,
    slurm_warning,
)
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.database.parts import WHOLE, CandidatePart
from sciagent.store.lab import tasks

_CC = t.campaign_candidate.c
MAX_NAMED = 3  # most candidates or proposals that remarks name
MAX_REMARK = 240  # characters of a reason in a remark
ENDED = (CampaignState.FINISHED, CampaignState.BUDGET_SPENT)


def spent(connection: Connection, campaign_id: int) -> dict[str, float]:
    """{resource: amount} booked for the campaign, always with core-seconds."""
    s = t.spend.c
    query = sa.select(s.resource, sa.func.sum(s.amount)).where(s.campaign_id == campaign_id).group_by(s.resource)
    return {"core_seconds": 0.0} | {r: float(a) for r, a in connection.execute(query)}


def spent_since(
    connection: Connection, campaign_id: int, resources: Sequence[str], since: float
) -> list[tuple[str, float, float]]:
    """Amounts of these resources booked after `since` (seconds since the epoch), oldest first: (resource, amount,
    seconds since the epoch)."""
    if not resources:
        return []
    s = t.spend.c
    query = sa.select(s.resource, s.amount, s.at).where(
        s.campaign_id == campaign_id, s.resource.in_(resources), s.at > datetime.fromtimestamp(since, UTC)
    )
    return [(r, float(a), at.timestamp()) for r, a, at in connection.execute(query.order_by(s.at, s.id))]


def jobs_by_rung(connection: Connection, campaign_id: int) -> dict[int, int]:
    """{rung id: number of jobs} of the campaign, in all states except cancelled."""
    j = t.job.c
    own = sa.select(t.rung.c.id).where(t.rung.c.campaign_id == campaign_id)
    query = sa.select(j.rung_id, sa.func.count()).where(j.rung_id.in_(own), j.state != JobState.CANCELLED)
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


def hits(connection: Connection, campaign_id: int, part: CandidatePart = WHOLE) -> int:
    """Number of hits in a part of the campaign."""
    mine = _CC.campaign_id == campaign_id
    return count(connection, t.campaign_candidate, mine, _CC.is_hit == sa.true(), part.condition)


def verifications(connection: Connection, campaign_id: int, terminal: int) -> int:
    """Number of candidates, seeds apart, that the rung at position `terminal` was asked about or that are beyond it."""
    return count(connection, t.campaign_candidate, _CC.campaign_id == campaign_id, *asked_about(terminal))


def asked_about(terminal: int) -> tuple[sa.ColumnElement[bool], ...]:
    """The conditions on the candidates that `verifications` counts."""
    here = sa.and_(_CC.position == terminal, sa.or_(_CC.verdict.is_not(None), _CC.standing == Standing.PENDING))
    return _CC.in_seeds.is_(False), sa.or_(_CC.position > terminal, here)


def latest_hits(connection: Connection, campaign_id: int, terminal: int, n: int) -> Sequence[bool]:
    """Returns, of the n candidates that the rung at position `terminal` answered last, whether each is a hit."""
    at_terminal = _CC.campaign_id == campaign_id, _CC.position == terminal, _CC.in_seeds.is_(False)
    query = sa.select(_CC.is_hit).where(*at_terminal, _CC.verdict.is_not(None))
    return connection.execute(query.order_by(_CC.updated_at.desc(), _CC.seq.desc()).limit(n)).scalars().all()


def n_candidates(connection: Connection, campaign_id: int) -> int:
    """Number of candidates of the campaign."""
    return count(connection, t.campaign_candidate, _CC.campaign_id == campaign_id)


def _used_of_limits(connection: Connection, row: CampaignRow, labels: Sequence[str]) -> dict[str, float]:
    """Returns what is used of each limit, by its name in the budget. labels: of the rungs, in ladder order."""
    used = spent(connection, row.id) | {"wall_minutes": row.wall_seconds / 60}
    if row.spec.get("budget", {}).get("verifications") is not None:
        terminal = labels.index(row.spec["terminal"])
        used["verifications"] = float(verifications(connection, row.id, terminal))
    return used


def counts(connection: Connection, row: CampaignRow) -> CampaignCounts:
    """Returns the counts that `sciagent status` shows, from a few queries."""
    standing = places(connection, row)
    by_tier: Counter[str] = Counter()
    for place in standing:
        by_tier[place.hit_tier or ""] += place.candidates
    jobs = jobs_by_rung(connection, row.id)
    costs = spent_by_rung(connection, row.id)
    rates = _rates(connection, row)
    ladder = all_rungs(connection, row.id)
    p = t.proposal.c
    d = t.decision.c
    own = p.campaign_id == row.id
    unreadable = count(connection, t.proposal, *_is_unreadable(row))
    return CampaignCounts(
        campaign=row.name,
        state=row.state,
        stop_reason=row.stop_reason,
        amended=row.state in ENDED and _amended_since_end(connection, row.id),
        trouble=slurm_warning(connection, row.id),
        spent=_used_of_limits(connection, row, [rung.name for rung in ladder]),
        budget={name: limit for name, limit in row.spec.get("budget", {}).items() if name not in {*rates, "until"}},
        proposals=count(connection, t.proposal, own),
        unreadable=unreadable,
        candidates=sum(place.candidates for place in standing),
        hits=hits(connection, row.id),
        hits_defined=row.has_limits,
        hits_by_tier={str(tier): by_tier[tier] for tier in Tier},
        reused=count(connection, t.decision, d.campaign_id == row.id, d.action == "reuse"),
        held=sum(place.candidates for place in standing if place.standing == Standing.HELD),
        vetoed=sum(place.candidates for place in standing if place.standing == Standing.VETOED),
        driver=driver_of(connection, row.id),
        control=_control_counts(ladder, jobs, costs),
        tasks=_tasks(connection, row, ladder),
        rungs=tuple(
            _rung_counts(rung, standing, costs.get((rung.id, "core_seconds"), 0.0), jobs.get(rung.id, 0))
            for rung in ladder
            if not rung.control
        ),
        rates=rates,
        notes=(
            *_on_protonation(connection, row),
            *_on_unreadable(connection, row, unreadable),
            *_on_refused_options(connection, row),
        ),
    )


def _tasks(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> LabCounts | None:
    """Returns the counts of tasks of people; None if they do no rung."""
    need_approval = {rung["rung"] for rung in row.spec.get("ladder", ()) if (rung.get("lab") or {}).get("approve")}
    return tasks.counts(connection, row.id, [rung.id for rung in ladder if rung.tier == Tier.WORLD], need_approval)


def _control_counts(
    ladder: Sequence[RungRow], jobs: Mapping[int, int], costs: Mapping[tuple[int | None, str], float]
) -> ControlCounts | None:
    """Returns the runs of the control, which is the last rung if there is one."""
    rung = ladder[-1]
    if not rung.control:
        return None
    seconds = round(costs.get((rung.id, "core_seconds"), 0.0), 3)
    return ControlCounts(rung=rung.name, jobs=jobs.get(rung.id, 0), core_seconds=seconds)


def _on_protonation(connection: Connection, row: CampaignRow) -> tuple[str, ...]:
    """Returns remarks on protonation states that are ambiguous or were not found; none without a pH in the spec."""
    stated = row.spec.get("standardise")
    if not isinstance(stated, Mapping) or "ph" not in stated:
        return ()
    e = t.event.c
    counts = dict[str, int]()
    named = dict[str, list[str]]()
    query = sa.select(e.kind, e.payload).where(e.campaign_id == row.id, e.kind.in_((AMBIGUOUS_STATE, NO_STATE)))
    for kind, payload in connection.execute(query.order_by(e.id)):
        counts[kind] = counts.get(kind, 0) + payload["n"]
        named.setdefault(kind, []).extend(payload["smiles"])
    words = {
        AMBIGUOUS_STATE: "more than one protonation state within the spread of the pKa; the dominant one was taken",
        NO_STATE: "no protonation state that was found; the structure was left as it is",
    }
    remarks = []
    for kind, n in counts.items():
        some = ", ".join(named[kind][:MAX_NAMED]) + (", …" if n > MAX_NAMED else "")
        have = "candidate has" if n == 1 else "candidates have"
        remarks.append(f"pH {stated['ph']:g}: {n} {have} {words[kind]} (see sciagent explain): {some}")
    return tuple(remarks)


def _on_refused_options(connection: Connection, row: CampaignRow) -> list[str]:
    """Returns a remark on each option of the requests to a model that its server refused."""
    e = t.event.c
    query = sa.select(e.payload).where(e.campaign_id == row.id, e.kind == OPTION_REFUSED).order_by(e.id)
    words: dict[tuple[str, str], str] = {}
    for payload in connection.execute(query).scalars():
        words.setdefault((payload["model"], payload["option"]), payload["why"])
    return [
        f"the server of {model} refuses {option}, which requests leave out: {why[:MAX_REMARK]}"
        for (model, option), why in words.items()
    ]


def _is_unreadable(row: CampaignRow) -> tuple[sa.ColumnElement[bool], ...]:
    """Returns the conditions on proposals that could not be read as a structure."""
    p = t.proposal.c
    return p.campaign_id == row.id, p.status == "refused", p.candidate_id.is_(None)


def _on_unreadable(connection: Connection, row: CampaignRow, n: int) -> list[str]:
    """Returns a remark on each of the first proposals that could not be read, and on the others. n: number of all."""
    if not n:
        return []
    p = t.proposal.c
    query = sa.select(p.text, p.detail, p.rationale).where(*_is_unreadable(row)).order_by(p.id).limit(MAX_NAMED)
    lines = [f"not read: {_why_unreadable(*proposal)}" for proposal in connection.execute(query)]
    more = n - len(lines)
    return [*lines, f"and {more} more that could not be read"] if more > 0 else lines


def _why_unreadable(text: str, detail: str | None, rationale: str | None) -> str:
    """Returns the proposal and the reason. The text of a file has several lines; its names stand in the detail. Where
    a file has no text for a structure, the rationale says why."""
    if not text.strip() and rationale:
        return one_line(rationale, MAX_REMARK)
    start = "" if "\n" in text or not text.strip() else f"{one_line(text, MAX_REMARK // 3)}: "
    return start + one_line(detail or "no reason was kept", MAX_REMARK)


def _amended_since_end(connection: Connection, campaign_id: int) -> bool:
    a = t.campaign_amendment.c
    e = t.event.c
    changed = connection.execute(sa.select(sa.func.max(a.at)).where(a.campaign_id == campaign_id)).scalar()
    ended = sa.select(sa.func.max(e.at)).where(e.campaign_id == campaign_id, e.kind == "ended")
    end = connection.execute(ended).scalar()
    return changed is not None and end is not None and bool(changed > end)


class LadderPlace(NamedTuple):
    """The number of candidates with one position, standing, verdict and hit tier."""

    position: int
    standing: str
    verdict: str | None
    hit_tier: str | None
    candidates: int


def places(connection: Connection, row: CampaignRow) -> list[LadderPlace]:
    columns = (_CC.position, _CC.standing, _CC.verdict, _CC.hit_tier)
    query = sa.select(*columns, sa.func.count()).where(_CC.campaign_id == row.id).group_by(*columns)
    return [LadderPlace(*place) for place in connection.execute(query)]


def spent_by_rung(connection: Connection, campaign_id: int) -> dict[tuple[int | None, str], float]:
    """{(rung id, resource): amount} booked for the campaign; the rung is None for costs without a rung."""
    s = t.spend.c
    query = sa.select(s.rung_id, s.resource, sa.func.sum(s.amount)).where(s.campaign_id == campaign_id)
    rows = connection.execute(query.group_by(s.rung_id, s.resource))
    return {(rung_id, resource): float(amount) for rung_id, resource, amount in rows}


def _rates(connection: Connection, row: CampaignRow) -> dict[str, RateUse]:
    """Limits on any seven days, by resource, with the amount spent in the last seven."""
    budget = row.spec.get("budget", {})
    rates = {name: limit for name, limit in budget.items() if name in RESOURCE_UNITS and isinstance(limit, dict)}
    since = db_now(connection).timestamp() - WEEK if rates else 0.0
    booked = spent_since(connection, row.id, sorted(rates), since)
    more = {"until": budget["until"]} if "until" in budget else {}
    return {resource: _rate(resource, {**limit, **more}, booked) for resource, limit in rates.items()}


def _rate(resource: str, limit: Mapping[str, Any], booked: Sequence[tuple[str, float, float]]) -> RateUse:
    """Returns the use of a weekly limit. booked: as from `spent_since`, oldest first."""
    mine = [(amount, at) for r, amount, at in booked if r == resource]
    used = sum(amount for amount, _ in mine)
    left = used
    free_at = None
    for amount, at in mine if used >= limit["amount"] else ():
        left = left - amount
        free_at = datetime.fromtimestamp(at + WEEK, UTC)
        if left < limit["amount"]:
            break
    return RateUse(**limit, used=used, more_at=free_at)


def _rung_counts(rung: RungRow, places: Sequence[LadderPlace], core_seconds: float, jobs: int) -> RungCounts:
    """Counts of one rung. A candidate above it counts as passed, since its verdict may have been waived or forgiven."""
    here = [place for place in places if place.position == rung.position]
    over = (Standing.DROPPED, Standing.SETTLED, Standing.VETOED)

    def ended(*verdicts: Verdict) -> int:
        return sum(place.candidates for place in here if place.standing in over and place.verdict in verdicts)

    above = sum(place.candidates for place in places if place.position > rung.position)
    passed = above + sum(place.candidates for place in here if place.verdict == Verdict.PASS)
    failed = ended(Verdict.FAIL, Verdict.NOT_APPLICABLE)
    inconclusive = ended(Verdict.INCONCLUSIVE)
    errors = ended(Verdict.ERROR)
    return RungCounts(
        rung=rung.name,
        tier=Tier(rung.tier),
        done=passed + failed + inconclusive + errors,
        passed=passed,
        failed=failed,
        inconclusive=inconclusive,
        errors=errors,
        core_seconds=round(core_seconds, 3),
        running=sum(
            place.candidates for place in here if place.standing == Standing.PENDING and place.verdict != Verdict.PASS
        ),
        jobs=jobs,
    )
