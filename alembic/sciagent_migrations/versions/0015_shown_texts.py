"""an index of the texts that people read of candidates that are no molecules

Revision ID: 0015
Revises: 0014
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

NO_MOLECULE = sa.text("kind != 'molecule'")


def upgrade() -> None:
    op.create_index(
        "ix_candidate_text",
        "candidate",
        ["text"],
        sqlite_where=NO_MOLECULE,
        postgresql_where=NO_MOLECULE,
        postgresql_using="hash",
    )
