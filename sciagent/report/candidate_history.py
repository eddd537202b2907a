"""Reads everything that the ledger holds on one candidate: proposals, decisions, attempts, evidence and costs.

Every query is served by an index on the candidate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.answers.candidate_and_value_answers import EvidenceValue
from sciagent.domain.answers.explanation import AttemptStory, DecisionStory, EvidenceFile, EvidenceStory, FileRemoval
from sciagent.domain.display_units import Units, beside_limits, in_chosen_units
from sciagent.domain.evidence_keys_and_pooled_replicates import Computation, Measured
from sciagent.domain.states_and_needs import AttemptState, Standing
from sciagent.domain.worth import Worth
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.campaign_state.candidate_standings import count_up_to
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among
from sciagent.store.results.evidence import measured_of

MAX_ROWS = 200  # largest number of rows of one kind
MAX_AHEAD = 1000  # number at which `count_ahead` stops counting
N_FIRST_CHILDREN = 5  # children that are named


class JobAttempt(NamedTuple):
    """One attempt of a job."""

    rung: str
    """Label of the rung."""
    job: str
    """State of the job."""
    story: AttemptStory | None
    """The attempt; None if the job has not been tried."""


class StoredEvidence(NamedTuple):
    """One row of evidence, with the values by which it is judged."""

    story: EvidenceStory
    measured: tuple[Measured, ...]
    is_part: bool = False
    """Whether it is the answer of a person that leaves a quantity open, so that no verdict follows from it."""

    @property
    def computation(self) -> Computation:
        """Returns the computation that it is an answer of."""
        return Computation(self.story.verifier, self.story.version, self.story.settings_hash)

    def shown(self, units: Units, limits: Mapping[str, tuple[float, ...]]) -> EvidenceStory:
        """Returns the story with its values in the units that a campaign chose. limits: of the campaign, by property,
        in these units; the texts of the values tell them from these."""
        in_units = in_chosen_units(self.measured, units)
        values = tuple(EvidenceValue.of(beside_limits(measured, limits)) for measured in in_units)
        return self.story.model_copy(update={"values": values})


def candidate(connection: Connection, candidate_id: int) -> Any:
    """Returns the candidate's row, as a mapping."""
    return connection.execute(sa.select(t.candidate).where(t.candidate.c.id == candidate_id)).mappings().one()


def aliases(connection: Connection, candidate_id: int) -> list[str]:
    """Returns the texts under which the candidate was proposed, at most 20; the candidate's own may be among them."""
    a = t.candidate_alias.c
    query = sa.select(a.text).where(a.candidate_id == candidate_id).order_by(a.id).limit(20)
    return list(connection.execute(query).scalars())


def campaigns_of(connection: Connection, candidate_id: int) -> list[str]:
    """Returns the names of the campaigns that have the candidate."""
    cc = t.campaign_candidate.c
    c = t.campaign.c
    # looked up for each campaign of the ledger, since there are few
    has_candidate = sa.exists().where(cc.campaign_id == c.id, cc.candidate_id == candidate_id)
    return list(connection.execute(sa.select(c.name).where(has_candidate).order_by(c.id)).scalars())


def proposals(connection: Connection, row: CampaignRow, candidate_id: int) -> list[dict[str, Any]]:
    """Returns the columns of the candidate's proposals to the campaign, oldest first.

    `proposer` and `turn` are None for a proposal of a person.
    """
    p = t.proposal.c
    turn = t.turn.c
    trajectory = t.trajectory.c
    stated = (p.id, p.text, p.status, p.operation, p.rationale, p.predicted, p.at, p.detail, p.filter_decision)
    columns = (*stated, turn.number.label("turn"))
    turns = t.proposal.outerjoin(t.turn, turn.id == p.turn_id)
    query = (
        sa.select(*columns, trajectory.proposer)
        .select_from(turns.outerjoin(t.trajectory, trajectory.id == turn.trajectory_id))
        .where(p.candidate_id == candidate_id, p.campaign_id == row.id)
        .order_by(p.id)
        .limit(MAX_ROWS)
    )
    return [dict(proposal) for proposal in connection.execute(query).mappings()]


