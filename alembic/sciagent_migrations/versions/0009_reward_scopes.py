"""versions of rewards of some groups

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("reward_version", sa.Column("scope", sa.String(64), nullable=True))
    op.create_index("ix_reward_version_scope", "reward_version", ["campaign_id", "scope"])
