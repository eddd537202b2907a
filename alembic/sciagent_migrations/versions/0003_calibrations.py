"""calibrations of rungs on measured values

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "calibration",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("campaign_id", ID, nullable=False),
        sa.Column("rung_id", ID, nullable=False),
        sa.Column("property", sa.String(100), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("measured_level", sa.Text(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        *(
            sa.Column(name, sa.Double(), nullable=False)
            for name in ("slope", "intercept", "mean_absolute_error", "root_mean_square_error", "error_without")
        ),
        sa.Column("watermark", ID, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name="fk_calibration_campaign_id"),
        sa.ForeignKeyConstraint(["rung_id"], ["rung.id"], name="fk_calibration_rung_id"),
        sa.PrimaryKeyConstraint("id", name="pk_calibration"),
    )
    op.create_index("ix_calibration_campaign", "calibration", ["campaign_id", "id"])
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER calibration_no_{verb.lower()} BEFORE {verb} ON calibration "
                "BEGIN SELECT RAISE(ABORT, 'calibration is append-only: write a new revision'); END"
            )
        return
    for name, what, each in (("append_only", "UPDATE OR DELETE", "ROW"), ("no_truncate", "TRUNCATE", "STATEMENT")):
        op.execute(
            f"CREATE TRIGGER calibration_{name} BEFORE {what} ON calibration "
            f"FOR EACH {each} EXECUTE FUNCTION sciagent_append_only()"
        )
