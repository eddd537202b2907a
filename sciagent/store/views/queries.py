"""What people ask of a campaign: its status and its best candidates. Every query stands on an index."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.budget import WEEK
from sciagent.domain.cost import RESOURCE_UNITS
from sciagent.domain.outcomes import Verdict
from sciagent.domain.states import JobState, Standing
from sciagent.domain.tiers import Tier
from sciagent.store.campaign_state.campaign_warnings import trouble
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow, driver_of, rungs
from sciagent.store.database import tables as t
from sciagent.store.database.clock import db_now
from sciagent.store.results.evidence import measured_of

_CC = t.campaign_candidate.c
IMPORT = "import"  # the verifier of what people bring from files


def spent(connection: Connection, campaign_id: int) -> dict[str, float]:
    s = t.spend.c
    query = sa.select(s.resource, sa.func.sum(s.amount)).where(s.campaign_id == campaign_id).group_by(s.resource)
    return {"core_seconds": 0.0} | {r: float(a) for r, a in connection.execute(query)}


def spent_since(
    connection: Connection, campaign_id: int, resources: Sequence[str], since: float
) -> list[tuple[str, float, float]]:
    """What was booked of these resources after `since` (seconds since the epoch), oldest first: (resource, amount,
    seconds since the epoch)."""
    if not resources:
        return []
    s = t.spend.c
    query = sa.select(s.resource, s.amount, s.at).where(
        s.campaign_id == campaign_id, s.resource.in_(resources), s.at > datetime.fromtimestamp(since, UTC)
    )
    return [(r, float(a), at.timestamp()) for r, a, at in connection.execute(query.order_by(s.at, s.id))]


def jobs_by_rung(connection: Connection, campaign_id: int) -> dict[int, int]:
    """How many jobs each rung was asked to run, whatever became of them, but for those cancelled before they ran:
    {rung id: n}."""
    j = t.job.c
    own = sa.select(t.rung.c.id).where(t.rung.c.campaign_id == campaign_id)
    query = sa.select(j.rung_id, sa.func.count()).where(j.rung_id.in_(own), j.state != JobState.CANCELLED)
    query = query.group_by(j.rung_id)
    return {r: int(n) for r, n in connection.execute(query)}


def reuses_by_rung(connection: Connection, campaign_id: int) -> dict[int, int]:
    """How many answers of each rung were known before: {rung id: n}."""
    d = t.decision.c
    query = sa.select(d.rung_id, sa.func.count()).where(d.campaign_id == campaign_id, d.action == "reuse")
    return {r: int(n) for r, n in connection.execute(query.group_by(d.rung_id))}


def count(connection: Connection, table: sa.Table, *conditions: Any) -> int:
    return int(connection.execute(sa.select(sa.func.count()).select_from(table).where(*conditions)).scalar_one())


def hits(connection: Connection, campaign_id: int) -> int:
    return count(connection, t.campaign_candidate, _CC.campaign_id == campaign_id, _CC.is_hit == sa.true())


def status(connection: Connection, row: CampaignRow) -> dict[str, Any]:
    """The JSON of `sciagent status NAME --json`; a documented contract, add to it but change nothing. `rates` is there
    where the budget has any."""
    ladder = rungs(connection, row.id)
    place = (_CC.position, _CC.standing, _CC.verdict, _CC.hit_tier)
    counted = connection.execute(
        sa.select(*place, sa.func.count()).where(_CC.campaign_id == row.id).group_by(*place)
    ).all()
    by_place = [(position, standing, verdict, int(n)) for position, standing, verdict, _, n in counted]
    by_tier = {str(tier): sum(int(n) for *_, tier_, n in counted if tier_ == tier) for tier in Tier}
    s, d = t.spend.c, t.decision.c
    cost = {
        (rung, resource): float(amount)
        for rung, resource, amount in connection.execute(
            sa.select(s.rung_id, s.resource, sa.func.sum(s.amount))
            .where(s.campaign_id == row.id)
            .group_by(s.rung_id, s.resource)
        )
    }
    jobs = jobs_by_rung(connection, row.id)
    rates = _rates(connection, row)
    return {
        "campaign": row.name,
        "state": str(row.state),
        "stop_reason": row.stop_reason,
        "trouble": trouble(connection, row.id),
        "spent": spent(connection, row.id) | {"wall_minutes": row.wall_seconds / 60},
        "budget": {k: v for k, v in row.spec.get("budget", {}).items() if k not in rates},
        "proposals": count(connection, t.proposal, t.proposal.c.campaign_id == row.id),
        "unreadable": count(
            connection,
            t.proposal,
            t.proposal.c.campaign_id == row.id,
            t.proposal.c.status == "refused",
            t.proposal.c.candidate_id.is_(None),
        ),
        "candidates": sum(n for *_, n in by_place),
        "hits": hits(connection, row.id),
        "hits_by_tier": by_tier,
        "reused": count(connection, t.decision, d.campaign_id == row.id, d.action == "reuse"),
        "held": sum(n for _, standing, _, n in by_place if standing == Standing.HELD),
        "vetoed": sum(n for _, standing, _, n in by_place if standing == Standing.VETOED),
        "driver": _driver(connection, row),
        "rungs": [
            _rung_status(r, by_place, cost.get((r.id, "core_seconds"), 0.0)) | {"jobs": jobs.get(r.id, 0)}
            for r in ladder
        ],
    } | ({"rates": rates} if rates else {})


def _rates(connection: Connection, row: CampaignRow) -> dict[str, dict[str, float | str]]:
    """What is limited in any seven days, and what was spent of it in the last: {resource: amount, per, used}."""
    rates = {
        resource: one
        for resource, one in row.spec.get("budget", {}).items()
        if resource in RESOURCE_UNITS and isinstance(one, dict)
    }
    used = dict.fromkeys(rates, 0.0)
    since = db_now(connection).timestamp() - WEEK if rates else 0.0
    for resource, amount, _ in spent_since(connection, row.id, sorted(rates), since):
        used[resource] += amount
    return {resource: {**one, "used": used[resource]} for resource, one in rates.items()}


def _driver(connection: Connection, row: CampaignRow) -> dict[str, Any] | None:
    """Who drives it. Not alive: it died, and the state is what it wrote last."""
    found = driver_of(connection, row.id)
    return None if found is None else {"host": found.host, "pid": found.pid, "alive": found.alive, "until": found.until}


def _rung_status(rung: RungRow, places: list[tuple[int, str, str | None, int]], core_seconds: float) -> dict[str, Any]:
    passed = failed = inconclusive = errors = running = 0
    for position, standing, verdict, n in places:
        if position > rung.position or (position == rung.position and verdict == Verdict.PASS):
            passed += n
        elif position == rung.position and standing == Standing.PENDING:
            running += n
        elif position == rung.position and standing in (Standing.DROPPED, Standing.SETTLED, Standing.VETOED):
            failed += n if verdict in (Verdict.FAIL, Verdict.NOT_APPLICABLE) else 0
            inconclusive += n if verdict == Verdict.INCONCLUSIVE else 0
            errors += n if verdict == Verdict.ERROR else 0
    return {
        "rung": rung.name,
        "tier": rung.tier,
        "done": passed + failed + inconclusive + errors,
        "passed": passed,
        "failed": failed,
        "inconclusive": inconclusive,
        "errors": errors,
        "core_seconds": round(core_seconds, 3),
        "running": running,
    }


def evidence_of(connection: Connection, row: CampaignRow, candidate_ids: list[int]) -> dict[int, list[Any]]:
    """Current evidence under the campaign's own rungs: {candidate id: [(rung, evidence row)]}, in ladder order."""
    ladder = rungs(connection, row.id)
    e = t.current_evidence.c
    found: dict[int, list[Any]] = {i: [] for i in candidate_ids}
    for rung in ladder:
        query = sa.select(t.current_evidence).where(
            e.candidate_id.in_(candidate_ids),
            e.verifier == rung.verifier,
            e.verifier_version == rung.verifier_version,
            e.settings_hash == rung.settings_hash,
        )
        for one in connection.execute(query).mappings():
            found[one["candidate_id"]].append((rung, one))
    return found


