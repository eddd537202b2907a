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
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
TEXT = sa.Text()
WHEN = sa.DateTime(timezone=True)

APPEND_ONLY = (
    "evidence", "quantity", "artifact", "decision", "spend", "cost_observation", "campaign_amendment", "directive",
    "artifact_removal", "law",
)  # fmt: skip
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
    op.execute(CURRENT_EVIDENCE)
    op.execute("INSERT INTO watermark (id, value) VALUES (1, 0)")


def refuse_changes(table: str) -> None:
    """Rows of an append-only table can neither be changed nor removed, whoever asks."""
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


def needed(name: str, kind: Any, refers: str | None = None, default: Any = None) -> sa.Column[Any]:
    """A column that has a value in every row. refers: the table whose id it holds."""
    return sa.Column(name, kind, nullable=False, server_default=default, info={"refers": refers})


def optional(name: str, kind: Any, refers: str | None = None) -> sa.Column[Any]:
    """A column that may be NULL."""
    return sa.Column(name, kind, nullable=True, info={"refers": refers})


def create(
    table: str, *columns: sa.Column[Any], unique: tuple[tuple[str, ...], ...] = (), key: tuple[str, ...] = ("id",)
) -> None:
    """Creates a table with its primary key, its references, and the columns that are unique together."""
    constraints: list[Any] = [sa.PrimaryKeyConstraint(*key, name=op.f(f"pk_{table}"))]
    constraints += [sa.UniqueConstraint(*names, name=op.f("_".join(("uq", table, *names)))) for names in unique]
    for column in columns:
        if other := column.info["refers"]:
            name = op.f(f"fk_{table}_{column.name}")
            constraints.append(sa.ForeignKeyConstraint([column.name], [f"{other}.id"], name=name))
    op.create_table(table, *columns, *constraints)


def index(name: str, table: str, *columns: Any, where: str | None = None) -> None:
    """where: the rows that the index holds; all of them where it is left out."""
    rows = None if where is None else sa.text(where)
    op.create_index(op.f(name), table, list(columns), sqlite_where=rows, postgresql_where=rows)


