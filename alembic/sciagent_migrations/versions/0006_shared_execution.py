"""jobs that any worker may take, who works, and campaigns that a dispatcher drives

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
INDICES = (
    ("ix_job_queue", ["queue", "state", sa.text("priority DESC"), "id"]),
    ("ix_job_lease", ["state", "lease_until"]),
    ("ix_job_external", ["external"]),
)


def upgrade() -> None:
    op.add_column("campaign", sa.Column("hosted", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_index("ix_campaign_hosted", "campaign", ["hosted", "state"])
    op.add_column("rung", sa.Column("request", JSON))
    op.add_column("job", sa.Column("queue", sa.String(length=60)))
    op.add_column("job", sa.Column("external", sa.String(length=100)))
    op.add_column("job", sa.Column("seconds", sa.Float()))
    op.add_column("job", sa.Column("memory_mb", sa.Integer()))
    op.add_column("job", sa.Column("losses", sa.Integer(), nullable=False, server_default="0"))
    for name, columns in INDICES:
        op.create_index(name, "job", columns)
    op.create_table(
        "worker",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("host", sa.String(length=200), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("executor", sa.String(length=20), nullable=False),
        sa.Column("queues", JSON, nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("memory_mb", sa.Integer()),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column("stopped_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_worker")),
        sa.UniqueConstraint("name", name=op.f("uq_worker_name")),
    )
    op.create_index("ix_worker_until", "worker", ["until"])


def downgrade() -> None:
    op.drop_table("worker")
    for name, _ in INDICES:
        op.drop_index(name, "job")
    for name in ("losses", "memory_mb", "seconds", "external", "queue"):
        op.drop_column("job", name)
    op.drop_column("rung", "request")
    op.drop_index("ix_campaign_hosted", "campaign")
    op.drop_column("campaign", "hosted")
