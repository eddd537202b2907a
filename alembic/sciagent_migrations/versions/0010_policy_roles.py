"""evaluations, roles of policies, and the policies that campaigns name

Revision ID: 0010
Revises: 0009
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
WHEN = sa.DateTime(timezone=True)
APPEND_ONLY = ("evaluation", "evaluation_arm", "policy_role", "campaign_policy")


def upgrade() -> None:
    create(
        "evaluation",
        needed("hash", sa.String(64)),
        *(needed("spec", JSON), needed("answer", JSON), needed("who", sa.String(200)), needed("at", WHEN)),
        sa.UniqueConstraint("hash", name=op.f("uq_evaluation_hash")),
    )
    create(
        "evaluation_arm",
        *refers("evaluation_arm", "evaluation"),
        needed("name", sa.String(64)),
        *refers("evaluation_arm", "policy"),
        sa.UniqueConstraint("evaluation_id", "name", name=op.f("uq_evaluation_arm_evaluation_id_name")),
    )
    op.create_index(op.f("ix_evaluation_arm_policy"), "evaluation_arm", ["policy_id"])
    create(
        "policy_role",
        needed("role", sa.String(64)),
        *refers("policy_role", "policy"),
        *refers("policy_role", "policy_role", column="undoes_id", nullable=True),
        *refers("policy_role", "evaluation", nullable=True),
        *(needed("who", sa.String(200)), needed("why", sa.Text()), needed("at", WHEN)),
    )
    op.create_index(op.f("ix_policy_role_role"), "policy_role", ["role", "id"])
    create(
        "campaign_policy",
        *refers("campaign_policy", "campaign"),
        needed("proposer", sa.String(64)),
        *refers("campaign_policy", "policy"),
        *(needed("named", sa.String(200)), needed("at", WHEN)),
        sa.UniqueConstraint("campaign_id", "proposer", name=op.f("uq_campaign_policy_campaign_id_proposer")),
    )
    for table in APPEND_ONLY:
        refuse_changes(table)


def create(table: str, *items: sa.schema.SchemaItem) -> None:
    """Creates a table with the primary key `id`."""
    key = sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}"))
    op.create_table(table, sa.Column("id", ID, autoincrement=True, nullable=False), *items, key)


def needed(name: str, kind: sa.types.TypeEngine[object]) -> sa.Column[object]:
    """Returns a column that is never NULL."""
    return sa.Column(name, kind, nullable=False)


def refers(table: str, target: str, column: str = "", nullable: bool = False) -> tuple[sa.schema.SchemaItem, ...]:
    """Returns a column with the id of a row of another table, and its constraint."""
    name = column or f"{target}_id"
    key = sa.ForeignKeyConstraint([name], [f"{target}.id"], name=op.f(f"fk_{table}_{name}"))
    return sa.Column(name, ID, nullable=nullable), key


def refuse_changes(table: str) -> None:
    """Makes the table append-only: the database refuses to change or remove its rows."""
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only: write a new revision'); END"
            )
        return
    for name, what, each in (("append_only", "UPDATE OR DELETE", "ROW"), ("no_truncate", "TRUNCATE", "STATEMENT")):
        op.execute(
            f"CREATE TRIGGER {table}_{name} BEFORE {what} ON {table} "
            f"FOR EACH {each} EXECUTE FUNCTION sciagent_append_only()"
        )
