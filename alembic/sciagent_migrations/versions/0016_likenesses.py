"""candidates that relaxed to one structure, and an index of the formulas of candidates that are no molecules

Revision ID: 0016
Revises: 0015
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NO_MOLECULE = sa.text("kind != 'molecule'")
REFERENCES = {
    "campaign_id": "campaign",
    "candidate_id": "candidate",
    "of_id": "candidate",
    "rung_id": "rung",
    "evidence_id": "evidence",
    "of_evidence_id": "evidence",
}


def upgrade() -> None:
    op.create_index(
        "ix_candidate_formula", "candidate", ["formula"], sqlite_where=NO_MOLECULE, postgresql_where=NO_MOLECULE
    )
    op.create_table(
        "likeness",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        *(sa.Column(name, ID, nullable=False) for name in REFERENCES),
        sa.Column("distance", sa.Double(), nullable=False),
        sa.Column("watermark", ID, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        *(
            sa.ForeignKeyConstraint([name], [f"{target}.id"], name=f"fk_likeness_{name}")
            for name, target in REFERENCES.items()
        ),
        sa.UniqueConstraint("campaign_id", "candidate_id", name="uq_likeness_campaign_id_candidate_id"),
        sa.PrimaryKeyConstraint("id", name="pk_likeness"),
    )
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER likeness_no_{verb.lower()} BEFORE {verb} ON likeness "
                "BEGIN SELECT RAISE(ABORT, 'likeness is append-only: write a new revision'); END"
            )
        return
    for name, what, each in (("append_only", "UPDATE OR DELETE", "ROW"), ("no_truncate", "TRUNCATE", "STATEMENT")):
        op.execute(
            f"CREATE TRIGGER likeness_{name} BEFORE {what} ON likeness "
            f"FOR EACH {each} EXECUTE FUNCTION sciagent_append_only()"
        )
