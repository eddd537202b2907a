"""Compares campaigns: the candidates and hits that two campaigns share, and the values of a property."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.answers.comparison import SharedCandidates, ValueSpread
from sciagent.domain.answers.values import CandidateName
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.database import tables as t
from sciagent.store.views.report_candidates import of_rung

FIRST = 10


def candidates(connection: Connection, first: CampaignRow, second: CampaignRow) -> SharedCandidates:
    """The candidates and hits that two campaigns share, and the first of the shared hits."""
    a, b = t.campaign_candidate.alias("a"), t.campaign_candidate.alias("b")
    shared = a.join(b, sa.and_(b.c.candidate_id == a.c.candidate_id, b.c.campaign_id == second.id))
    both_hit = sa.and_(a.c.is_hit, b.c.is_hit)
    sums = (sa.func.coalesce(sa.func.sum(sa.case((hit, 1), else_=0)), 0) for hit in (both_hit, a.c.is_hit, b.c.is_hit))
    counted = sa.select(sa.func.count(), *sums).select_from(shared).where(a.c.campaign_id == first.id)
    n, both, hits_of_first, hits_of_second = connection.execute(counted).one()
    query = (
        sa.select(t.candidate.c.key, t.candidate.c.text)
        .select_from(shared.join(t.candidate, t.candidate.c.id == a.c.candidate_id))
        .where(a.c.campaign_id == first.id, both_hit)
        .order_by(a.c.seq)
        .limit(FIRST)
    )
    return SharedCandidates(
        both=n,
        hits_of_both=both,
        hits_of_first_known_to_second=hits_of_first,
        hits_of_second_known_to_first=hits_of_second,
        shared_hits=tuple(CandidateName(key=key, smiles=text) for key, text in connection.execute(query)),
    )


def spreads(connection: Connection, row: CampaignRow, rung: RungRow, name: str) -> tuple[ValueSpread, ...]:
    """Statistics of a rung's values of a property, by level; usually there is one level.

    Only candidates that the campaign itself took to the rung count; the ledger may have values of others.
    """
    e, q, p, level = t.current_evidence.c, t.quantity.c, t.property_.c, t.level.c
    cc = t.campaign_candidate.c
    statistics = (sa.func.count(), sa.func.min(q.value), sa.func.avg(q.value), sa.func.max(q.value))
    query = (
        sa.select(level.label, q.unit, *statistics)
        .select_from(t.campaign_candidate)
        .join(t.current_evidence, e.candidate_id == cc.candidate_id)
        .join(t.quantity, q.evidence_id == e.id)
        .join(t.property_, sa.and_(p.id == q.property_id, p.name == name))
        .join(t.level, level.id == q.level_id)
        .where(cc.campaign_id == row.id, cc.depth >= rung.position, *of_rung(rung), q.censoring == "none")
        .group_by(level.label, q.unit)
    )
    return tuple(
        ValueSpread(level=label, unit=unit, n=n, low=low, mean=mean, high=high)
        for label, unit, n, low, mean, high in connection.execute(query)
    )
