"""indexes of jobs and reservations hold only what is not over; two that nothing needs are gone

Revision ID: 0008
Revises: 0007
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

# name, table, columns now, of which rows, columns before
PARTIAL: tuple[tuple[str, str, list[Any], str, list[Any]], ...] = (
    ("ix_job_lease", "job", ["state", "lease_until"], "lease_until IS NOT NULL", ["state", "lease_until"]),
    ("ix_job_external", "job", ["external"], "external IS NOT NULL", ["external"]),
    (
        "ix_job_queue",
        "job",
        ["queue", "state", sa.text("priority DESC"), "id"],
        "queue IS NOT NULL",
        ["queue", "state", sa.text("priority DESC"), "id"],
    ),
    ("ix_reservation_live", "reservation", ["campaign_id"], "released_at IS NULL", ["campaign_id", "released_at"]),
)
GONE = (("ix_job_evidence_key", "job", "evidence_key"), ("ix_quantity_evidence_id", "quantity", "evidence_id"))


def upgrade() -> None:
    for name, table, columns, where, _ in PARTIAL:
        op.drop_index(name, table)
        op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
    for name, table, _ in GONE:
        op.drop_index(name, table)


def downgrade() -> None:
    for name, table, column in GONE:
        op.create_index(name, table, [column])
    for name, table, _, _, columns in PARTIAL:
        op.drop_index(name, table)
        op.create_index(name, table, columns)
