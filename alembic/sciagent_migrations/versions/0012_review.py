"""answers that wait for the review of a second person

Revision ID: 0012
Revises: 0011
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
SOME = sa.text("in_review_id IS NOT NULL")


def upgrade() -> None:
    with op.batch_alter_table("lab_task") as batch:
        batch.add_column(sa.Column("in_review_id", ID, nullable=True))
        batch.create_foreign_key(op.f("fk_lab_task_in_review_id"), "submission", ["in_review_id"], ["id"])
    op.create_index("ix_lab_task_in_review", "lab_task", ["in_review_id"], sqlite_where=SOME, postgresql_where=SOME)
