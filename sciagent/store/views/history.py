"""Everything the ledger holds on one candidate: who proposed it, what was decided, tried, found, and what it cost.

Every question stands on an index by candidate; all of it together is bounded by what was done with this candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.results.evidence import measured_of

MANY = 200  # rows of one kind that are shown at most


def candidate(connection: Connection, candidate_id: int) -> Any:
    return connection.execute(sa.select(t.candidate).where(t.candidate.c.id == candidate_id)).mappings().one()


def aliases(connection: Connection, candidate_id: int) -> list[str]:
    """Other texts it was handed in as."""
    a = t.candidate_alias.c
    query = sa.select(a.text).where(a.candidate_id == candidate_id).order_by(a.id).limit(20)
    return list(connection.execute(query).scalars())


def campaigns_of(connection: Connection, candidate_id: int) -> list[str]:
    """Names of the campaigns that have it."""
    cc, c = t.campaign_candidate.c, t.campaign.c
    all_ids = sa.select(c.id, c.name).order_by(c.id)
    return [
        name
        for id_, name in connection.execute(all_ids)  # campaigns are few; each is asked by its primary key
        if connection.execute(
            sa.select(sa.literal(1)).where(cc.campaign_id == id_, cc.candidate_id == candidate_id)
        ).first()
    ]


def proposals(connection: Connection, row: CampaignRow, candidate_id: int) -> list[Any]:
    """Each time it was handed in to the campaign, oldest first, with the proposer and the turn."""
    p, turn, trajectory = t.proposal.c, t.turn.c, t.trajectory.c
    query = (
        sa.select(
            p.id,
            p.text,
            p.status,
            p.operation,
            p.rationale,
            p.predicted,
            p.at,
            turn.number.label("turn"),
            trajectory.proposer,
            trajectory.number.label("trajectory"),
            turn.policy_version,
        )
        .select_from(
            t.proposal.outerjoin(t.turn, turn.id == p.turn_id).outerjoin(
                t.trajectory, trajectory.id == turn.trajectory_id
            )
        )
        .where(p.candidate_id == candidate_id, p.campaign_id == row.id)
        .order_by(p.id)
        .limit(MANY)
    )
    return list(connection.execute(query).mappings())


def parents(connection: Connection, proposal_ids: Sequence[int], candidate_id: int) -> list[Any]:
    """(key, text, operation, proposal id) of what it was made from."""
    cp, c = t.candidate_parent.c, t.candidate.c
    query = (
        sa.select(c.key, c.text, cp.operation, cp.proposal_id)
        .join(t.candidate, c.id == cp.parent_id)
        .where(cp.candidate_id == candidate_id, cp.proposal_id.in_(proposal_ids))
        .order_by(cp.id)
        .limit(MANY)
    )
    return list(connection.execute(query))


def children(connection: Connection, candidate_id: int) -> tuple[int, list[Any]]:
    """How many candidates were made from it, and (key, text) of the first five."""
    cp, c = t.candidate_parent.c, t.candidate.c
    there = cp.parent_id == candidate_id
    n = int(connection.execute(sa.select(sa.func.count(cp.candidate_id.distinct())).where(there)).scalar_one())
    query = sa.select(c.key, c.text).join(t.candidate, c.id == cp.candidate_id).where(there).distinct().limit(5)
    return n, list(connection.execute(query))


def decisions(connection: Connection, row: CampaignRow, candidate_id: int) -> list[Any]:
    d, r = t.decision.c, t.rung.c
    query = (
        sa.select(d.action, d.chooser, d.why, d.index, d.propensity, d.watermark, d.at, r.name.label("rung"))
        .select_from(t.decision.outerjoin(t.rung, r.id == d.rung_id))
        .where(d.campaign_id == row.id, d.candidate_id == candidate_id)
        .order_by(d.id)
        .limit(MANY)
    )
    return list(connection.execute(query).mappings())


def attempts(connection: Connection, row: CampaignRow, candidate_id: int, rung_ids: Sequence[int]) -> list[Any]:
    """Each try of each job, oldest first."""
    j, a, r = t.job.c, t.attempt.c, t.rung.c
    query = (
        sa.select(
            r.name.label("rung"),
            j.state.label("job"),
            a.id,
            a.state,
            a.outcome,
            a.reason,
            a.detail,
            a.cost,
            a.wall_seconds,
            a.started_at,
            a.ended_at,
            a.owner,
        )
        .select_from(t.job.join(t.rung, r.id == j.rung_id).outerjoin(t.attempt, a.job_id == j.id))
        .where(j.campaign_id == row.id, j.rung_id.in_(rung_ids), j.candidate_id == candidate_id)
        .order_by(j.id, a.id)
        .limit(MANY)
    )
    return list(connection.execute(query).mappings())


def evidence(connection: Connection, candidate_id: int) -> list[dict[str, Any]]:
    """All evidence on it, superseded revisions too, oldest first, with its values and files, and what it cost where."""
    e, a = t.evidence.c, t.attempt.c
    query = (
        sa.select(
            t.evidence,
            a.cost.label("attempt_cost"),
            a.wall_seconds,
            a.n_candidates,
            a.owner.label("host"),
            t.campaign.c.name.label("campaign"),
        )
        .select_from(
            t.evidence.outerjoin(t.attempt, a.id == e.attempt_id).outerjoin(
                t.campaign, t.campaign.c.id == a.campaign_id
            )
        )
        .where(e.candidate_id == candidate_id)
        .order_by(e.id)
        .limit(10 * MANY)
    )
    rows = [dict(one) for one in connection.execute(query).mappings()]
    ids = [one["id"] for one in rows]
    values, files = measured_of(connection, ids), _files(connection, ids)
    superseded = {one["supersedes_id"] for one in rows}
    for one in rows:
        one["measured"], one["files"] = values.get(one["id"], ()), files.get(one["id"], [])
        one["is_current"] = one["id"] not in superseded
    return rows


def _files(connection: Connection, evidence_ids: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
    """Artifacts by evidence, each with its removal, if it was removed."""
    found: dict[int, list[dict[str, Any]]] = {}
    f, gone = t.artifact.c, t.artifact_removal.c
    for start in range(0, len(evidence_ids), 500):
        chunk = evidence_ids[start : start + 500]
        rows = connection.execute(sa.select(t.artifact).where(f.evidence_id.in_(chunk)).order_by(f.id)).mappings().all()
        hashes = sorted({one["sha256"] for one in rows})
        removed = {
            one["sha256"]: {"who": one["who"], "why": one["why"], "at": one["at"]}
            for one in connection.execute(
                sa.select(t.artifact_removal).where(gone.sha256.in_(hashes)).order_by(gone.id)
            ).mappings()
        }
        for one in rows:
            found.setdefault(one["evidence_id"], []).append(
                {k: one[k] for k in ("name", "sha256", "size", "media_type")} | {"removed": removed.get(one["sha256"])}
            )
    return found


def ahead(connection: Connection, row: CampaignRow, position: int, score: float | None, seq: int) -> int:
    """How many open candidates wait at the same rung with a better score, counted up to a thousand; without a score,
    how many came earlier."""
    cc = t.campaign_candidate.c
    there = [cc.campaign_id == row.id, cc.standing == "open", cc.position == position]
    there.append(cc.score > score if score is not None else cc.seq < seq)
    inner = sa.select(sa.literal(1)).where(*there).limit(1000).subquery()
    return int(connection.execute(sa.select(sa.func.count()).select_from(inner)).scalar_one())
