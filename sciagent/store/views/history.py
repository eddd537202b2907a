"""Everything the ledger holds on one candidate: proposals, decisions, attempts, evidence and costs.

Every query is served by an index on the candidate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.answers.explanation import DecisionStory, EvidenceFile, FileRemoval
from sciagent.domain.evidence import Measured
from sciagent.domain.jobs.states import Standing
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.campaign_state.standings import count_up_to
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among
from sciagent.store.results.evidence import measured_of
from sciagent.store.views.report_queries import with_proposer

_P = t.proposal.c
MANY = 200  # largest number of rows of one kind


class ProposedOnce(NamedTuple):
    """One proposal of a candidate to a campaign."""

    id: int
    text: str
    status: str
    operation: str | None
    rationale: str | None
    predicted: Mapping[str, object] | None
    at: datetime
    turn: int | None
    """Number of the proposer's turn; None for a person."""
    proposer: str | None


class JobAttempt(NamedTuple):
    """One attempt of a job; `state` is None if the job has not been tried."""

    rung: str
    job: str
    """State of the job."""
    state: str | None
    outcome: str | None
    reason: str | None
    detail: str | None
    cost: Mapping[str, float] | None
    wall_seconds: float | None
    started_at: datetime | None
    owner: str | None

    @property
    def core_seconds(self) -> float:
        return float((self.cost or {}).get("core_seconds", 0.0))


class StoredEvidence(NamedTuple):
    """One row of evidence, with its values, its files, its cost and the campaign that paid."""

    id: int
    key: str
    candidate_id: int
    verifier: str
    verifier_version: str
    settings_hash: str
    outcome: str
    reason: str | None
    detail: str | None
    replicate: int
    revision: int
    versions: Mapping[str, str]
    source: str
    who: str
    why: str | None
    at: datetime
    watermark: int
    attempt_id: int | None
    campaign: str | None
    """The campaign that paid; None for `verify` and files."""
    core_seconds: float
    """Core-seconds of this candidate; the cost of a batch is shared equally."""
    is_current: bool
    """Whether no later revision supersedes it."""
    measured: tuple[Measured, ...]
    files: tuple[EvidenceFile, ...]
    rung: str
    """Label of the rung whose answer was asked for; empty if that is open."""


_STORED = StoredEvidence._fields[: StoredEvidence._fields.index("campaign")]


def candidate(connection: Connection, candidate_id: int) -> Any:
    """The candidate's row, as a mapping."""
    return connection.execute(sa.select(t.candidate).where(t.candidate.c.id == candidate_id)).mappings().one()


def aliases(connection: Connection, candidate_id: int) -> list[str]:
    """Other texts under which the candidate was proposed."""
    a = t.candidate_alias.c
    query = sa.select(a.text).where(a.candidate_id == candidate_id).order_by(a.id).limit(20)
    return list(connection.execute(query).scalars())


def campaigns_of(connection: Connection, candidate_id: int) -> list[str]:
    """Names of the campaigns that have the candidate."""
    cc, c = t.campaign_candidate.c, t.campaign.c
    member = sa.exists().where(cc.campaign_id == c.id, cc.candidate_id == candidate_id)  # campaigns are few
    return list(connection.execute(sa.select(c.name).where(member).order_by(c.id)).scalars())


def proposals(connection: Connection, row: CampaignRow, candidate_id: int) -> list[ProposedOnce]:
    """The candidate's proposals to the campaign, oldest first, with proposer and turn."""
    return proposed(connection, _P.candidate_id == candidate_id, _P.campaign_id == row.id)


def proposed(connection: Connection, *conditions: sa.ColumnElement[bool]) -> list[ProposedOnce]:
    """The proposals that meet the conditions, oldest first."""
    columns = [_P[name] for name in ProposedOnce._fields[:-2]]
    query = sa.select(*columns, t.turn.c.number, t.trajectory.c.proposer).select_from(with_proposer(t.proposal))
    query = query.where(*conditions).order_by(_P.id).limit(MANY)
    return [ProposedOnce._make(proposal) for proposal in connection.execute(query)]


def parents(connection: Connection, proposal_ids: Sequence[int], candidate_id: int) -> list[Any]:
    """(key, text, operation, proposal id) of the candidate's parents."""
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
    """The number of candidates made from this one, and (key, text) of five of them."""
    cp, c = t.candidate_parent.c, t.candidate.c
    is_child = cp.parent_id == candidate_id
    n = connection.execute(sa.select(sa.func.count(cp.candidate_id.distinct())).where(is_child)).scalar_one()
    query = sa.select(c.key, c.text).join(t.candidate, c.id == cp.candidate_id).where(is_child).distinct().limit(5)
    return n, list(connection.execute(query))


