"""what models sampled: the message, tokens that a grammar forced, and where a prompt leaves what was held

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.add_column("turn", sa.Column("message", JSON))
    op.add_column("turn", sa.Column("forced", JSON))
    op.add_column("turn", sa.Column("kept", sa.Integer()))


def downgrade() -> None:
    for name in ("kept", "forced", "message"):
        op.drop_column("turn", name)