def parents(connection: Connection, proposal_ids: Sequence[int], candidate_id: int) -> list[Any]:
    """Returns (id, key, text, proposal id) of the candidate's parents in these proposals."""
    cp = t.candidate_parent.c
    c = t.candidate.c
    query = (
        sa.select(c.id, c.key, c.text, cp.proposal_id)
        .join(t.candidate, c.id == cp.parent_id)
        .where(cp.candidate_id == candidate_id, cp.proposal_id.in_(proposal_ids))
        .order_by(cp.id)
        .limit(MAX_ROWS)
    )
    return list(connection.execute(query))


def children(connection: Connection, candidate_id: int) -> tuple[int, list[Any]]:
    """Returns the number of candidates made from this one, and (id, key, text) of N_FIRST_CHILDREN of them."""
    cp = t.candidate_parent.c
    c = t.candidate.c
    is_child = cp.parent_id == candidate_id
    n = connection.execute(sa.select(sa.func.count(cp.candidate_id.distinct())).where(is_child)).scalar_one()
    query = sa.select(c.id, c.key, c.text).join(t.candidate, c.id == cp.candidate_id).where(is_child)
    return n, list(connection.execute(query.distinct().limit(N_FIRST_CHILDREN)))


def decisions(connection: Connection, row: CampaignRow, candidate_id: int) -> dict[str, list[DecisionStory]]:
    """Returns {label of the rung: decisions on the candidate, oldest first}."""
    d = t.decision.c
    r = t.rung.c
    columns = (d.action, d.chooser, d.why, d.index, d.price, d.law_version, d.propensity, d.watermark, d.at)
    query = (
        sa.select(r.name.label("rung"), *columns)
        .select_from(t.decision.outerjoin(t.rung, r.id == d.rung_id))
        .where(d.campaign_id == row.id, d.candidate_id == candidate_id)
        .order_by(d.id)
        .limit(MAX_ROWS)
    )
    by_rung: dict[str, list[DecisionStory]] = {}
    for decision in connection.execute(query).mappings():
        fields = dict(decision)
        by_rung.setdefault(fields.pop("rung"), []).append(DecisionStory(**fields))
    return by_rung


def attempts(connection: Connection, row: CampaignRow, candidate_id: int, rung_ids: Sequence[int]) -> list[JobAttempt]:
    """Returns the attempts of the candidate's jobs, oldest first; a job that was not tried has one entry, too."""
    j = t.job.c
    a = t.attempt.c
    r = t.rung.c
    columns = (a.id, a.state, a.outcome, a.reason, a.detail, a.cost, a.wall_seconds, a.started_at, a.owner)
    query = (
        sa.select(r.name, j.state.label("job"), *columns)
        .select_from(t.job.join(t.rung, r.id == j.rung_id).outerjoin(t.attempt, a.job_id == j.id))
        .where(j.campaign_id == row.id, j.rung_id.in_(rung_ids), j.candidate_id == candidate_id)
        .order_by(j.id, a.id)
        .limit(MAX_ROWS)
    )
    rows = connection.execute(query).all()
    under_way = [id_ for _, _, id_, state, *_ in rows if state == AttemptState.RUNNING]
    booked = _booked(connection, row, rung_ids, under_way)
    job_attempts = []
    for rung, job, id_, state, outcome, reason, detail, cost, wall_seconds, started_at, owner in rows:
        cost = booked.get(id_, cost)
        story = None
        if state is not None:
            story = AttemptStory(
                state=state,
                outcome=outcome,
                reason=reason,
                detail=detail or "",
                core_seconds=(cost or {}).get("core_seconds", 0.0),
                cost=cost or {},
                wall_seconds=wall_seconds,
                started_at=started_at,
                host=(owner or "").rsplit(":", 3)[0],  # a driver's owner is HOST:PROCESS:START:RANDOM
            )
        job_attempts.append(JobAttempt(rung, job, story))
    return job_attempts


def _booked(
    connection: Connection, row: CampaignRow, rung_ids: Sequence[int], attempt_ids: Sequence[int]
) -> dict[int, dict[str, float]]:
    """Returns {attempt id: {resource: amount}} booked for attempts that have not ended, such as claims of tasks."""
    if not attempt_ids:
        return {}
    s = t.spend.c
    query = sa.select(s.attempt_id, s.resource, sa.func.sum(s.amount)).where(
        s.campaign_id == row.id, s.rung_id.in_(rung_ids), among(connection, s.attempt_id, attempt_ids)
    )
    by_attempt: dict[int, dict[str, float]] = {}
    for attempt_id, resource, amount in connection.execute(query.group_by(s.attempt_id, s.resource)):
        if amount:
            by_attempt.setdefault(attempt_id, {})[resource] = float(amount)
    return by_attempt


