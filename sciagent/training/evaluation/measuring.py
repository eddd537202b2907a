"""Reads what a campaign of an evaluation achieved, from the ledger."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.domain.answers.evaluation import EvaluatedCampaign
from sciagent.domain.cost import Cost
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.learning import evidence_costs
from sciagent.store.results import evidence
from sciagent.store.views.campaign_counts import asked_about
from sciagent.training.evaluation.planning import PlannedCampaign

_CC, _D = t.campaign_candidate.c, t.decision.c


def measure(connection: Connection, built: Built, planned: PlannedCampaign) -> EvaluatedCampaign:
    """Returns the figures of a campaign that has ended. Seeds count nowhere."""
    rows = _verified(connection, built)
    hits = [(place, scaffold) for place, (is_hit, scaffold) in enumerate(rows, start=1) if is_hit]
    row = campaigns.get(connection, built.row.name)
    calls, valid = _calls(connection, built.row.id)
    return EvaluatedCampaign(
        arm=planned.arm,
        task=planned.task,
        seed=planned.seed,
        campaign=planned.name,
        state=str(row.state),
        stop_reason=row.stop_reason or "",
        verifications=len(rows),
        hits=len(hits),
        hits_at=tuple(place for place, _ in hits),
        scaffolds=len({scaffold for _, scaffold in hits}),
        core_seconds=round(_core_seconds(connection, built), 6),
        calls=calls,
        valid_calls=valid,
    )


def _verified(connection: Connection, built: Built) -> list[tuple[bool, str | None]]:
    """Whether a candidate is a hit, and its scaffold, for each candidate that the terminal rung was asked about, in the
    order of the questions."""
    terminal = built.rungs[built.terminal]
    asked = sa.select(sa.func.min(_D.id)).where(
        _D.campaign_id == _CC.campaign_id, _D.candidate_id == _CC.candidate_id, _D.rung_id == terminal.id
    )
    order = () if built.decides_at_once else (asked.scalar_subquery(),)
    query = (
        sa.select(_CC.is_hit, t.candidate.c.scaffold_hash)
        .select_from(t.campaign_candidate.join(t.candidate, t.candidate.c.id == _CC.candidate_id))
        .where(_CC.campaign_id == built.row.id, *asked_about(built.terminal))
        .order_by(*order, _CC.seq)
    )
    return [(bool(is_hit), scaffold) for is_hit, scaffold in connection.execute(query)]


def _core_seconds(connection: Connection, built: Built) -> float:
    """Core-seconds of the sampling, of all answers on candidates that are no seeds, whoever paid for them, and of this
    campaign's attempts that gave no answer."""
    query = sa.select(_CC.candidate_id).where(_CC.campaign_id == built.row.id, _CC.in_seeds.is_(False))
    ids = list(connection.execute(query).scalars())
    answers = [
        each.id
        for rung in built.rungs
        for each in evidence.find_reusable(connection, ids, rung.verifier.computation).values()
    ]
    verified = sum(
        Cost(share).get("core_seconds", 0.0) for share in evidence_costs.shares(connection, answers).values()
    )
    s, a = t.spend.c, t.attempt.c
    mine = (s.campaign_id == built.row.id, s.resource == "core_seconds")
    sampled = sa.select(sa.func.coalesce(sa.func.sum(s.amount), 0.0)).where(*mine, s.attempt_id.is_(None))
    answered = sa.exists().where(t.evidence.c.attempt_id == a.id)
    failed = sa.select(sa.func.coalesce(sa.func.sum(s.amount), 0.0)).select_from(t.spend.join(t.attempt))
    failed = failed.where(*mine, a.id == s.attempt_id, ~answered)
    return verified + sum(float(connection.execute(each).scalar_one()) for each in (sampled, failed))


def _calls(connection: Connection, campaign_id: int) -> tuple[int, int]:
    """Returns the number of calls of a model, and of those that were carried out; of a script, the number of its
    proposals and of those that were molecules. An answer without a call counts as a call that was not carried out."""
    u, j, p = t.turn.c, t.trajectory.c, t.proposal.c
    turns = sa.select(u.calls, u.message).select_from(t.turn.join(t.trajectory, j.id == u.trajectory_id))
    rows = connection.execute(turns.where(j.campaign_id == campaign_id))
    made = [calls or [{"ok": False}] for calls, message in rows if message is not None]
    if made:
        oks = [bool(call["ok"]) for calls in made for call in calls]
        return len(oks), sum(oks)
    seeds = sa.func.coalesce(p.operation, "") == "seed"
    texts = sa.select(p.candidate_id).where(p.campaign_id == campaign_id, ~seeds)
    known = [id_ is not None for id_ in connection.execute(texts).scalars()]
    return len(known), sum(known)
