"""how new a proposal was when it was made; the scaffold of a candidate, to look it up by

Candidates from before this revision have no scaffold yet; `store.novelty.fill_scaffolds` gives it to them.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.add_column("candidate", sa.Column("scaffold_hash", sa.String(length=64), nullable=True))
    op.create_index("ix_candidate_scaffold_hash", "candidate", ["scaffold_hash", "id"])
    op.add_column("proposal", sa.Column("novelty", JSON, nullable=True))


def downgrade() -> None:
    op.drop_column("proposal", "novelty")
    op.drop_index("ix_candidate_scaffold_hash", "candidate")
    op.drop_column("candidate", "scaffold_hash")
