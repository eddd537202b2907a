"""people, their roles, sessions and acts; samples, tasks and answers of the laboratory

Revision ID: 0011
Revises: 0010
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
WHEN = sa.DateTime(timezone=True)
KEY = sa.String(64)
APPEND_ONLY = ("audit_entry", "submission")


def upgrade() -> None:
    op.add_column("campaign", optional("wakes_at", WHEN))
    op.execute("INSERT INTO watermark (id, value) VALUES (2, 0)")
    people()
    laboratory()
    for table in APPEND_ONLY:
        refuse_changes(table)


def people() -> None:
    create(
        "person",
        *(needed("login", sa.String(64)), needed("name", sa.String(200)), optional("email", sa.String(320))),
        *(optional("password_hash", sa.Text()), needed("is_admin", sa.Boolean()), optional("disabled_at", WHEN)),
        *(needed("failures", sa.Integer()), optional("locked_until", WHEN), needed("created_at", WHEN)),
        sa.UniqueConstraint("login", name=op.f("uq_person_login")),
    )
    create(
        "membership",
        *refers("membership", "person"),
        *refers("membership", "campaign", nullable=True),
        needed("role", sa.String(20)),
        sa.UniqueConstraint("person_id", "campaign_id", name=op.f("uq_membership_person_id_campaign_id")),
    )
    everywhere = sa.text("campaign_id IS NULL")
    op.create_index(
        "ix_membership_everywhere",
        "membership",
        ["person_id"],
        unique=True,
        sqlite_where=everywhere,
        postgresql_where=everywhere,
    )
    create(
        "access",
        *refers("access", "person"),
        *(needed("kind", sa.String(20)), needed("secret_hash", KEY), optional("csrf", KEY)),
        *(needed("label", sa.String(200)), needed("scopes", JSON), optional("address", sa.String(64))),
        *(needed("created_at", WHEN), needed("expires_at", WHEN), optional("seen_at", WHEN)),
        optional("revoked_at", WHEN),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_access_secret_hash")),
    )
    op.create_index(op.f("ix_access_person_id"), "access", ["person_id"])
    op.create_index("ix_access_expires", "access", ["expires_at"])
    create(
        "audit_entry",
        needed("at", WHEN),
        *refers("audit_entry", "person", nullable=True),
        *refers("audit_entry", "access", nullable=True),
        *(needed("who", sa.String(200)), needed("what", sa.String(40)), needed("object", sa.String(40))),
        optional("object_id", ID),
        *refers("audit_entry", "campaign", nullable=True),
        *(needed("payload", JSON), needed("previous_hash", KEY), needed("hash", KEY)),
        sa.UniqueConstraint("hash", name=op.f("uq_audit_entry_hash")),
    )
    op.create_index("ix_audit_entry_campaign", "audit_entry", ["campaign_id", "id"])
    op.create_index("ix_audit_entry_object", "audit_entry", ["object", "object_id", "id"])


def laboratory() -> None:
    create(
        "sample",
        needed("code", sa.String(16)),
        *refers("sample", "candidate"),
        *refers("sample", "sample", column="parent_id", nullable=True),
        *(needed("form", sa.String(200)), needed("source", sa.String(20)), optional("lot", sa.String(100))),
        *(optional("amount", sa.Double()), optional("amount_unit", sa.String(20)), optional("purity", sa.Double())),
        *(optional(name, sa.String(200)) for name in ("purity_how", "made_by", "place")),
        *(optional("made_on", sa.Date()), needed("state", sa.String(20)), needed("who", sa.String(200))),
        needed("created_at", WHEN),
        sa.UniqueConstraint("code", name=op.f("uq_sample_code")),
    )
    op.create_index(op.f("ix_sample_candidate_id"), "sample", ["candidate_id"])
    op.create_table(
        "lab_task",
        sa.Column("job_id", ID, autoincrement=False, nullable=False),
        *(needed("version", sa.Integer()), optional("plate", sa.String(60)), optional("well", sa.String(10))),
        *(optional("due_at", WHEN), optional("approved_at", WHEN)),
        *refers("lab_task", "person", column="assigned_to", nullable=True),
        optional("approved_by", sa.String(200)),
        *refers("lab_task", "sample", nullable=True),
        optional("note", sa.Text()),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_lab_task_job_id")),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_lab_task")),
    )
    op.create_index("ix_lab_task_sample", "lab_task", ["sample_id"])
    op.create_index("ix_lab_task_due", "lab_task", ["due_at"])
    create(
        "submission",
        needed("key", KEY),
        *refers("submission", "job"),
        *(needed("fence", sa.Integer()), needed("revision", sa.Integer()), needed("kind", sa.String(20))),
        *refers("submission", "submission", column="of_id", nullable=True),
        *refers("submission", "person", nullable=True),
        *refers("submission", "access", nullable=True),
        *refers("submission", "sample", nullable=True),
        *(needed("who", sa.String(200)), needed("said", JSON), needed("files", JSON), optional("why", sa.Text())),
        *refers("submission", "evidence", nullable=True),
        needed("at", WHEN),
        sa.UniqueConstraint("key", name=op.f("uq_submission_key")),
    )
    op.create_index("ix_submission_job", "submission", ["job_id", "id"])


def create(table: str, *items: sa.schema.SchemaItem) -> None:
    """Creates a table with the primary key `id`."""
    key = sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}"))
    op.create_table(table, sa.Column("id", ID, autoincrement=True, nullable=False), *items, key)


def needed(name: str, kind: sa.types.TypeEngine[object]) -> sa.Column[object]:
    """Returns a column that is never NULL."""
    return sa.Column(name, kind, nullable=False)


def optional(name: str, kind: sa.types.TypeEngine[object]) -> sa.Column[object]:
    return sa.Column(name, kind, nullable=True)


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
