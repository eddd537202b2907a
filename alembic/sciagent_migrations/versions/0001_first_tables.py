"""first tables

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")

APPEND_ONLY = ("evidence", "quantity", "artifact", "decision", "spend", "cost_observation", "campaign_amendment")
CURRENT_EVIDENCE = """
CREATE VIEW current_evidence AS SELECT e.* FROM evidence e
WHERE NOT EXISTS (SELECT 1 FROM evidence later WHERE later.supersedes_id = e.id)
"""


def _refuse_changes(table: str) -> None:
    """Rows of an append-only table can neither be changed nor removed, whoever asks."""
    message = f"{table} is append-only: write a new revision"
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{message}'); END"
            )
        return
    op.execute(
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table} "
        f"FOR EACH ROW EXECUTE FUNCTION sciagent_append_only()"
    )
    op.execute(
        f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION sciagent_append_only()"
    )


def _guards() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION sciagent_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "RAISE EXCEPTION '% is append-only: write a new revision', TG_TABLE_NAME; END $$"
        )
    for table in APPEND_ONLY:
        _refuse_changes(table)
    op.execute(CURRENT_EVIDENCE)
    op.execute("INSERT INTO watermark (id, value) VALUES (1, 0)")


def upgrade() -> None:
    _tables()
    _guards()


def _tables() -> None:
    op.create_table(
        "campaign",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("spec", JSON, nullable=False),
        sa.Column("spec_hash", sa.String(length=64), nullable=False),
        sa.Column("identity_hash", sa.String(length=64), nullable=False),
        sa.Column("base", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("stop_reason", sa.Text(), nullable=True),
        sa.Column("driver", sa.String(length=200), nullable=True),
        sa.Column("driver_fence", sa.Integer(), nullable=False),
        sa.Column("driver_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("wall_seconds", sa.Float(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_campaign")),
        sa.UniqueConstraint("name", name=op.f("uq_campaign_name")),
    )
    op.create_table(
        "candidate",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("inchikey", sa.String(length=27), nullable=True),
        sa.Column("formula", sa.Text(), nullable=False),
        sa.Column("charge", sa.Integer(), nullable=False),
        sa.Column("multiplicity", sa.Integer(), nullable=False),
        sa.Column("n_atoms", sa.Integer(), nullable=False),
        sa.Column("payload", JSON, nullable=False),
        sa.Column("standardiser", sa.String(length=20), nullable=False),
        sa.Column("library", sa.String(length=60), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_candidate")),
        sa.UniqueConstraint("key", name=op.f("uq_candidate_key")),
    )
    with op.batch_alter_table("candidate", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_candidate_inchikey"), ["inchikey"], unique=False)

    op.create_table(
        "level",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("spec", JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_level")),
        sa.UniqueConstraint("hash", name=op.f("uq_level_hash")),
    )
    op.create_table(
        "property",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("unit", sa.String(length=40), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_property")),
        sa.UniqueConstraint("name", name=op.f("uq_property_name")),
    )
    op.create_table(
        "watermark",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("value", ID, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_watermark")),
    )
    op.create_table(
        "campaign_amendment",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("campaign_id", ID, nullable=False),
        sa.Column("path", sa.String(length=200), nullable=False),
        sa.Column("old", JSON, nullable=True),
        sa.Column("new", JSON, nullable=True),
        sa.Column("who", sa.String(length=200), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name=op.f("fk_campaign_amendment_campaign_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_campaign_amendment")),
    )
    with op.batch_alter_table("campaign_amendment", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_campaign_amendment_campaign_id"), ["campaign_id"], unique=False)

    op.create_table(
        "candidate_alias",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("candidate_id", ID, nullable=False),
        sa.Column("notation", sa.String(length=20), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("text_hash", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidate.id"], name=op.f("fk_candidate_alias_candidate_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_candidate_alias")),
        sa.UniqueConstraint("text_hash", "notation", name=op.f("uq_candidate_alias_text_hash_notation")),
    )
    with op.batch_alter_table("candidate_alias", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_candidate_alias_candidate_id"), ["candidate_id"], unique=False)

    op.create_table(
        "event",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("campaign_id", ID, nullable=True),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("payload", JSON, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name=op.f("fk_event_campaign_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_event")),
    )
    with op.batch_alter_table("event", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_event_campaign_id"), ["campaign_id"], unique=False)

    op.create_table(
        "rung",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("campaign_id", ID, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("verifier", sa.String(length=100), nullable=False),
        sa.Column("verifier_version", sa.String(length=40), nullable=False),
        sa.Column("tier", sa.String(length=20), nullable=False),
        sa.Column("settings", JSON, nullable=False),
        sa.Column("settings_hash", sa.String(length=64), nullable=False),
        sa.Column("gate", JSON, nullable=False),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name=op.f("fk_rung_campaign_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rung")),
        sa.UniqueConstraint("campaign_id", "name", name=op.f("uq_rung_campaign_id_name")),
        sa.UniqueConstraint("campaign_id", "position", name=op.f("uq_rung_campaign_id_position")),
    )
    op.create_table(
        "trajectory",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("campaign_id", ID, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("proposer", sa.String(length=100), nullable=False),
        sa.Column("settings", JSON, nullable=False),
        sa.Column("seed", ID, nullable=False),
        sa.Column("policy_version", sa.String(length=200), nullable=True),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name=op.f("fk_trajectory_campaign_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trajectory")),
        sa.UniqueConstraint("campaign_id", "number", name=op.f("uq_trajectory_campaign_id_number")),
    )
    op.create_table(
        "job",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("campaign_id", ID, nullable=False),
        sa.Column("rung_id", ID, nullable=False),
        sa.Column("candidate_id", ID, nullable=False),
        sa.Column("replicate", sa.Integer(), nullable=False),
        sa.Column("evidence_key", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("priority", sa.Float(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("kills", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("lease_owner", sa.String(length=200), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("outcome", sa.String(length=20), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name=op.f("fk_job_campaign_id")),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidate.id"], name=op.f("fk_job_candidate_id")),
        sa.ForeignKeyConstraint(["rung_id"], ["rung.id"], name=op.f("fk_job_rung_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job")),
        sa.UniqueConstraint(
            "campaign_id",
            "rung_id",
            "candidate_id",
            "replicate",
            name=op.f("uq_job_campaign_id_rung_id_candidate_id_replicate"),
        ),
    )
    with op.batch_alter_table("job", schema=None) as batch_op:
        batch_op.create_index("ix_job_campaign_state", ["campaign_id", "state", "priority"], unique=False)
        batch_op.create_index(batch_op.f("ix_job_evidence_key"), ["evidence_key"], unique=False)
        batch_op.create_index("ix_job_rung_state", ["rung_id", "state"], unique=False)

    op.create_table(
        "turn",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("trajectory_id", ID, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("cursor", JSON, nullable=True),
        sa.Column("calls", JSON, nullable=False),
        sa.Column("observations", JSON, nullable=False),
        sa.Column("prompt_ids", JSON, nullable=True),
        sa.Column("output_ids", JSON, nullable=True),
        sa.Column("logprobs", JSON, nullable=True),
        sa.Column("sampling", JSON, nullable=True),
        sa.Column("template_hash", sa.String(length=64), nullable=True),
        sa.Column("policy_version", sa.String(length=200), nullable=True),
        sa.Column("watermark", ID, nullable=False),
        sa.Column("cost", JSON, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["trajectory_id"], ["trajectory.id"], name=op.f("fk_turn_trajectory_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_turn")),
        sa.UniqueConstraint("trajectory_id", "number", name=op.f("uq_turn_trajectory_id_number")),
    )
    op.create_table(
        "attempt",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("campaign_id", ID, nullable=True),
        sa.Column("rung_id", ID, nullable=True),
        sa.Column("job_id", ID, nullable=True),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("outcome", sa.String(length=20), nullable=True),
        sa.Column("reason", sa.String(length=60), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("n_candidates", sa.Integer(), nullable=False),
        sa.Column("cost", JSON, nullable=False),
        sa.Column("wall_seconds", sa.Float(), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name=op.f("fk_attempt_campaign_id")),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_attempt_job_id")),
        sa.ForeignKeyConstraint(["rung_id"], ["rung.id"], name=op.f("fk_attempt_rung_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempt")),
    )
    with op.batch_alter_table("attempt", schema=None) as batch_op:
        batch_op.create_index("ix_attempt_campaign_state", ["campaign_id", "state"], unique=False)
        batch_op.create_index(batch_op.f("ix_attempt_job_id"), ["job_id"], unique=False)
        batch_op.create_index("ix_attempt_rung_outcome", ["rung_id", "outcome"], unique=False)

    op.create_table(
        "proposal",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("campaign_id", ID, nullable=False),
        sa.Column("turn_id", ID, nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("candidate_id", ID, nullable=True),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("reason", sa.String(length=60), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("operation", sa.String(length=100), nullable=True),
        sa.Column("rationale", sa.Text(), nullable=True),
        sa.Column("predicted", JSON, nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name=op.f("fk_proposal_campaign_id")),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidate.id"], name=op.f("fk_proposal_candidate_id")),
        sa.ForeignKeyConstraint(["turn_id"], ["turn.id"], name=op.f("fk_proposal_turn_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_proposal")),
    )
    with op.batch_alter_table("proposal", schema=None) as batch_op:
        batch_op.create_index("ix_proposal_campaign_status", ["campaign_id", "status"], unique=False)
        batch_op.create_index(batch_op.f("ix_proposal_candidate_id"), ["candidate_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_proposal_turn_id"), ["turn_id"], unique=False)

    op.create_table(
        "reservation",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("campaign_id", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("resource", sa.String(length=40), nullable=False),
        sa.Column("amount", sa.Float(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("released_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name=op.f("fk_reservation_campaign_id")),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_reservation_job_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reservation")),
    )
    with op.batch_alter_table("reservation", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_reservation_job_id"), ["job_id"], unique=False)
        batch_op.create_index("ix_reservation_live", ["campaign_id", "released_at"], unique=False)

    op.create_table(
        "campaign_candidate",
        sa.Column("campaign_id", ID, nullable=False),
        sa.Column("candidate_id", ID, nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("standing", sa.String(length=20), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("verdict", sa.String(length=20), nullable=True),
        sa.Column("reason", sa.String(length=60), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("score", sa.Float(), nullable=True),
        sa.Column("utility", sa.Float(), nullable=True),
        sa.Column("hit_tier", sa.String(length=20), nullable=True),
        sa.Column("is_hit", sa.Boolean(), nullable=False),
        sa.Column("in_seeds", sa.Boolean(), nullable=False),
        sa.Column("proposal_id", ID, nullable=True),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name=op.f("fk_campaign_candidate_campaign_id")),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidate.id"], name=op.f("fk_campaign_candidate_candidate_id")),
        sa.ForeignKeyConstraint(["proposal_id"], ["proposal.id"], name=op.f("fk_campaign_candidate_proposal_id")),
        sa.PrimaryKeyConstraint("campaign_id", "candidate_id", name=op.f("pk_campaign_candidate")),
        sa.UniqueConstraint("campaign_id", "seq", name=op.f("uq_campaign_candidate_campaign_id_seq")),
    )
    with op.batch_alter_table("campaign_candidate", schema=None) as batch_op:
        batch_op.create_index(
            "ix_campaign_candidate_best",
            ["campaign_id", sa.text("is_hit DESC"), sa.text("depth DESC"), sa.text("score DESC"), "seq"],
            unique=False,
        )
        batch_op.create_index(
            "ix_campaign_candidate_places", ["campaign_id", "position", "standing", "verdict", "hit_tier"], unique=False
        )
        batch_op.create_index(
            "ix_campaign_candidate_open", ["campaign_id", "standing", "position", "seq"], unique=False
        )
        batch_op.create_index(
            "ix_campaign_candidate_score",
            ["campaign_id", "standing", "position", sa.text("score DESC"), "seq"],
            unique=False,
        )
        batch_op.create_index(
            "ix_campaign_candidate_parents", ["campaign_id", sa.text("score DESC"), "seq"], unique=False
        )

    op.create_table(
        "candidate_parent",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("candidate_id", ID, nullable=False),
        sa.Column("parent_id", ID, nullable=False),
        sa.Column("proposal_id", ID, nullable=False),
        sa.Column("operation", sa.String(length=100), nullable=True),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidate.id"], name=op.f("fk_candidate_parent_candidate_id")),
        sa.ForeignKeyConstraint(["parent_id"], ["candidate.id"], name=op.f("fk_candidate_parent_parent_id")),
        sa.ForeignKeyConstraint(["proposal_id"], ["proposal.id"], name=op.f("fk_candidate_parent_proposal_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_candidate_parent")),
    )
    with op.batch_alter_table("candidate_parent", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_candidate_parent_candidate_id"), ["candidate_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_candidate_parent_parent_id"), ["parent_id"], unique=False)

    op.create_table(
        "cost_observation",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("verifier", sa.String(length=100), nullable=False),
        sa.Column("verifier_version", sa.String(length=40), nullable=False),
        sa.Column("settings_hash", sa.String(length=64), nullable=False),
        sa.Column("candidate_id", ID, nullable=False),
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("resource", sa.String(length=40), nullable=False),
        sa.Column("declared", sa.Float(), nullable=False),
        sa.Column("amount", sa.Float(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempt.id"], name=op.f("fk_cost_observation_attempt_id")),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidate.id"], name=op.f("fk_cost_observation_candidate_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cost_observation")),
    )
    with op.batch_alter_table("cost_observation", schema=None) as batch_op:
        batch_op.create_index(
            "ix_cost_observation_rung", ["verifier", "verifier_version", "settings_hash", "id"], unique=False
        )

    op.create_table(
        "evidence",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("candidate_id", ID, nullable=False),
        sa.Column("proposal_id", ID, nullable=True),
        sa.Column("verifier", sa.String(length=100), nullable=False),
        sa.Column("verifier_version", sa.String(length=40), nullable=False),
        sa.Column("settings_hash", sa.String(length=64), nullable=False),
        sa.Column("inputs_hash", sa.String(length=64), nullable=False),
        sa.Column("replicate", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("supersedes_id", ID, nullable=True),
        sa.Column("outcome", sa.String(length=20), nullable=False),
        sa.Column("reason", sa.String(length=60), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("reusable", sa.Boolean(), nullable=False),
        sa.Column("diagnostics", JSON, nullable=False),
        sa.Column("versions", JSON, nullable=False),
        sa.Column("source", sa.String(length=200), nullable=False),
        sa.Column("who", sa.String(length=200), nullable=False),
        sa.Column("why", sa.Text(), nullable=True),
        sa.Column("attempt_id", ID, nullable=True),
        sa.Column("watermark", ID, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempt.id"], name=op.f("fk_evidence_attempt_id")),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidate.id"], name=op.f("fk_evidence_candidate_id")),
        sa.ForeignKeyConstraint(["proposal_id"], ["proposal.id"], name=op.f("fk_evidence_proposal_id")),
        sa.ForeignKeyConstraint(["supersedes_id"], ["evidence.id"], name=op.f("fk_evidence_supersedes_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evidence")),
        sa.UniqueConstraint("key", name=op.f("uq_evidence_key")),
        sa.UniqueConstraint("supersedes_id", name=op.f("uq_evidence_supersedes_id")),
        sa.UniqueConstraint("watermark", name=op.f("uq_evidence_watermark")),
    )
    with op.batch_alter_table("evidence", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_evidence_attempt_id"), ["attempt_id"], unique=False)
        batch_op.create_index(
            "ix_evidence_lookup",
            ["candidate_id", "verifier", "verifier_version", "settings_hash", "replicate"],
            unique=False,
        )

    op.create_table(
        "spend",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("campaign_id", ID, nullable=False),
        sa.Column("rung_id", ID, nullable=True),
        sa.Column("attempt_id", ID, nullable=True),
        sa.Column("resource", sa.String(length=40), nullable=False),
        sa.Column("amount", sa.Float(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempt.id"], name=op.f("fk_spend_attempt_id")),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name=op.f("fk_spend_campaign_id")),
        sa.ForeignKeyConstraint(["rung_id"], ["rung.id"], name=op.f("fk_spend_rung_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_spend")),
    )
    with op.batch_alter_table("spend", schema=None) as batch_op:
        batch_op.create_index("ix_spend_campaign_rung", ["campaign_id", "rung_id", "resource", "amount"], unique=False)

    op.create_table(
        "artifact",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("evidence_id", ID, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size", ID, nullable=False),
        sa.Column("media_type", sa.String(length=100), nullable=False),
        sa.ForeignKeyConstraint(["evidence_id"], ["evidence.id"], name=op.f("fk_artifact_evidence_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_artifact")),
    )
    with op.batch_alter_table("artifact", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_artifact_evidence_id"), ["evidence_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_artifact_sha256"), ["sha256"], unique=False)

    op.create_table(
        "decision",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("campaign_id", ID, nullable=False),
        sa.Column("candidate_id", ID, nullable=False),
        sa.Column("rung_id", ID, nullable=True),
        sa.Column("action", sa.String(length=20), nullable=False),
        sa.Column("chooser", sa.String(length=200), nullable=False),
        sa.Column("why", sa.Text(), nullable=True),
        sa.Column("law_version", sa.String(length=64), nullable=True),
        sa.Column("watermark", ID, nullable=False),
        sa.Column("price", JSON, nullable=True),
        sa.Column("index", sa.Float(), nullable=True),
        sa.Column("propensity", sa.Float(), nullable=False),
        sa.Column("evidence_id", ID, nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name=op.f("fk_decision_campaign_id")),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidate.id"], name=op.f("fk_decision_candidate_id")),
        sa.ForeignKeyConstraint(["evidence_id"], ["evidence.id"], name=op.f("fk_decision_evidence_id")),
        sa.ForeignKeyConstraint(["rung_id"], ["rung.id"], name=op.f("fk_decision_rung_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decision")),
    )
    with op.batch_alter_table("decision", schema=None) as batch_op:
        batch_op.create_index("ix_decision_campaign_action", ["campaign_id", "action"], unique=False)
        batch_op.create_index("ix_decision_campaign_candidate", ["campaign_id", "candidate_id"], unique=False)
        batch_op.create_index("ix_decision_rung_action", ["rung_id", "action"], unique=False)

    op.create_table(
        "quantity",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("evidence_id", ID, nullable=False),
        sa.Column("property_id", ID, nullable=False),
        sa.Column("level_id", ID, nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("uncertainty", sa.Double(), nullable=True),
        sa.Column("unit", sa.String(length=40), nullable=False),
        sa.Column("censoring", sa.String(length=10), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("as_typed", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["evidence_id"], ["evidence.id"], name=op.f("fk_quantity_evidence_id")),
        sa.ForeignKeyConstraint(["level_id"], ["level.id"], name=op.f("fk_quantity_level_id")),
        sa.ForeignKeyConstraint(["property_id"], ["property.id"], name=op.f("fk_quantity_property_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quantity")),
        sa.UniqueConstraint(
            "evidence_id", "property_id", "level_id", name=op.f("uq_quantity_evidence_id_property_id_level_id")
        ),
    )
    with op.batch_alter_table("quantity", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_quantity_evidence_id"), ["evidence_id"], unique=False)
        batch_op.create_index("ix_quantity_property_value", ["property_id", "level_id", "value"], unique=False)


def downgrade() -> None:
    op.execute("DROP VIEW current_evidence")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION sciagent_append_only() CASCADE")
    op.drop_table("quantity")
    op.drop_table("decision")
    op.drop_table("artifact")
    op.drop_table("spend")
    op.drop_table("evidence")
    op.drop_table("cost_observation")
    op.drop_table("candidate_parent")
    op.drop_table("campaign_candidate")
    op.drop_table("reservation")
    op.drop_table("proposal")
    op.drop_table("attempt")
    op.drop_table("turn")
    op.drop_table("job")
    op.drop_table("trajectory")
    op.drop_table("rung")
    op.drop_table("event")
    op.drop_table("candidate_alias")
    op.drop_table("campaign_amendment")
    op.drop_table("watermark")
    op.drop_table("property")
    op.drop_table("level")
    op.drop_table("candidate")
    op.drop_table("campaign")
