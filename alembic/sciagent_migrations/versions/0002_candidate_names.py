"""names of candidates, from the columns of input files

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "candidate_name",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("candidate_id", ID, nullable=False),
        sa.Column("campaign_id", ID, nullable=True),
        sa.Column("field", sa.String(60), nullable=False),
        sa.Column("text", sa.String(200), nullable=False),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidate.id"], name="fk_candidate_name_candidate_id"),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name="fk_candidate_name_campaign_id"),
        sa.PrimaryKeyConstraint("id", name="pk_candidate_name"),
        sa.UniqueConstraint(
            "candidate_id", "campaign_id", "field", "text", name="uq_candidate_name_candidate_id_campaign_id_field_text"
        ),
    )
    op.create_index("ix_candidate_name_text", "candidate_name", ["text"])
