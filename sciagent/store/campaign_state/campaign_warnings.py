"""Warnings of a campaign whose jobs do not reach their cluster, stored as its events."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t

REFUSED, TOOK = "slurm_refused", "slurm_took"
_ENDS = (TOOK, "driver_started")  # a new driver begins with what it meets itself


def trouble(connection: Connection, campaign_id: int) -> str | None:
    """The current warning; None if there is none."""
    e = t.event.c
    query = sa.select(e.kind, e.payload).where(e.campaign_id == campaign_id, e.kind.in_([REFUSED, *_ENDS]))
    last = connection.execute(query.order_by(e.id.desc()).limit(1)).first()
    return str(last.payload["why"]) if last is not None and last.kind == REFUSED else None


def note(connection: Connection, campaign_id: int, why: str | None) -> None:
    """Record the current warning, or None if it is over. Nothing is written if that is recorded already."""
    if trouble(connection, campaign_id) == why:
        return
    campaigns.log_event(connection, campaign_id, TOOK if why is None else REFUSED, {"why": why} if why else {})