def imported_of(connection: Connection, candidate_ids: list[int]) -> dict[int, list[dict[str, Any]]]:
    """Values that people brought from files, which no rung measured: {candidate id: [value with where it is from]}."""
    e = t.current_evidence.c
    query = sa.select(e.id, e.candidate_id, e.source, e.who, e.at).where(
        e.candidate_id.in_(candidate_ids), e.verifier == IMPORT
    )
    rows = sorted(connection.execute(query), key=lambda one: int(one.id))
    values = measured_of(connection, [r.id for r in rows])
    found: dict[int, list[dict[str, Any]]] = {i: [] for i in candidate_ids}
    for r in rows:
        for m in values.get(r.id, ()):
            q = m.quantity
            found[r.candidate_id].append(
                {
                    "property": m.property,
                    "value": q.value,
                    "unit": q.unit,
                    "uncertainty": q.uncertainty,
                    "censoring": str(q.censoring),
                    "level": m.level.label,
                    "source": r.source,
                    "who": r.who,
                    "at": r.at,
                }
            )
    return found


def best(connection: Connection, row: CampaignRow, n: int) -> list[dict[str, Any]]:
    """The JSON of `sciagent best NAME -n N --json`: hits first, then by depth reached and score."""
    query = (
        sa.select(
            _CC.candidate_id,
            t.candidate.c.key,
            t.candidate.c.text,
            _CC.utility,
            _CC.is_hit,
            _CC.in_seeds,
            _CC.depth,
            _CC.standing,
            _CC.score,
            _CC.reason,
            t.candidate.c.inchikey,
            _CC.detail,
        )
        .join(t.candidate, t.candidate.c.id == _CC.candidate_id)
        .where(_CC.campaign_id == row.id, _CC.standing != Standing.VETOED)
        .order_by(_CC.is_hit.desc(), _CC.depth.desc(), _CC.score.desc().nulls_last(), _CC.seq)
        .limit(n)
    )
    rows = connection.execute(query).all()
    evidence = evidence_of(connection, row, [r[0] for r in rows])
    imported = imported_of(connection, [r[0] for r in rows])
    values = measured_of(connection, [e["id"] for pairs in evidence.values() for _, e in pairs])
    found = []
    for r in rows:
        shown: dict[str, Any] = {}
        for rung, one in evidence[r[0]]:  # later rungs overwrite earlier ones: the highest level measured
            for m in values.get(one["id"], ()):
                q = m.quantity
                shown[m.property] = {
                    "value": q.value,
                    "unit": q.unit,
                    "uncertainty": q.uncertainty,
                    "level": m.level.label,
                    "rung": rung.name,
                }
        settled = r[7] == Standing.SETTLED
        found.append(
            {
                "key": r[1],
                "smiles": r[2],
                "inchikey": r[10],
                "utility": r[3],
                "p_hit": (1.0 if r[4] else 0.0) if settled or r[7] == Standing.DROPPED else None,
                "verified": settled,
                "hit": bool(r[4]),
                "in_seeds": bool(r[5]),
                "score": r[8],
                "reason": r[9],
                "detail": r[11],
                "values": shown,
                "imported": imported[r[0]],
            }
        )
    return found
