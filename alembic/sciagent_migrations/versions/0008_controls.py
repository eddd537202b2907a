"""rungs that are controls

Revision ID: 0008
Revises: 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("rung", sa.Column("control", sa.Boolean(), nullable=False, server_default=sa.false()))
