"""what training needs: tool sets, policies, groups of rollouts, rewards; behaviour log-probabilities and watermarks

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
KEY = sa.String(64)
WHEN = sa.DateTime(timezone=True)

APPEND_ONLY = (*("turn", "proposal", "tool_set", "policy", "reward_spec", "reward_version", "reward", "training_use"),)
FIXED = {
    "trajectory": (
        *("id", "campaign_id", "number", "proposer", "settings", "seed", "policy_version", "started_at"),
        *("purpose", "group_id", "sibling", "code_version"),
    ),
    "rollout_group": (
        *("id", "campaign_id", "number", "task", "snapshot", "snapshot_watermark", "snapshot_seq", "opening"),
        *("opening_hash", "tool_set_id", "policy_id", "seed", "size", "purpose", "code_version", "at"),
    ),
}


def upgrade() -> None:
    policies()
    rewards()
    columns()
    for table in APPEND_ONLY:
        refuse_changes(table)
    for table, names in FIXED.items():
        refuse_changes(table, f" OF {', '.join(names)}")


def policies() -> None:
    create("tool_set", needed("hash", KEY), needed("content", JSON), unique=(("hash",),))
    create(
        "policy",
        needed("hash", KEY),
        needed("name", sa.String(200)),
        optional("base_sha256", KEY),
        optional("adapter_sha256", KEY),
        optional("parent_id", ID, refers="policy"),
        optional("recipe", JSON),
        needed("source", sa.Text()),
        needed("at", WHEN),
        unique=(("hash",),),
    )
    create(
        "rollout_group",
        needed("campaign_id", ID, refers="campaign"),
        needed("number", sa.Integer()),
        needed("task", JSON),
        needed("snapshot", JSON),
        needed("snapshot_watermark", ID),
        needed("snapshot_seq", sa.Integer()),
        needed("opening", JSON),
        needed("opening_hash", KEY),
        optional("tool_set_id", ID, refers="tool_set"),
        optional("policy_id", ID, refers="policy"),
        needed("seed", ID),
        needed("size", sa.Integer()),
        needed("purpose", sa.String(20)),
        needed("code_version", sa.String(100)),
        needed("state", sa.String(20)),
        needed("at", WHEN),
        unique=(("campaign_id", "number"),),
    )


def rewards() -> None:
    create("reward_spec", needed("hash", KEY), needed("spec", JSON), unique=(("hash",),))
    create(
        "reward_version",
        needed("campaign_id", ID, refers="campaign"),
        needed("number", sa.Integer()),
        needed("reward_spec_id", ID, refers="reward_spec"),
        needed("watermark", ID),
        needed("laws", JSON),
        needed("prices", JSON),
        optional("previous_id", ID, refers="reward_version"),
        needed("code_version", sa.String(100)),
        needed("at", WHEN),
        unique=(("campaign_id", "number"),),
    )
    create(
        "reward",
        needed("reward_version_id", ID, refers="reward_version"),
        needed("trajectory_id", ID, refers="trajectory"),
        optional("turn_id", ID, refers="turn"),
        optional("value", sa.Double()),
        optional("return", sa.Double()),
        optional("advantage", sa.Double()),
        needed("terms", JSON),
        needed("candidates", JSON),
        unique=(("reward_version_id", "trajectory_id", "turn_id"),),
    )
    op.create_index("ix_reward_trajectory", "reward", ["trajectory_id"])
    create(
        "training_use",
        needed("policy_id", ID, refers="policy"),
        needed("reward_version_id", ID, refers="reward_version"),
        needed("turn_id", ID, refers="turn"),
        needed("at", WHEN),
        unique=(("policy_id", "reward_version_id", "turn_id"),),
    )
    op.create_index("ix_training_use_turn", "training_use", ["turn_id"])


def columns() -> None:
    """Adds columns to tables that have rows; what was recorded before has NULL in them."""
    add("trajectory", optional("ended_why", sa.Text()))
    add("trajectory", needed("purpose", sa.String(20), default="campaign"))
    add("trajectory", optional("group_id", ID, refers="rollout_group"))
    add("trajectory", optional("sibling", sa.Integer()))
    add("trajectory", optional("code_version", sa.String(100)))
    index_of_some("ix_trajectory_group", "trajectory", "group_id", "sibling")
    add("turn", optional("tool_set_id", ID, refers="tool_set"))
    add("turn", optional("policy_id", ID, refers="policy"))
    add("turn", optional("asked_watermark", ID))
    add("turn", optional("asked_at", WHEN))
    add("turn", optional("behaviour", JSON))
    add("turn", optional("untrainable", sa.Text()))
    add("attempt", optional("watermark", ID))
    add("attempt", optional("turn_id", ID, refers="turn"))
    index_of_some("ix_attempt_turn", "attempt", "turn_id")
    add("law", needed("purpose", sa.String(20), default="scheduler"))


def needed(name: str, kind: Any, refers: str | None = None, default: str | None = None) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, server_default=default, info={"refers": refers})


def optional(name: str, kind: Any, refers: str | None = None) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=True, info={"refers": refers})


def create(table: str, *columns: sa.Column[Any], unique: tuple[tuple[str, ...], ...] = ()) -> None:
    """Creates a table with an id, its references, and the columns that are unique together."""
    constraints: list[Any] = [sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}"))]
    constraints += [sa.UniqueConstraint(*names, name=op.f("_".join(("uq", table, *names)))) for names in unique]
    for column in columns:
        if other := column.info["refers"]:
            name = op.f(f"fk_{table}_{column.name}")
            constraints.append(sa.ForeignKeyConstraint([column.name], [f"{other}.id"], name=name))
    op.create_table(table, sa.Column("id", ID, autoincrement=True, nullable=False), *columns, *constraints)


def add(table: str, column: sa.Column[Any]) -> None:
    """Adds a column. SQLite takes a reference only within the definition of a column, which Alembic does not write."""
    other = column.info["refers"]
    if other is None:
        op.add_column(table, column)
    elif op.get_bind().dialect.name == "sqlite":
        op.execute(f"ALTER TABLE {table} ADD COLUMN {column.name} INTEGER REFERENCES {other} (id)")
    else:
        op.add_column(table, column)
        op.create_foreign_key(op.f(f"fk_{table}_{column.name}"), table, other, [column.name], ["id"])


def index_of_some(name: str, table: str, first: str, *more: str) -> None:
    """Creates an index of the rows in which the first column is not NULL."""
    rows = sa.text(f"{first} IS NOT NULL")
    op.create_index(op.f(name), table, [first, *more], sqlite_where=rows, postgresql_where=rows)


def refuse_changes(table: str, of: str = "") -> None:
    """Rows can neither be changed nor removed, whoever asks. of: the columns that stay as they are; all by default."""
    if op.get_bind().dialect.name == "sqlite":
        for verb, change in (("UPDATE", f"UPDATE{of}"), ("DELETE", "DELETE")):
            op.execute(
                f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {change} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only: write a new revision'); END"
            )
        return
    changes = (("append_only", f"UPDATE{of} OR DELETE", "ROW"), ("no_truncate", "TRUNCATE", "STATEMENT"))
    for name, what, each in changes:
        op.execute(
            f"CREATE TRIGGER {table}_{name} BEFORE {what} ON {table} "
            f"FOR EACH {each} EXECUTE FUNCTION sciagent_append_only()"
        )
