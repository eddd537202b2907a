"""an index of imported evidence, of which there is little among much that was computed

Revision ID: 0013
Revises: 0012
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

SOME = sa.text("verifier = 'import'")


def upgrade() -> None:
    op.create_index("ix_evidence_import", "evidence", ["candidate_id"], sqlite_where=SOME, postgresql_where=SOME)
