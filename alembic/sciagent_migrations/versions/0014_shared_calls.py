"""the number of jobs that shared the call of an attempt, so that the cost of a lost call is divided among them

Revision ID: 0014
Revises: 0013
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempt", sa.Column("together", sa.Integer(), nullable=True))
