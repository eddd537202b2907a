"""what an attempt had cost when it was lost, and the watermark at which its late worker raised that

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

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.add_column("attempt", sa.Column("cost_at_loss", JSON, nullable=True))
    op.add_column("attempt", sa.Column("late_watermark", ID, nullable=True))
