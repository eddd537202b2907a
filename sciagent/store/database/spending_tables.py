"""Tables of what jobs cost, from the reservation to the bill, and of events."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, Index, Table

from sciagent.store.database.column_types import Json, Key, String
from sciagent.store.database.schema import id_column, index_of_some, metadata, moment, reference

reservation = Table(
    "reservation",
    metadata,
    id_column(),
    reference("campaign_id", "campaign.id"),
    reference("job_id", "job.id", index=True),
    Column("resource", String(40), nullable=False),
    Column("amount", sa.Float, nullable=False),
    moment("at"),
    moment("released_at", nullable=True),
)

index_of_some("ix_reservation_live", reservation.c.released_at.is_(None), reservation.c.campaign_id)

spend = Table(
    "spend",
    metadata,
    id_column(),
    reference("campaign_id", "campaign.id"),
    reference("rung_id", "rung.id", nullable=True),
    reference("attempt_id", "attempt.id", nullable=True),
    Column("resource", String(40), nullable=False),
    Column("amount", sa.Float, nullable=False),
    moment("at"),
    Index("ix_spend_campaign_rung", "campaign_id", "rung_id", "resource", "amount"),
)

cost_observation = Table(
    "cost_observation",
    metadata,
    id_column(),
    Column("verifier", String(100), nullable=False),
    Column("verifier_version", String(40), nullable=False),
    Column("settings_hash", Key, nullable=False),
    reference("candidate_id", "candidate.id"),
    reference("attempt_id", "attempt.id"),
    Column("resource", String(40), nullable=False),
    Column("declared", sa.Float, nullable=False),
    Column("amount", sa.Float, nullable=False),
    moment("at"),
    Index("ix_cost_observation_rung", "verifier", "verifier_version", "settings_hash", "id"),
)

event = Table(
    "event",
    metadata,
    id_column(),
    reference("campaign_id", "campaign.id", nullable=True, index=True),
    Column("kind", String(40), nullable=False),
    Column("payload", Json, nullable=False),
    moment("at"),
)
