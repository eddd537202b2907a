"""Laws in the ledger, and the log of the scheduler's audit.

A law is the state of a fitted model, by which a scheduler decides, or by which rewards value candidates. Each fit is a
row that is never changed. The audit runs a random part of the candidates that the scheduler passed over. A row holds
the audit's entries that were new at that time: which candidates were passed over, and with which propensity, that is
the probability of being drawn. The entries of all rows of a campaign together are the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among
from sciagent.store.database.engine import db_now
from sciagent.store.results.evidence import read_watermark

VERSION_DIGITS = 16  # hexadecimal digits of a version
AUDIT = "audit"  # the chooser in decisions of the audit
_CC = t.campaign_candidate.c

Purpose = Literal["scheduler", "reward"]
"""The user of a law: a scheduler decides by it, or rewards value candidates by it."""


class LawRow(NamedTuple):
    """One row of the table of laws. Its id is its identity: two rows may have equal states at different watermarks."""

    id: int
    version: str
    """Hash of the state."""
    watermark: int
    state: dict[str, Any]


_ROW = sa.select(*(t.law.c[name] for name in LawRow._fields))


def write(
    connection: Connection,
    campaign_id: int,
    state: Mapping[str, Any],
    *,
    purpose: Purpose = "scheduler",
    watermark: int | None = None,
) -> LawRow:
    """Write a law.

    state: holds only the audit entries that are new. watermark: watermark of the newest evidence that the law knows;
    None: the present watermark.
    """
    version = content_hash(dict(state))[:VERSION_DIGITS]
    known = read_watermark(connection) if watermark is None else watermark
    new = t.law.insert().values(campaign_id=campaign_id, version=version, state=dict(state), at=db_now(connection))
    id_ = connection.execute(new.values(watermark=known, purpose=purpose).returning(t.law.c.id)).scalar_one()
    return LawRow(int(id_), version, known, dict(state))


def last(connection: Connection, campaign_id: int, purpose: Purpose = "scheduler") -> LawRow | None:
    """The newest law of the campaign for this purpose; None if there is none."""
    c = t.law.c
    query = _ROW.where(c.campaign_id == campaign_id, c.purpose == purpose).order_by(c.id.desc())
    row = connection.execute(query.limit(1)).one_or_none()
    return None if row is None else LawRow._make(row)


def by_id(connection: Connection, campaign_id: int, law_id: int, purpose: Purpose) -> LawRow | None:
    """The law with this id; None if the campaign has no such law for this purpose."""
    c = t.law.c
    query = _ROW.where(c.id == law_id, c.campaign_id == campaign_id, c.purpose == purpose)
    row = connection.execute(query).one_or_none()
    return None if row is None else LawRow._make(row)


@dataclass
class AuditLog:
    """The candidates that the scheduler passed over, in order. Each list has one entry per candidate."""

    ids: list[int] = field(default_factory=list)
    """Candidate ids."""
    p: list[float] = field(default_factory=list)
    """Estimated probability of a hit when the candidate was passed over."""
    cost: list[float] = field(default_factory=list)
    """Estimated cost of taking the candidate through the rest of the ladder, when it was passed over."""
    lot: list[float] = field(default_factory=list)
    """A random number in (0, 1); the candidate is drawn for the audit once `lot` < `pi`."""
    pi: list[float] = field(default_factory=list)
    """Propensity: probability that the audit has drawn the candidate so far. It starts at 0 and is raised later."""
    chosen: dict[int, float] = field(default_factory=dict)
    """{candidate id: probability of a hit when it was first chosen for the terminal rung}."""

    def add(self, entries: Mapping[str, Any]) -> None:
        """Add the entries of a row of `law`.

        `passed` holds (candidate id, p, cost, lot) of new candidates, `raised` holds (index in the lists, new pi), and
        `chosen` holds (candidate id, p).
        """
        for candidate_id, p, cost, lot in entries["passed"]:
            self.ids.append(int(candidate_id))
            self.p.append(float(p))
            self.cost.append(float(cost))
            self.lot.append(float(lot))
            self.pi.append(0.0)
        for index, pi in entries["raised"]:
            self.pi[index] = float(pi)
        for candidate_id, p in entries["chosen"]:
            self.chosen[int(candidate_id)] = float(p)


def audit_log(connection: Connection, campaign_id: int, as_of: int | None = None) -> AuditLog:
    """The log of the campaign. as_of: only what was written before this watermark; None: all of it."""
    c = t.law.c
    log = AuditLog()
    query = sa.select(c.state["audit"]).where(c.campaign_id == campaign_id, c.purpose == "scheduler").order_by(c.id)
    if as_of is not None:
        query = query.where(c.watermark < as_of)
    for entries in connection.execute(query).scalars():
        if entries is not None:
            log.add(entries)
    return log


class AuditDraw(NamedTuple):
    """A decision of the audit to take a candidate to a rung."""

    id: int
    candidate_id: int
    rung_id: int
    action: str


def audit_draws(connection: Connection, campaign_id: int, after: int = 0) -> list[AuditDraw]:
    """Decisions of the audit to run a rung, or to reuse its answer, with a larger id than `after`, oldest first."""
    d = t.decision.c
    query = sa.select(d.id, d.candidate_id, d.rung_id, d.action).where(
        d.campaign_id == campaign_id, d.action.in_(("run", "reuse")), d.chooser == AUDIT, d.id > after
    )
    return [AuditDraw(*row) for row in connection.execute(query.order_by(d.id))]


def candidate_keys(connection: Connection, candidate_ids: Sequence[int]) -> dict[int, str]:
    """{candidate id: key}."""
    c = t.candidate.c
    query = sa.select(c.id, c.key).where(among(connection, c.id, candidate_ids))
    return {id_: key for id_, key in connection.execute(query)}


def hit_ids(connection: Connection, campaign_id: int) -> set[int]:
    """Ids of the campaign's hits."""
    query = sa.select(_CC.candidate_id).where(_CC.campaign_id == campaign_id, _CC.is_hit == sa.true())
    return set(connection.execute(query).scalars())


def ids_with_answers_at(connection: Connection, campaign_id: int, depth: int, limit: int) -> list[int]:
    """Ids of candidates that have an answer of the rung at position `depth` or of a higher one, in order of arrival."""
    query = sa.select(_CC.candidate_id).where(_CC.campaign_id == campaign_id, _CC.depth >= depth)
    return list(connection.execute(query.order_by(_CC.seq).limit(limit)).scalars())
