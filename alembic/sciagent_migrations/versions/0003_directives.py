"""what people tell a campaign to do, and which files were removed on purpose

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
TABLES = ("directive", "artifact_removal")


def _refuse_changes(table: str) -> None:
    """Rows of an append-only table can neither be changed nor removed, whoever asks; the function is of 0001."""
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only: write a new revision'); END"
            )
        return
    for name, what in (("append_only", "UPDATE OR DELETE"), ("no_truncate", "TRUNCATE")):
        each = "ROW" if name == "append_only" else "STATEMENT"
        op.execute(
            f"CREATE TRIGGER {table}_{name} BEFORE {what} ON {table} "
            f"FOR EACH {each} EXECUTE FUNCTION sciagent_append_only()"
        )


def upgrade() -> None:
    op.create_table(
        "directive",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("campaign_id", ID, nullable=False),
        sa.Column("candidate_id", ID, nullable=True),
        sa.Column("rung_id", ID, nullable=True),
        sa.Column("verb", sa.String(length=20), nullable=False),
        sa.Column("payload", JSON, nullable=False),
        sa.Column("who", sa.String(length=200), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name=op.f("fk_directive_campaign_id")),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidate.id"], name=op.f("fk_directive_candidate_id")),
        sa.ForeignKeyConstraint(["rung_id"], ["rung.id"], name=op.f("fk_directive_rung_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_directive")),
    )
    op.create_index("ix_directive_campaign", "directive", ["campaign_id", "id"])
    op.create_index("ix_directive_candidate", "directive", ["campaign_id", "candidate_id", "id"])
    op.create_table(
        "artifact_removal",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size", ID, nullable=False),
        sa.Column("who", sa.String(length=200), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_artifact_removal")),
    )
    op.create_index(op.f("ix_artifact_removal_sha256"), "artifact_removal", ["sha256"])
    for table in TABLES:
        _refuse_changes(table)


def downgrade() -> None:
    for table in TABLES:
        op.drop_table(table)
