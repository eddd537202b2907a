"""calibrations that are not used, since they would not help

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("calibration", sa.Column("is_used", sa.Boolean(), nullable=False, server_default=sa.true()))