def decisions(connection: Connection, row: CampaignRow, candidate_id: int) -> dict[str, list[DecisionStory]]:
    """Decisions on the candidate, oldest first, by the rung's label."""
    d, r = t.decision.c, t.rung.c
    columns = (d.action, d.chooser, d.why, d.index, d.price, d.law_version, d.propensity, d.watermark, d.at)
    query = (
        sa.select(r.name.label("rung"), *columns)
        .select_from(t.decision.outerjoin(t.rung, r.id == d.rung_id))
        .where(d.campaign_id == row.id, d.candidate_id == candidate_id)
        .order_by(d.id)
        .limit(MANY)
    )
    by_rung: dict[str, list[DecisionStory]] = {}
    for decision in connection.execute(query).mappings():
        fields = dict(decision)
        by_rung.setdefault(fields.pop("rung"), []).append(DecisionStory(**fields))
    return by_rung


def attempts(connection: Connection, row: CampaignRow, candidate_id: int, rung_ids: Sequence[int]) -> list[JobAttempt]:
    """Attempts of the candidate's jobs, oldest first."""
    j, a, r = t.job.c, t.attempt.c, t.rung.c
    columns = (a.state, a.outcome, a.reason, a.detail, a.cost, a.wall_seconds, a.started_at, a.owner)
    query = (
        sa.select(r.name, j.state, *columns)
        .select_from(t.job.join(t.rung, r.id == j.rung_id).outerjoin(t.attempt, a.job_id == j.id))
        .where(j.campaign_id == row.id, j.rung_id.in_(rung_ids), j.candidate_id == candidate_id)
        .order_by(j.id, a.id)
        .limit(MANY)
    )
    return [JobAttempt._make(attempt) for attempt in connection.execute(query)]


def evidence(connection: Connection, candidate_id: int) -> list[StoredEvidence]:
    """All evidence on the candidate, including superseded revisions, oldest first."""
    of_candidate = t.evidence.c.candidate_id == candidate_id
    return sorted(stored_evidence(connection, t.evidence, of_candidate, limit=10 * MANY), key=attrgetter("id"))


def stored_evidence(
    connection: Connection, table: sa.FromClause, *conditions: sa.ColumnElement[bool], limit: int | None = None
) -> list[StoredEvidence]:
    """The rows of `evidence` or `current_evidence` that meet the conditions, by replicate and then oldest first."""
    e, a = table.c, t.attempt.c
    query = (
        sa.select(e.supersedes_id, a.cost, a.n_candidates, *(e[name] for name in _STORED), t.campaign.c.name)
        .select_from(table)
        .outerjoin(t.attempt, a.id == e.attempt_id)
        .outerjoin(t.campaign, t.campaign.c.id == a.campaign_id)
        .where(*conditions)
        .order_by(e.replicate, e.id)
        .limit(limit)
    )
    rows = connection.execute(query).all()
    ids = [row.id for row in rows]
    values, files = measured_of(connection, ids), _files(connection, ids)
    superseded = {row.supersedes_id for row in rows}
    return [
        StoredEvidence._make(
            [
                *row[3:],
                (row.cost or {}).get("core_seconds", 0.0) / max(row.n_candidates or 1, 1),
                row.id not in superseded,
                values.get(row.id, ()),
                tuple(files.get(row.id, ())),
                "",
            ]
        )
        for row in rows
    ]


def _files(connection: Connection, evidence_ids: Sequence[int]) -> dict[int, list[EvidenceFile]]:
    """Artifacts by evidence id, each with its removal if it was removed."""
    f, r = t.artifact.c, t.artifact_removal.c
    query = sa.select(f.evidence_id, f.name, f.sha256, f.size, f.media_type)
    rows = connection.execute(query.where(among(connection, f.evidence_id, evidence_ids)).order_by(f.id)).all()
    removals = sa.select(r.sha256, r.who, r.why, r.at).order_by(r.id)
    removals = removals.where(among(connection, r.sha256, sorted({row.sha256 for row in rows})))
    removed = {sha256: FileRemoval(who=who, why=why, at=at) for sha256, who, why, at in connection.execute(removals)}
    by_evidence: dict[int, list[EvidenceFile]] = {}
    for evidence_id, name, sha256, size, media_type in rows:
        file = EvidenceFile(name=name, sha256=sha256, size=size, media_type=media_type, removed=removed.get(sha256))
        by_evidence.setdefault(evidence_id, []).append(file)
    return by_evidence


def ahead(connection: Connection, row: CampaignRow, position: int, score: float | None, seq: int) -> int:
    """Number of open candidates at the same rung with a better score; without a score, of those that came earlier.
    Counting stops at 1000."""
    cc = t.campaign_candidate.c
    better = cc.score > score if score is not None else cc.seq < seq
    conditions = (cc.campaign_id == row.id, cc.standing == Standing.OPEN, cc.position == position, better)
    return count_up_to(connection, 1000, *conditions)