def evidence(connection: Connection, candidate_id: int) -> list[StoredEvidence]:
    """Returns all evidence on the candidate, including superseded revisions, oldest first."""
    e = t.evidence.c
    a = t.attempt.c
    story_columns = (
        e.key,
        e.verifier,
        e.verifier_version.label("version"),
        e.settings_hash,
        e.outcome,
        e.reason,
        e.unobtained,
        e.diagnostics,
        e.versions,
        e.source,
        e.who,
        e.why,
        e.at,
        e.revision,
        e.watermark,
        t.campaign.c.name.label("campaign"),
    )
    query = (
        sa.select(*story_columns, e.id, e.detail, e.reusable, e.supersedes_id, a.cost, a.n_candidates)
        .select_from(t.evidence)
        .outerjoin(t.attempt, a.id == e.attempt_id)
        .outerjoin(t.campaign, t.campaign.c.id == a.campaign_id)
        .where(e.candidate_id == candidate_id)
        .order_by(e.id)
        .limit(10 * MAX_ROWS)
    )
    rows = connection.execute(query).all()
    ids = [row.id for row in rows]
    values = measured_of(connection, ids)
    files = _files(connection, ids)
    superseded = {row.supersedes_id for row in rows}
    stored = []
    for row in rows:
        measured = values.get(row.id, ())
        core_seconds_of_attempt = (row.cost or {}).get("core_seconds", 0.0)
        n_sharing = max(row.n_candidates or 1, 1)  # candidates that the attempt verified together
        story = EvidenceStory(
            **{column.key: getattr(row, column.key) for column in story_columns if column.key != "unobtained"},
            unobtained=row.unobtained or {},
            detail=row.detail or "",
            values=tuple(map(EvidenceValue.of, measured)),
            core_seconds=round(core_seconds_of_attempt / n_sharing, 3),
            is_current=row.id not in superseded,
            files=tuple(files.get(row.id, ())),
        )
        is_part = story.source.startswith("task ") and not row.reusable
        stored.append(StoredEvidence(story, measured, is_part))
    return stored


def _files(connection: Connection, evidence_ids: Sequence[int]) -> dict[int, list[EvidenceFile]]:
    """Returns {evidence id: its artifacts}; an artifact that was removed says who removed it, when and why."""
    f = t.artifact.c
    r = t.artifact_removal.c
    query = sa.select(f.evidence_id, f.name, f.sha256, f.size, f.media_type)
    rows = connection.execute(query.where(among(connection, f.evidence_id, evidence_ids)).order_by(f.id)).all()
    if not rows:
        return {}
    removals = sa.select(r.sha256, r.who, r.why, r.at).order_by(r.id)
    removals = removals.where(among(connection, r.sha256, sorted({row.sha256 for row in rows})))
    removed = {sha256: FileRemoval(who=who, why=why, at=at) for sha256, who, why, at in connection.execute(removals)}
    by_evidence: dict[int, list[EvidenceFile]] = {}
    for evidence_id, name, sha256, size, media_type in rows:
        file = EvidenceFile(name=name, sha256=sha256, size=size, media_type=media_type, removed=removed.get(sha256))
        by_evidence.setdefault(evidence_id, []).append(file)
    return by_evidence


def count_ahead(connection: Connection, row: CampaignRow, position: int, worth: Worth | None, seq: int) -> int:
    """Returns the number of open candidates that the rung takes before one with this worth and number: the better
    ones, and of equal ones those that came earlier. Counting stops at MAX_AHEAD."""
    cc = t.campaign_candidate.c
    is_before: sa.ColumnElement[bool] = cc.seq < seq
    if worth is None:
        is_before = sa.or_(cc.chance.is_not(None), is_before)
    else:
        margin = sa.func.coalesce(cc.margin, t.LEAST_MARGIN)
        own_margin = t.LEAST_MARGIN if worth.margin is None else worth.margin
        for column, value in ((margin, own_margin), (cc.expected_utility, worth.expected_utility)):
            is_before = sa.or_(column > value, sa.and_(column == value, is_before))
        is_before = sa.or_(cc.chance > worth.chance, sa.and_(cc.chance == worth.chance, is_before))
    conditions = (cc.campaign_id == row.id, cc.standing == Standing.OPEN, cc.position == position, is_before)
    return count_up_to(connection, MAX_AHEAD, *conditions)
