"""what schedulers have learnt

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


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
        "law",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("campaign_id", ID, nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("watermark", ID, nullable=False),
        sa.Column("state", JSON, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name=op.f("fk_law_campaign_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_law")),
    )
    op.create_index("ix_law_campaign", "law", ["campaign_id", "id"])
    _refuse_changes("law")


def downgrade() -> None:
    op.drop_table("law")