def tables() -> None:
    create(
        "artifact_removal",
        needed("id", ID),
        needed("sha256", sa.String(64)),
        needed("size", ID),
        needed("who", sa.String(200)),
        needed("why", TEXT),
        needed("at", WHEN),
    )
    index("ix_artifact_removal_sha256", "artifact_removal", "sha256")

    create(
        "campaign",
        needed("id", ID),
        needed("name", sa.String(64)),
        needed("spec", JSON),
        needed("spec_hash", sa.String(64)),
        needed("identity_hash", sa.String(64)),
        needed("base", TEXT),
        needed("source", TEXT),
        needed("state", sa.String(20)),
        optional("stop_reason", TEXT),
        optional("driver", sa.String(200)),
        needed("driver_fence", sa.Integer()),
        optional("driver_until", WHEN),
        needed("wall_seconds", sa.Float()),
        needed("created_at", WHEN),
        needed("updated_at", WHEN),
        needed("hosted", sa.Boolean(), default=sa.false()),
        unique=(("name",),),
    )
    index("ix_campaign_hosted", "campaign", "hosted", "state")

    create(
        "candidate",
        needed("id", ID),
        needed("key", sa.String(64)),
        needed("kind", sa.String(20)),
        needed("text", TEXT),
        needed("identity", TEXT),
        optional("inchikey", sa.String(27)),
        needed("formula", TEXT),
        needed("charge", sa.Integer()),
        needed("multiplicity", sa.Integer()),
        needed("n_atoms", sa.Integer()),
        needed("payload", JSON),
        needed("standardiser", sa.String(20)),
        needed("library", sa.String(60)),
        needed("created_at", WHEN),
        optional("scaffold_hash", sa.String(64)),
        unique=(("key",),),
    )
    index("ix_candidate_inchikey", "candidate", "inchikey")
    index("ix_candidate_scaffold_hash", "candidate", "scaffold_hash", "id")

    create(
        "level",
        needed("id", ID),
        needed("hash", sa.String(64)),
        needed("label", TEXT),
        needed("spec", JSON),
        unique=(("hash",),),
    )

    create(
        "property",
        needed("id", ID),
        needed("name", sa.String(100)),
        needed("unit", sa.String(40)),
        needed("kind", sa.String(20)),
        needed("description", TEXT),
        unique=(("name",),),
    )

    create("watermark", needed("id", sa.Integer()), needed("value", ID))

    create(
        "worker",
        needed("id", ID),
        needed("name", sa.String(200)),
        needed("host", sa.String(200)),
        needed("pid", sa.Integer()),
        needed("executor", sa.String(20)),
        needed("queues", JSON),
        needed("slots", sa.Integer()),
        optional("memory_mb", sa.Integer()),
        needed("started_at", WHEN),
        needed("seen_at", WHEN),
        needed("until", WHEN),
        needed("draining", sa.Boolean()),
        optional("stopped_at", WHEN),
        optional("cores", sa.Integer()),
        optional("resources", JSON),
        unique=(("name",),),
    )
    index("ix_worker_until", "worker", "until")

    create(
        "campaign_amendment",
        needed("id", ID),
        needed("campaign_id", ID, refers="campaign"),
        needed("path", sa.String(200)),
        optional("old", JSON),
        optional("new", JSON),
        needed("who", sa.String(200)),
        needed("why", TEXT),
        needed("at", WHEN),
    )
    index("ix_campaign_amendment_campaign_id", "campaign_amendment", "campaign_id")

    create(
        "candidate_alias",
        needed("id", ID),
        needed("candidate_id", ID, refers="candidate"),
        needed("notation", sa.String(20)),
        needed("text", TEXT),
        needed("text_hash", sa.String(64)),
        unique=(("text_hash", "notation"),),
    )
    index("ix_candidate_alias_candidate_id", "candidate_alias", "candidate_id")

    create(
        "event",
        needed("id", ID),
        optional("campaign_id", ID, refers="campaign"),
        needed("kind", sa.String(40)),
        needed("payload", JSON),
        needed("at", WHEN),
    )
    index("ix_event_campaign_id", "event", "campaign_id")

    create(
        "law",
        needed("id", ID),
        needed("campaign_id", ID, refers="campaign"),
        needed("version", sa.String(64)),
        needed("watermark", ID),
        needed("state", JSON),
        needed("at", WHEN),
    )
    index("ix_law_campaign", "law", "campaign_id", "id")

    create(
        "rung",
        needed("id", ID),
        needed("campaign_id", ID, refers="campaign"),
        needed("position", sa.Integer()),
        needed("name", sa.String(64)),
        needed("verifier", sa.String(100)),
        needed("verifier_version", sa.String(40)),
        needed("tier", sa.String(20)),
        needed("settings", JSON),
        needed("settings_hash", sa.String(64)),
        needed("gate", JSON),
        optional("request", JSON),
        unique=(("campaign_id", "name"), ("campaign_id", "position")),
    )

    create(
        "trajectory",
        needed("id", ID),
        needed("campaign_id", ID, refers="campaign"),
        needed("number", sa.Integer()),
        needed("proposer", sa.String(100)),
        needed("settings", JSON),
        needed("seed", ID),
        optional("policy_version", sa.String(200)),
        needed("state", sa.String(20)),
        needed("started_at", WHEN),
        optional("ended_at", WHEN),
        unique=(("campaign_id", "number"),),
    )

    create(
        "directive",
        needed("id", ID),
        needed("campaign_id", ID, refers="campaign"),
        optional("candidate_id", ID, refers="candidate"),
        optional("rung_id", ID, refers="rung"),
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
        needed("id", ID),
        needed("campaign_id", ID, refers="campaign"),
        needed("rung_id", ID, refers="rung"),
        needed("candidate_id", ID, refers="candidate"),
        needed("replicate", sa.Integer()),
        needed("evidence_key", sa.String(64)),
        needed("state", sa.String(20)),
        needed("priority", sa.Float()),
        needed("attempts", sa.Integer()),
        needed("kills", sa.Integer()),
        needed("fence", sa.Integer()),
        optional("lease_owner", sa.String(200)),
        optional("lease_until", WHEN),
        needed("cancel_requested", sa.Boolean()),
        optional("outcome", sa.String(20)),
        needed("created_at", WHEN),
        needed("updated_at", WHEN),
        optional("queue", sa.String(60)),
        optional("external", sa.String(100)),
        optional("seconds", sa.Float()),
        optional("memory_mb", sa.Integer()),
        needed("losses", sa.Integer(), default="0"),
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
        "turn",
        needed("id", ID),
        needed("trajectory_id", ID, refers="trajectory"),
        needed("number", sa.Integer()),
        optional("cursor", JSON),
        needed("calls", JSON),
        needed("observations", JSON),
        optional("prompt_ids", JSON),
        optional("output_ids", JSON),
        optional("logprobs", JSON),
        optional("sampling", JSON),
        optional("template_hash", sa.String(64)),
        optional("policy_version", sa.String(200)),
        needed("watermark", ID),
        needed("cost", JSON),
        needed("at", WHEN),
        optional("message", JSON),
        optional("forced", JSON),
        optional("kept", sa.Integer()),
        unique=(("trajectory_id", "number"),),
    )

    create(
        "attempt",
        needed("id", ID),
        optional("campaign_id", ID, refers="campaign"),
        optional("rung_id", ID, refers="rung"),
        optional("job_id", ID, refers="job"),
        needed("fence", sa.Integer()),
        needed("owner", sa.String(200)),
        needed("state", sa.String(20)),
        optional("outcome", sa.String(20)),
        optional("reason", sa.String(60)),
        optional("detail", TEXT),
        needed("n_candidates", sa.Integer()),
        needed("cost", JSON),
        optional("wall_seconds", sa.Float()),
        needed("started_at", WHEN),
        needed("heartbeat_at", WHEN),
        optional("ended_at", WHEN),
        optional("holds", JSON),
    )
    index("ix_attempt_campaign_state", "attempt", "campaign_id", "state")
    index("ix_attempt_job_id", "attempt", "job_id")
    index("ix_attempt_rung_outcome", "attempt", "rung_id", "outcome")

    create(
        "proposal",
        needed("id", ID),
        needed("campaign_id", ID, refers="campaign"),
        optional("turn_id", ID, refers="turn"),
        needed("text", TEXT),
        optional("candidate_id", ID, refers="candidate"),
        needed("status", sa.String(20)),
        optional("reason", sa.String(60)),
        optional("detail", TEXT),
        optional("operation", sa.String(100)),
        optional("rationale", TEXT),
        optional("predicted", JSON),
        needed("at", WHEN),
        optional("novelty", JSON),
    )
    index("ix_proposal_campaign_status", "proposal", "campaign_id", "status")
    index("ix_proposal_candidate_id", "proposal", "candidate_id")
    index("ix_proposal_turn_id", "proposal", "turn_id")

    create(
        "reservation",
        needed("id", ID),
        needed("campaign_id", ID, refers="campaign"),
        needed("job_id", ID, refers="job"),
        needed("resource", sa.String(40)),
        needed("amount", sa.Float()),
        needed("at", WHEN),
        optional("released_at", WHEN),
    )
    index("ix_reservation_job_id", "reservation", "job_id")
    index("ix_reservation_live", "reservation", "campaign_id", where="released_at IS NULL")

    create(
        "campaign_candidate",
        needed("campaign_id", ID, refers="campaign"),
        needed("candidate_id", ID, refers="candidate"),
        needed("seq", sa.Integer()),
        needed("standing", sa.String(20)),
        needed("position", sa.Integer()),
        needed("depth", sa.Integer()),
        optional("verdict", sa.String(20)),
        optional("reason", sa.String(60)),
        optional("detail", TEXT),
        optional("score", sa.Float()),
        optional("utility", sa.Float()),
        optional("hit_tier", sa.String(20)),
        needed("is_hit", sa.Boolean()),
        needed("in_seeds", sa.Boolean()),
        optional("proposal_id", ID, refers="proposal"),
        needed("updated_at", WHEN),
        unique=(("campaign_id", "seq"),),
        key=("campaign_id", "candidate_id"),
    )
    index(
        "ix_campaign_candidate_best",
        "campaign_candidate",
        "campaign_id",
        sa.text("is_hit DESC"),
        sa.text("coalesce(utility, -1) DESC"),
        sa.text("depth DESC"),
        sa.text("coalesce(score, -1) DESC"),
        "seq",
    )
    index("ix_campaign_candidate_open", "campaign_candidate", "campaign_id", "standing", "position", "seq")
    index("ix_campaign_candidate_parents", "campaign_candidate", "campaign_id", sa.text("score DESC"), "seq")
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
        "ix_campaign_candidate_score",
        "campaign_candidate",
        "campaign_id",
        "standing",
        "position",
        sa.text("score DESC"),
        "seq",
    )

    create(
        "candidate_parent",
        needed("id", ID),
        needed("candidate_id", ID, refers="candidate"),
        needed("parent_id", ID, refers="candidate"),
        needed("proposal_id", ID, refers="proposal"),
        optional("operation", sa.String(100)),
    )
    index("ix_candidate_parent_candidate_id", "candidate_parent", "candidate_id")
    index("ix_candidate_parent_parent_id", "candidate_parent", "parent_id")

    create(
        "cost_observation",
        needed("id", ID),
        needed("verifier", sa.String(100)),
        needed("verifier_version", sa.String(40)),
        needed("settings_hash", sa.String(64)),
        needed("candidate_id", ID, refers="candidate"),
        needed("attempt_id", ID, refers="attempt"),
        needed("resource", sa.String(40)),
        needed("declared", sa.Float()),
        needed("amount", sa.Float()),
        needed("at", WHEN),
    )
    index("ix_cost_observation_rung", "cost_observation", "verifier", "verifier_version", "settings_hash", "id")

    create(
        "evidence",
        needed("id", ID),
        needed("key", sa.String(64)),
        needed("candidate_id", ID, refers="candidate"),
        optional("proposal_id", ID, refers="proposal"),
        needed("verifier", sa.String(100)),
        needed("verifier_version", sa.String(40)),
        needed("settings_hash", sa.String(64)),
        needed("inputs_hash", sa.String(64)),
        needed("replicate", sa.Integer()),
        needed("revision", sa.Integer()),
        optional("supersedes_id", ID, refers="evidence"),
        needed("outcome", sa.String(20)),
        optional("reason", sa.String(60)),
        optional("detail", TEXT),
        needed("reusable", sa.Boolean()),
        needed("diagnostics", JSON),
        needed("versions", JSON),
        needed("source", sa.String(200)),
        needed("who", sa.String(200)),
        optional("why", TEXT),
        optional("attempt_id", ID, refers="attempt"),
        needed("watermark", ID),
        needed("at", WHEN),
        unique=(("key",), ("supersedes_id",), ("watermark",)),
    )
    index("ix_evidence_attempt_id", "evidence", "attempt_id")
    index(
        "ix_evidence_lookup", "evidence", "candidate_id", "verifier", "verifier_version", "settings_hash", "replicate"
    )

    create(
        "spend",
        needed("id", ID),
        needed("campaign_id", ID, refers="campaign"),
        optional("rung_id", ID, refers="rung"),
        optional("attempt_id", ID, refers="attempt"),
        needed("resource", sa.String(40)),
        needed("amount", sa.Float()),
        needed("at", WHEN),
    )
    index("ix_spend_campaign_rung", "spend", "campaign_id", "rung_id", "resource", "amount")

    create(
        "artifact",
        needed("id", ID),
        needed("evidence_id", ID, refers="evidence"),
        needed("name", sa.String(200)),
        needed("sha256", sa.String(64)),
        needed("size", ID),
        needed("media_type", sa.String(100)),
    )
    index("ix_artifact_evidence_id", "artifact", "evidence_id")
    index("ix_artifact_sha256", "artifact", "sha256")

    create(
        "decision",
        needed("id", ID),
        needed("campaign_id", ID, refers="campaign"),
        needed("candidate_id", ID, refers="candidate"),
        optional("rung_id", ID, refers="rung"),
        needed("action", sa.String(20)),
        needed("chooser", sa.String(200)),
        optional("why", TEXT),
        optional("law_version", sa.String(64)),
        needed("watermark", ID),
        optional("price", JSON),
        optional("index", sa.Float()),
        needed("propensity", sa.Float()),
        optional("evidence_id", ID, refers="evidence"),
        needed("at", WHEN),
    )
    index("ix_decision_campaign_action", "decision", "campaign_id", "action")
    index("ix_decision_campaign_candidate", "decision", "campaign_id", "candidate_id")
    index("ix_decision_rung_action", "decision", "rung_id", "action")

    create(
        "quantity",
        needed("id", ID),
        needed("evidence_id", ID, refers="evidence"),
        needed("property_id", ID, refers="property"),
        needed("level_id", ID, refers="level"),
        needed("value", sa.Double()),
        optional("uncertainty", sa.Double()),
        needed("unit", sa.String(40)),
        needed("censoring", sa.String(10)),
        needed("n", sa.Integer()),
        optional("as_typed", TEXT),
        unique=(("evidence_id", "property_id", "level_id"),),
    )
    index("ix_quantity_property_value", "quantity", "property_id", "level_id", "value")
