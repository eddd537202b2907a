"""what jobs hold while they run, what workers have, and licences that all of them share

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
NEEDY = sa.text("needs IS NOT NULL")
HOLDING = sa.text("holds IS NOT NULL AND ended_at IS NULL")


def upgrade() -> None:
    op.add_column("job", sa.Column("needs", sa.String(length=400)))
    op.create_index("ix_job_needs", "job", ["state", "queue", "needs"], sqlite_where=NEEDY, postgresql_where=NEEDY)
    op.add_column("attempt", sa.Column("holds", JSON))
    op.create_index("ix_attempt_holds", "attempt", ["owner"], sqlite_where=HOLDING, postgresql_where=HOLDING)
    op.add_column("worker", sa.Column("cores", sa.Integer()))
    op.add_column("worker", sa.Column("resources", JSON))
    op.create_table(
        "licence",
        sa.Column("name", sa.String(length=31), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("who", sa.String(length=200), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_licence")),
    )


def downgrade() -> None:
    op.drop_table("licence")
    op.drop_column("worker", "resources")
    op.drop_column("worker", "cores")
    op.drop_index("ix_attempt_holds", "attempt")
    op.drop_column("attempt", "holds")
    op.drop_index("ix_job_needs", "job")
    op.drop_column("job", "needs")
