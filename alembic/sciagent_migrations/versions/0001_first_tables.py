"""the tables of the ledger

Revision ID: 0001
Revises:

Tables come in the order in which they refer to each other. From the first release on this script is not
changed: what changes later comes as a script of its own.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
IS_HIT = sa.column("is_hit", sa.Boolean()) == sa.true()
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
KEY = sa.String(64)
TEXT = sa.Text()
WHEN = sa.DateTime(timezone=True)

APPEND_ONLY = (
    "evidence", "quantity", "artifact", "decision", "spend", "cost_observation", "campaign_amendment", "directive",
    "artifact_removal", "law", "calibration", "likeness", "turn", "proposal", "tool_set", "policy", "reward_spec",
    "reward_version", "reward", "training_use", "evaluation", "evaluation_arm", "policy_role", "campaign_policy",
    "campaign_law", "submission", "audit_entry",
)  # fmt: skip
FIXED = {
    "trajectory": (
        "id", "campaign_id", "number", "proposer", "settings", "seed", "policy_version", "started_at", "purpose",
        "group_id", "sibling", "code_version",
    ),
    "rollout_group": (
        "id", "campaign_id", "number", "task", "snapshot", "snapshot_watermark", "snapshot_seq", "opening",
        "opening_hash", "tool_set_id", "policy_id", "seed", "size", "purpose", "code_version", "at",
    ),
}  # fmt: skip
"""The columns that may not change, by table; the others may."""

CURRENT_EVIDENCE = """
CREATE VIEW current_evidence AS SELECT e.* FROM evidence e
WHERE NOT EXISTS (SELECT 1 FROM evidence later WHERE later.supersedes_id = e.id)
"""


def upgrade() -> None:
    tables()
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION sciagent_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "RAISE EXCEPTION '% is append-only: write a new revision', TG_TABLE_NAME; END $$"
        )
    for table in APPEND_ONLY:
        refuse_changes(table)
    for table, columns in FIXED.items():
        refuse_changes(table, f" OF {', '.join(columns)}")
    op.execute(CURRENT_EVIDENCE)
    op.execute("INSERT INTO watermark (id, value) VALUES (1, 0), (2, 0)")


def refuse_changes(table: str, columns: str = "") -> None:
    """Rows can neither be changed nor removed, whoever asks. columns: those that may not change; all by default."""
    if op.get_bind().dialect.name == "sqlite":
        for verb, change in (("update", f"UPDATE{columns}"), ("delete", "DELETE")):
            op.execute(
                f"CREATE TRIGGER {table}_no_{verb} BEFORE {change} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only: write a new revision'); END"
            )
        return
    changes = (("append_only", f"UPDATE{columns} OR DELETE", "ROW"), ("no_truncate", "TRUNCATE", "STATEMENT"))
    for name, what, each in changes:
        op.execute(
            f"CREATE TRIGGER {table}_{name} BEFORE {what} ON {table} "
            f"FOR EACH {each} EXECUTE FUNCTION sciagent_append_only()"
        )


def needed(name: str, kind: Any, default: Any = None) -> sa.Column[Any]:
    """A column that has a value in every row."""
    return sa.Column(name, kind, nullable=False, server_default=default)


def optional(name: str, kind: Any) -> sa.Column[Any]:
    """A column that may be NULL."""
    return sa.Column(name, kind, nullable=True)


def reference(name: str, table: str, nullable: bool = False) -> sa.Column[Any]:
    """A column with the id of a row of another table."""
    return sa.Column(name, ID, nullable=nullable, info={"refers": table})


def create(
    table: str,
    *columns: sa.Column[Any],
    unique: tuple[tuple[str, ...], ...] = (),
    key: tuple[str, ...] = (),
    positive: str = "",
) -> None:
    """Creates a table. unique: columns that are unique together. key: the primary key; left out: a column `id`.
    positive: a column whose values are above 0; left out: none."""
    constraints: list[Any] = [sa.PrimaryKeyConstraint(*(key or ("id",)), name=op.f(f"pk_{table}"))]
    constraints += [sa.UniqueConstraint(*names, name=op.f("_".join(("uq", table, *names)))) for names in unique]
    if positive:
        constraints.append(sa.CheckConstraint(f"{positive} > 0", name=op.f(f"ck_{table}_{positive}")))
    for column in columns:
        if other := column.info.get("refers"):
            name = op.f(f"fk_{table}_{column.name}")
            constraints.append(sa.ForeignKeyConstraint([column.name], [f"{other}.id"], name=name))
    own_id = [] if key else [sa.Column("id", ID, autoincrement=True, nullable=False)]
    op.create_table(table, *own_id, *columns, *constraints)


def index(
    name: str,
    table: str,
    *columns: Any,
    where: str | sa.ColumnElement[bool] | None = None,
    unique: bool = False,
    using: str | None = None,
) -> None:
    """where: the rows that the index holds; left out: all of them. using: the kind of index in PostgreSQL."""
    rows = sa.text(where) if isinstance(where, str) else where
    op.create_index(
        op.f(name),
        table,
        list(columns),
        unique=unique,
        sqlite_where=rows,
        postgresql_where=rows,
        postgresql_using=using or False,
    )


def tables() -> None:
    create(
        "artifact_removal",
        needed("sha256", KEY),
        needed("size", ID),
        needed("who", sa.String(200)),
        needed("why", TEXT),
        needed("at", WHEN),
    )
    index("ix_artifact_removal_sha256", "artifact_removal", "sha256")

    create(
        "campaign",
        needed("name", sa.String(64)),
        needed("spec", JSON),
        needed("spec_hash", KEY),
        needed("identity_hash", KEY),
        needed("base", TEXT),
        needed("source", TEXT),
        needed("state", sa.String(20)),
        optional("stop_reason", TEXT),
        optional("driver", sa.String(200)),
        needed("driver_fence", sa.Integer()),
        optional("driver_until", WHEN),
        needed("wall_seconds", sa.Float()),
        needed("driver_core_seconds", sa.Float()),
        needed("created_at", WHEN),
        needed("updated_at", WHEN),
        needed("hosted", sa.Boolean(), default=sa.false()),
        optional("wakes_at", WHEN),
        unique=(("name",),),
    )
    index("ix_campaign_hosted", "campaign", "hosted", "state")

    create(
        "candidate",
        needed("key", KEY),
        needed("text", TEXT),
        needed("identity", TEXT),
        needed("formula", TEXT),
        optional("inchikey", sa.String(27)),
        needed("charge", sa.Integer()),
        needed("multiplicity", sa.Integer()),
        needed("n_atoms", sa.Integer()),
        needed("payload", JSON),
        needed("kind", sa.String(20)),
        needed("standardiser", sa.String(20)),
        needed("library", sa.String(60)),
        needed("created_at", WHEN),
        optional("scaffold_hash", KEY),
        unique=(("key",),),
    )
    index("ix_candidate_formula", "candidate", "formula", where="kind != 'molecule'")
    index("ix_candidate_inchikey", "candidate", "inchikey")
    index("ix_candidate_scaffold_hash", "candidate", "scaffold_hash", "id")
    index("ix_candidate_text", "candidate", "text", where="kind != 'molecule'", using="hash")

    create(
        "evaluation",
        needed("hash", KEY),
        needed("spec", JSON),
        needed("answer", JSON),
        needed("who", sa.String(200)),
        needed("at", WHEN),
        unique=(("hash",),),
    )

    create("level", needed("hash", KEY), needed("label", TEXT), needed("spec", JSON), unique=(("hash",),))

    create(
        "person",
        needed("login", sa.String(64)),
        needed("name", sa.String(200)),
        optional("email", sa.String(320)),
        optional("password_hash", TEXT),
        optional("pin_hash", TEXT),
        needed("is_admin", sa.Boolean()),
        optional("disabled_at", WHEN),
        needed("created_at", WHEN),
        unique=(("login",),),
    )

    create(
        "policy",
        needed("hash", KEY),
        needed("name", sa.String(200)),
        optional("base_sha256", KEY),
        optional("adapter_sha256", KEY),
        reference("parent_id", "policy", nullable=True),
        optional("recipe", JSON),
        needed("source", TEXT),
        needed("at", WHEN),
        unique=(("hash",),),
    )

    create(
        "property",
        needed("name", sa.String(100)),
        needed("unit", sa.String(40)),
        needed("kind", sa.String(20)),
        needed("description", TEXT),
        unique=(("name",),),
    )

    create("reward_spec", needed("hash", KEY), needed("spec", JSON), unique=(("hash",),))

    create("tool_set", needed("hash", KEY), needed("content", JSON), unique=(("hash",),))

    create("watermark", needed("id", sa.Integer()), needed("value", ID), key=("id",))

    create(
        "worker",
        needed("name", sa.String(200)),
        needed("host", sa.String(200)),
        needed("executor", sa.String(20)),
        needed("pid", sa.Integer()),
        needed("slots", sa.Integer()),
        needed("queues", JSON),
        optional("memory_mb", sa.Integer()),
        optional("cores", sa.Integer()),
        optional("resources", JSON),
        needed("started_at", WHEN),
        needed("seen_at", WHEN),
        needed("until", WHEN),
        optional("stopped_at", WHEN),
        needed("draining", sa.Boolean()),
        unique=(("name",),),
    )

    create(
        "wrong_password",
        needed("subject", KEY),
        needed("number", sa.Integer()),
        needed("last_at", WHEN),
        unique=(("subject",),),
    )
    index("ix_wrong_password_last_at", "wrong_password", "last_at")
    index("ix_worker_until", "worker", "until")

    create(
        "access",
        reference("person_id", "person"),
        needed("kind", sa.String(20)),
        needed("secret_hash", KEY),
        optional("csrf", KEY),
        needed("label", sa.String(200)),
        needed("scopes", JSON),
        reference("campaign_id", "campaign", nullable=True),
        optional("address", sa.String(64)),
        needed("created_at", WHEN),
        needed("expires_at", WHEN),
        optional("seen_at", WHEN),
        optional("revoked_at", WHEN),
        optional("locked_at", WHEN),
        needed("wrong_pins", sa.Integer()),
        unique=(("secret_hash",),),
    )
    index("ix_access_expires", "access", "expires_at")
    index("ix_access_person_id", "access", "person_id")

    create(
        "campaign_amendment",
        reference("campaign_id", "campaign"),
        needed("path", sa.String(200)),
        needed("who", sa.String(200)),
        optional("old", JSON),
        optional("new", JSON),
        needed("why", TEXT),
        needed("at", WHEN),
    )
    index("ix_campaign_amendment_campaign_id", "campaign_amendment", "campaign_id")

    create(
        "campaign_policy",
        reference("campaign_id", "campaign"),
        needed("proposer", sa.String(64)),
        reference("policy_id", "policy"),
        needed("named", sa.String(200)),
        needed("at", WHEN),
        unique=(("campaign_id", "proposer"),),
    )

    create(
        "law_entry",
        needed("name", sa.String(64)),
        needed("hash", KEY),
        needed("kind", sa.String(20)),
        optional("parent_hash", KEY),
        needed("summary", JSON),
        needed("content", TEXT),
        needed("who", sa.String(200)),
        needed("at", WHEN),
        unique=(("name", "hash"),),
    )

    create(
        "campaign_law",
        reference("campaign_id", "campaign"),
        needed("named", sa.String(140)),
        reference("law_entry_id", "law_entry"),
        unique=(("campaign_id", "named"),),
    )
    index("ix_campaign_law_law_entry_id", "campaign_law", "law_entry_id")

    create(
        "candidate_alias",
        reference("candidate_id", "candidate"),
        needed("notation", sa.String(20)),
        needed("text", TEXT),
        needed("text_hash", KEY),
        unique=(("text_hash", "notation"),),
    )
    index("ix_candidate_alias_candidate_id", "candidate_alias", "candidate_id")

    create(
        "candidate_name",
        reference("candidate_id", "candidate"),
        reference("campaign_id", "campaign", nullable=True),
        needed("row_hash", sa.String(16)),
        needed("field", sa.String(60)),
        needed("text", sa.String(200)),
        unique=(("candidate_id", "campaign_id", "row_hash", "field"),),
    )
    index("ix_candidate_name_text", "candidate_name", sa.text("lower(text)"))

    create(
        "evaluation_arm",
        reference("evaluation_id", "evaluation"),
        needed("name", sa.String(64)),
        reference("policy_id", "policy"),
        unique=(("evaluation_id", "name"),),
    )
    index("ix_evaluation_arm_policy", "evaluation_arm", "policy_id")

    create(
        "event",
        reference("campaign_id", "campaign", nullable=True),
        needed("kind", sa.String(40)),
        needed("payload", JSON),
        needed("at", WHEN),
    )
    index("ix_event_campaign_id", "event", "campaign_id")

    create(
        "law",
        reference("campaign_id", "campaign"),
        needed("version", sa.String(64)),
        needed("watermark", ID),
        needed("state", JSON),
        needed("at", WHEN),
        needed("purpose", sa.String(20), default="scheduler"),
    )
    index("ix_law_campaign", "law", "campaign_id", "id")

    create(
        "membership",
        reference("person_id", "person"),
        reference("campaign_id", "campaign", nullable=True),
        needed("role", sa.String(20)),
        unique=(("person_id", "campaign_id"),),
    )
    index("ix_membership_everywhere", "membership", "person_id", where="campaign_id IS NULL", unique=True)

    create(
        "policy_role",
        needed("role", sa.String(64)),
        reference("policy_id", "policy"),
        reference("undoes_id", "policy_role", nullable=True),
        reference("evaluation_id", "evaluation", nullable=True),
        needed("who", sa.String(200)),
        needed("why", TEXT),
        needed("at", WHEN),
    )
    index("ix_policy_role_role", "policy_role", "role", "id")

    create(
        "reward_version",
        reference("campaign_id", "campaign"),
        needed("number", sa.Integer()),
        reference("reward_spec_id", "reward_spec"),
        needed("watermark", ID),
        needed("laws", JSON),
        needed("prices", JSON),
        reference("previous_id", "reward_version", nullable=True),
        needed("code_version", sa.String(100)),
        needed("at", WHEN),
        needed("guards", JSON),
        optional("scope", KEY),
        unique=(("campaign_id", "number"),),
    )
    index("ix_reward_version_scope", "reward_version", "campaign_id", "scope")

    create(
        "rollout_group",
        reference("campaign_id", "campaign"),
        needed("number", sa.Integer()),
        needed("task", JSON),
        needed("snapshot", JSON),
        needed("snapshot_watermark", ID),
        needed("snapshot_seq", sa.Integer()),
        needed("opening", JSON),
        needed("opening_hash", KEY),
        reference("tool_set_id", "tool_set", nullable=True),
        reference("policy_id", "policy", nullable=True),
        needed("seed", ID),
        needed("size", sa.Integer()),
        needed("purpose", sa.String(20)),
        needed("code_version", sa.String(100)),
        needed("state", sa.String(20)),
        needed("at", WHEN),
        unique=(("campaign_id", "number"),),
    )

    create(
        "rung",
        reference("campaign_id", "campaign"),
        needed("position", sa.Integer()),
        needed("name", sa.String(64)),
        needed("verifier", sa.String(100)),
        needed("verifier_version", sa.String(40)),
        needed("tier", sa.String(20)),
        needed("settings", JSON),
        needed("gate", JSON),
        needed("settings_hash", KEY),
        optional("request", JSON),
        needed("control", sa.Boolean(), default=sa.false()),
        needed("decides", JSON, default="{}"),
        unique=(("campaign_id", "name"), ("campaign_id", "position")),
    )

    create(
        "audit_entry",
        needed("at", WHEN),
        reference("person_id", "person", nullable=True),
        reference("access_id", "access", nullable=True),
        needed("who", sa.String(200)),
        needed("what", sa.String(40)),
        needed("object", sa.String(40)),
        optional("object_id", ID),
        reference("campaign_id", "campaign", nullable=True),
        needed("payload", JSON),
        needed("previous_hash", KEY),
        needed("hash", KEY),
        unique=(("hash",),),
        positive="id",
    )
    index("ix_audit_entry_campaign", "audit_entry", "campaign_id", "id")
    index("ix_audit_entry_object", "audit_entry", "object", "object_id", "id")

    create(
        "calibration",
        reference("campaign_id", "campaign"),
        reference("rung_id", "rung"),
        needed("property", sa.String(100)),
        needed("kind", sa.String(20)),
        needed("measured_level", TEXT),
        needed("n", sa.Integer()),
        needed("slope", sa.Double()),
        needed("intercept", sa.Double()),
        needed("mean_absolute_error", sa.Double()),
        needed("root_mean_square_error", sa.Double()),
        needed("error_without", sa.Double()),
        needed("is_used", sa.Boolean(), default=sa.true()),
        needed("center", sa.Double()),
        needed("squared_deviations", sa.Double()),
        needed("charges", sa.String(10)),
        needed("watermark", ID),
        needed("at", WHEN),
    )
    index("ix_calibration_campaign", "calibration", "campaign_id", "id")

    create(
        "directive",
        reference("campaign_id", "campaign"),
        reference("candidate_id", "candidate", nullable=True),
        reference("rung_id", "rung", nullable=True),
        needed("verb", sa.String(20)),
        needed("payload", JSON),
        needed("who", sa.String(200)),
        needed("why", TEXT),
        needed("at", WHEN),
    )
    index("ix_directive_campaign", "directive", "campaign_id", "id")
    index("ix_directive_candidate", "directive", "campaign_id", "candidate_id", "id")

    create(
        "job",
        reference("campaign_id", "campaign"),
        reference("rung_id", "rung"),
        reference("candidate_id", "candidate"),
        needed("evidence_key", KEY),
        needed("state", sa.String(20)),
        optional("outcome", sa.String(20)),
        needed("priority", sa.Float()),
        needed("replicate", sa.Integer()),
        needed("attempts", sa.Integer()),
        needed("kills", sa.Integer()),
        needed("fence", sa.Integer()),
        needed("losses", sa.Integer(), default="0"),
        optional("lease_owner", sa.String(200)),
        optional("lease_until", WHEN),
        needed("cancel_requested", sa.Boolean()),
        needed("created_at", WHEN),
        needed("updated_at", WHEN),
        optional("queue", sa.String(60)),
        optional("external", sa.String(100)),
        optional("seconds", sa.Float()),
        optional("memory_mb", sa.Integer()),
        optional("needs", sa.String(400)),
        unique=(("campaign_id", "rung_id", "candidate_id", "replicate"),),
    )
    index("ix_job_campaign_state", "job", "campaign_id", "state", "priority")
    index("ix_job_external", "job", "external", where="external IS NOT NULL")
    index("ix_job_lease", "job", "state", "lease_until", where="lease_until IS NOT NULL")
    index("ix_job_needs", "job", "state", "queue", "needs", where="needs IS NOT NULL")
    index(
        "ix_job_queue",
        "job",
        "queue",
        "state",
        "campaign_id",
        sa.text("priority DESC"),
        "id",
        where="queue IS NOT NULL",
    )
    index("ix_job_rung_state", "job", "rung_id", "state")

    create(
        "sample",
        needed("code", sa.String(16)),
        reference("candidate_id", "candidate"),
        reference("job_id", "job"),
        reference("parent_id", "sample", nullable=True),
        needed("form", sa.String(200)),
        needed("source", sa.String(20)),
        optional("lot", sa.String(100)),
        optional("amount", sa.Double()),
        optional("amount_unit", sa.String(20)),
        optional("purity", sa.Double()),
        optional("purity_how", sa.String(200)),
        optional("made_by", sa.String(200)),
        optional("place", sa.String(200)),
        optional("made_on", sa.Date()),
        needed("state", sa.String(20)),
        needed("who", sa.String(200)),
        needed("created_at", WHEN),
        unique=(("code",),),
    )
    index("ix_sample_candidate_id", "sample", "candidate_id")

    create(
        "trajectory",
        reference("campaign_id", "campaign"),
        needed("number", sa.Integer()),
        needed("proposer", sa.String(100)),
        needed("settings", JSON),
        needed("seed", ID),
        optional("policy_version", sa.String(200)),
        needed("state", sa.String(20)),
        needed("started_at", WHEN),
        optional("ended_at", WHEN),
        optional("ended_why", TEXT),
        needed("purpose", sa.String(20), default="campaign"),
        reference("group_id", "rollout_group", nullable=True),
        optional("sibling", sa.Integer()),
        optional("code_version", sa.String(100)),
        unique=(("campaign_id", "number"),),
    )
    index("ix_trajectory_group", "trajectory", "group_id", "sibling", where="group_id IS NOT NULL")

    create(
        "reservation",
        reference("campaign_id", "campaign"),
        reference("job_id", "job"),
        needed("resource", sa.String(40)),
        needed("amount", sa.Float()),
        needed("at", WHEN),
        optional("released_at", WHEN),
    )
    index("ix_reservation_job_id", "reservation", "job_id")
    index("ix_reservation_live", "reservation", "campaign_id", where="released_at IS NULL")

    create(
        "turn",
        reference("trajectory_id", "trajectory"),
        needed("number", sa.Integer()),
        needed("calls", JSON),
        needed("observations", JSON),
        needed("cost", JSON),
        optional("cursor", JSON),
        optional("message", JSON),
        optional("sampling", JSON),
        optional("prompt_ids", JSON),
        optional("output_ids", JSON),
        optional("logprobs", JSON),
        optional("forced", JSON),
        optional("template_hash", KEY),
        optional("kept", sa.Integer()),
        optional("policy_version", sa.String(200)),
        needed("watermark", ID),
        needed("at", WHEN),
        reference("tool_set_id", "tool_set", nullable=True),
        reference("policy_id", "policy", nullable=True),
        optional("asked_watermark", ID),
        optional("asked_at", WHEN),
        optional("behaviour", JSON),
        optional("untrainable", TEXT),
        unique=(("trajectory_id", "number"),),
    )

    create(
        "attempt",
        reference("campaign_id", "campaign", nullable=True),
        reference("rung_id", "rung", nullable=True),
        reference("job_id", "job", nullable=True),
        needed("fence", sa.Integer()),
        needed("n_candidates", sa.Integer()),
        needed("owner", sa.String(200)),
        needed("state", sa.String(20)),
        optional("outcome", sa.String(20)),
        optional("reason", sa.String(60)),
        optional("detail", TEXT),
        needed("cost", JSON),
        optional("wall_seconds", sa.Float()),
        needed("started_at", WHEN),
        needed("heartbeat_at", WHEN),
        optional("ended_at", WHEN),
        optional("holds", JSON),
        optional("watermark", ID),
        reference("turn_id", "turn", nullable=True),
        optional("cost_at_loss", JSON),
        optional("late_watermark", ID),
        optional("together", sa.Integer()),
        optional("progress", JSON),
        optional("progress_at", WHEN),
    )
    index("ix_attempt_campaign_state", "attempt", "campaign_id", "state")
    index("ix_attempt_job_id", "attempt", "job_id")
    index("ix_attempt_rung_outcome", "attempt", "rung_id", "outcome")
    index("ix_attempt_progress", "attempt", "progress_at", where="progress_at IS NOT NULL")
    index("ix_attempt_turn", "attempt", "turn_id", where="turn_id IS NOT NULL")

    create(
        "proposal",
        reference("campaign_id", "campaign"),
        reference("turn_id", "turn", nullable=True),
        reference("candidate_id", "candidate", nullable=True),
        needed("status", sa.String(20)),
        optional("reason", sa.String(60)),
        optional("operation", sa.String(100)),
        needed("text", TEXT),
        optional("detail", TEXT),
        optional("rationale", TEXT),
        optional("predicted", JSON),
        optional("novelty", JSON),
        optional("filter_decision", JSON),
        needed("at", WHEN),
    )
    index("ix_proposal_campaign_status", "proposal", "campaign_id", "status")
    index("ix_proposal_candidate_id", "proposal", "candidate_id")
    index("ix_proposal_turn_id", "proposal", "turn_id")

    create(
        "reward",
        reference("reward_version_id", "reward_version"),
        reference("trajectory_id", "trajectory"),
        reference("turn_id", "turn", nullable=True),
        optional("value", sa.Double()),
        optional("return", sa.Double()),
        optional("advantage", sa.Double()),
        needed("terms", JSON),
        needed("candidates", JSON),
        unique=(("reward_version_id", "trajectory_id", "turn_id"),),
    )
    index("ix_reward_trajectory", "reward", "trajectory_id")

    create(
        "training_use",
        reference("policy_id", "policy"),
        reference("reward_version_id", "reward_version"),
        reference("turn_id", "turn"),
        needed("at", WHEN),
        unique=(("policy_id", "reward_version_id", "turn_id"),),
    )
    index("ix_training_use_turn", "training_use", "turn_id")

    create(
        "campaign_candidate",
        reference("campaign_id", "campaign"),
        reference("candidate_id", "candidate"),
        needed("seq", sa.Integer()),
        needed("standing", sa.String(20)),
        needed("position", sa.Integer()),
        needed("depth", sa.Integer()),
        optional("verdict", sa.String(20)),
        optional("hit_tier", sa.String(20)),
        optional("reason", sa.String(60)),
        optional("detail", TEXT),
        optional("utility", sa.Float()),
        optional("p_hit", sa.Float()),
        optional("expected_utility", sa.Float()),
        optional("margin", sa.Float()),
        optional("chance", sa.Integer()),
        optional("basis", sa.String(10)),
        needed("is_hit", sa.Boolean()),
        needed("in_seeds", sa.Boolean()),
        reference("proposal_id", "proposal", nullable=True),
        needed("updated_at", WHEN),
        unique=(("campaign_id", "seq"),),
        key=("campaign_id", "candidate_id"),
    )
    index(
        "ix_campaign_candidate_best",
        "campaign_candidate",
        "campaign_id",
        sa.text("coalesce(chance, -1) DESC"),
        sa.text("coalesce(expected_utility, -1) DESC"),
        sa.text("coalesce(margin, -1000000) DESC"),
        "seq",
    )
    index("ix_campaign_candidate_hit", "campaign_candidate", "campaign_id", "candidate_id", where=IS_HIT)
    index("ix_campaign_candidate_open", "campaign_candidate", "campaign_id", "standing", "position", "seq")
    index(
        "ix_campaign_candidate_places",
        "campaign_candidate",
        "campaign_id",
        "position",
        "standing",
        "verdict",
        "hit_tier",
    )
    index(
        "ix_campaign_candidate_waiting",
        "campaign_candidate",
        "campaign_id",
        "standing",
        "position",
        sa.text("coalesce(chance, -1) DESC"),
        sa.text("coalesce(expected_utility, -1) DESC"),
        sa.text("coalesce(margin, -1000000) DESC"),
        "seq",
    )

    create(
        "candidate_parent",
        reference("candidate_id", "candidate"),
        reference("parent_id", "candidate"),
        reference("proposal_id", "proposal"),
        optional("operation", sa.String(100)),
    )
    index("ix_candidate_parent_candidate_id", "candidate_parent", "candidate_id")
    index("ix_candidate_parent_parent_id", "candidate_parent", "parent_id")

    create(
        "cost_observation",
        needed("verifier", sa.String(100)),
        needed("verifier_version", sa.String(40)),
        needed("resource", sa.String(40)),
        needed("settings_hash", KEY),
        reference("candidate_id", "candidate"),
        reference("attempt_id", "attempt"),
        needed("declared", sa.Float()),
        needed("amount", sa.Float()),
        needed("at", WHEN),
    )
    index("ix_cost_observation_rung", "cost_observation", "verifier", "verifier_version", "settings_hash", "id")

    create(
        "evidence",
        needed("key", KEY),
        reference("candidate_id", "candidate"),
        reference("proposal_id", "proposal", nullable=True),
        reference("attempt_id", "attempt", nullable=True),
        reference("supersedes_id", "evidence", nullable=True),
        needed("verifier", sa.String(100)),
        needed("verifier_version", sa.String(40)),
        needed("settings_hash", KEY),
        needed("inputs_hash", sa.String(64)),
        needed("replicate", sa.Integer()),
        needed("revision", sa.Integer()),
        needed("outcome", sa.String(20)),
        optional("reason", sa.String(60)),
        optional("detail", TEXT),
        optional("why", TEXT),
        needed("reusable", sa.Boolean()),
        needed("diagnostics", JSON),
        needed("versions", JSON),
        optional("unobtained", JSON),
        needed("source", sa.String(200)),
        needed("who", sa.String(200)),
        needed("watermark", ID),
        needed("at", WHEN),
        optional("seal", sa.String(80)),
        unique=(("key",), ("supersedes_id",), ("watermark",)),
        positive="watermark",
    )
    index("ix_evidence_attempt_id", "evidence", "attempt_id")
    index("ix_evidence_import", "evidence", "candidate_id", where="verifier = 'import'")
    index(
        "ix_evidence_lookup", "evidence", "candidate_id", "verifier", "verifier_version", "settings_hash", "replicate"
    )

    create(
        "spend",
        reference("campaign_id", "campaign"),
        reference("rung_id", "rung", nullable=True),
        reference("attempt_id", "attempt", nullable=True),
        needed("resource", sa.String(40)),
        needed("amount", sa.Float()),
        needed("at", WHEN),
    )
    index("ix_spend_campaign_rung", "spend", "campaign_id", "rung_id", "resource", "amount")

    create(
        "artifact",
        reference("evidence_id", "evidence"),
        needed("name", sa.String(200)),
        needed("sha256", KEY),
        needed("size", ID),
        needed("media_type", sa.String(100)),
    )
    index("ix_artifact_evidence_id", "artifact", "evidence_id")
    index("ix_artifact_sha256", "artifact", "sha256")

    create(
        "decision",
        reference("campaign_id", "campaign"),
        reference("candidate_id", "candidate"),
        reference("rung_id", "rung", nullable=True),
        reference("evidence_id", "evidence", nullable=True),
        needed("action", sa.String(20)),
        needed("chooser", sa.String(200)),
        optional("why", TEXT),
        optional("law_version", sa.String(64)),
        needed("watermark", ID),
        optional("price", JSON),
        optional("index", sa.Float()),
        needed("propensity", sa.Float()),
        needed("at", WHEN),
    )
    index("ix_decision_campaign_action", "decision", "campaign_id", "action")
    index("ix_decision_campaign_candidate", "decision", "campaign_id", "candidate_id")
    index("ix_decision_rung_action", "decision", "rung_id", "action")

    create(
        "likeness",
        reference("campaign_id", "campaign"),
        reference("candidate_id", "candidate"),
        reference("of_id", "candidate"),
        reference("rung_id", "rung"),
        reference("evidence_id", "evidence"),
        reference("of_evidence_id", "evidence"),
        optional("distance", sa.Double()),
        optional("excess", sa.Double()),
        needed("watermark", ID),
        needed("at", WHEN),
        unique=(("campaign_id", "candidate_id"),),
    )

    create(
        "quantity",
        reference("evidence_id", "evidence"),
        reference("property_id", "property"),
        reference("level_id", "level"),
        needed("value", sa.Double()),
        optional("uncertainty", sa.Double()),
        needed("unit", sa.String(40)),
        needed("censoring", sa.String(10)),
        needed("n", sa.Integer()),
        optional("as_typed", TEXT),
        unique=(("evidence_id", "property_id", "level_id"),),
    )
    index("ix_quantity_property_value", "quantity", "property_id", "level_id", "value")

    create(
        "submission",
        needed("key", sa.String(64)),
        reference("job_id", "job"),
        needed("fence", sa.Integer()),
        needed("revision", sa.Integer()),
        needed("kind", sa.String(20)),
        reference("of_id", "submission", nullable=True),
        reference("person_id", "person", nullable=True),
        reference("access_id", "access", nullable=True),
        reference("sample_id", "sample", nullable=True),
        needed("who", sa.String(200)),
        needed("said", JSON),
        needed("files", JSON),
        optional("why", TEXT),
        reference("evidence_id", "evidence", nullable=True),
        needed("at", WHEN),
        unique=(("key",),),
    )
    index("ix_submission_job", "submission", "job_id", "id")

    create(
        "lab_task",
        reference("job_id", "job"),
        needed("version", sa.Integer()),
        optional("plate", sa.String(60)),
        optional("well", sa.String(10)),
        optional("due_at", WHEN),
        optional("approved_at", WHEN),
        reference("assigned_to", "person", nullable=True),
        optional("approved_by", sa.String(200)),
        reference("sample_id", "sample", nullable=True),
        reference("in_review_id", "submission", nullable=True),
        reference("sent_back_id", "submission", nullable=True),
        optional("open_quantities", TEXT),
        optional("note", TEXT),
        key=("job_id",),
    )
    index("ix_lab_task_due", "lab_task", "due_at")
    index("ix_lab_task_in_review", "lab_task", "in_review_id", where="in_review_id IS NOT NULL")
    index("ix_lab_task_sent_back", "lab_task", "sent_back_id", where="sent_back_id IS NOT NULL")
    index("ix_lab_task_sample", "lab_task", "sample_id")
