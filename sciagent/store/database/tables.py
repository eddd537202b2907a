"""The tables of the ledger. Times are UTC. Evidence, quantities, decisions and spend are append-only (triggers)."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Integer, Table, UniqueConstraint

from sciagent.store.database.column_types import Id, Json, Key, String, Text
from sciagent.store.database.schema import APPEND_ONLY as APPEND_ONLY
from sciagent.store.database.schema import id_column, index_of_some, moment, reference
from sciagent.store.database.schema import metadata as metadata
from sciagent.store.database.spending_tables import cost_observation as cost_observation
from sciagent.store.database.spending_tables import event as event
from sciagent.store.database.spending_tables import reservation as reservation
from sciagent.store.database.spending_tables import spend as spend

# a single row, locked in every evidence transaction, so that its numbers are in the order of commits
watermark = Table("watermark", metadata, Column("id", Integer, primary_key=True), Column("value", Id, nullable=False))

property_ = Table(
    "property",
    metadata,
    id_column(),
    Column("name", String(100), nullable=False, unique=True),
    Column("unit", String(40), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("description", Text, nullable=False),
)

level = Table(
    "level",
    metadata,
    id_column(),
    Column("hash", Key, nullable=False, unique=True),
    Column("label", Text, nullable=False),
    Column("spec", Json, nullable=False),
)

candidate = Table(
    "candidate",
    metadata,
    id_column(),
    Column("key", Key, nullable=False, unique=True),
    Column("kind", String(20), nullable=False),
    Column("text", Text, nullable=False),
    Column("identity", Text, nullable=False),
    Column("inchikey", String(27), index=True),
    Column("formula", Text, nullable=False),
    Column("charge", Integer, nullable=False),
    Column("multiplicity", Integer, nullable=False),
    Column("n_atoms", Integer, nullable=False),
    Column("payload", Json, nullable=False),
    Column("standardiser", String(20), nullable=False),
    Column("library", String(60), nullable=False),
    moment("created_at"),
    Column("scaffold_hash", Key),  # None: not worked out yet, or no molecule
    Index("ix_candidate_scaffold_hash", "scaffold_hash", "id"),
)

candidate_alias = Table(
    "candidate_alias",
    metadata,
    id_column(),
    reference("candidate_id", "candidate.id", index=True),
    Column("notation", String(20), nullable=False),
    Column("text", Text, nullable=False),
    Column("text_hash", Key, nullable=False),
    UniqueConstraint("text_hash", "notation"),
)

campaign = Table(
    "campaign",
    metadata,
    id_column(),
    Column("name", String(64), nullable=False, unique=True),
    Column("spec", Json, nullable=False),
    Column("spec_hash", Key, nullable=False),
    Column("identity_hash", Key, nullable=False),
    Column("base", Text, nullable=False),
    Column("source", Text, nullable=False),  # the YAML as it was given
    Column("state", String(20), nullable=False),
    Column("stop_reason", Text),
    Column("driver", String(200)),
    Column("driver_fence", Integer, nullable=False, default=0),
    moment("driver_until", nullable=True),
    Column("wall_seconds", sa.Float, nullable=False, default=0.0),
    moment("created_at"),
    moment("updated_at"),
    # a dispatcher shall drive it; it goes by this, not by who began it
    Column("hosted", sa.Boolean, nullable=False, server_default=sa.false()),
    Index("ix_campaign_hosted", "hosted", "state"),
)

campaign_amendment = Table(
    "campaign_amendment",
    metadata,
    id_column(),
    reference("campaign_id", "campaign.id", index=True),
    Column("path", String(200), nullable=False),
    Column("old", Json),
    Column("new", Json),
    Column("who", String(200), nullable=False),
    Column("why", Text, nullable=False),
    moment("at"),
)

rung = Table(
    "rung",
    metadata,
    id_column(),
    reference("campaign_id", "campaign.id"),
    Column("position", Integer, nullable=False),
    Column("name", String(64), nullable=False),
    Column("verifier", String(100), nullable=False),
    Column("verifier_version", String(40), nullable=False),
    Column("tier", String(20), nullable=False),
    Column("settings", Json, nullable=False),
    Column("settings_hash", Key, nullable=False),
    Column("gate", Json, nullable=False),
    UniqueConstraint("campaign_id", "position"),
    UniqueConstraint("campaign_id", "name"),
    Column(
        "request", Json
    ),  # for workers elsewhere: settings with the paths of their files, and limits as they are now
)

trajectory = Table(
    "trajectory",
    metadata,
    id_column(),
    reference("campaign_id", "campaign.id"),
    Column("number", Integer, nullable=False),
    Column("proposer", String(100), nullable=False),
    Column("settings", Json, nullable=False),
    Column("seed", Id, nullable=False),
    Column("policy_version", String(200)),
    Column("state", String(20), nullable=False),
    moment("started_at"),
    moment("ended_at", nullable=True),
    UniqueConstraint("campaign_id", "number"),
)

turn = Table(
    "turn", metadata, id_column(), reference("trajectory_id", "trajectory.id"), Column("number", Integer, nullable=False),
    Column("cursor", Json), Column("calls", Json, nullable=False), Column("observations", Json, nullable=False),
    Column("prompt_ids", Json), Column("output_ids", Json), Column("logprobs", Json), Column("sampling", Json),
    Column("template_hash", Key), Column("policy_version", String(200)), Column("watermark", Id, nullable=False),
    Column("cost", Json, nullable=False), moment("at"), Column("message", Json), Column("forced", Json),
    Column("kept", Integer),  # of the tokens held, those that the prompt begins with; prompt_ids come after them
    UniqueConstraint("trajectory_id", "number"),
)  # fmt: skip

proposal = Table(
    "proposal",
    metadata,
    id_column(),
    reference("campaign_id", "campaign.id"),
    reference("turn_id", "turn.id", nullable=True, index=True),
    Column("text", Text, nullable=False),
    reference("candidate_id", "candidate.id", nullable=True, index=True),
    Column("status", String(20), nullable=False),
    Column("reason", String(60)),
    Column("detail", Text),
    Column("operation", String(100)),
    Column("rationale", Text),
    Column("predicted", Json),
    moment("at"),
    Column("novelty", Json),  # how new it was to the ledger when it was made
    Index("ix_proposal_campaign_status", "campaign_id", "status"),
)

candidate_parent = Table(
    "candidate_parent",
    metadata,
    id_column(),
    reference("candidate_id", "candidate.id", index=True),
    reference("parent_id", "candidate.id", index=True),
    reference("proposal_id", "proposal.id"),
    Column("operation", String(100)),
)

campaign_candidate = Table(
    "campaign_candidate",
    metadata,
    Column("campaign_id", Id, ForeignKey("campaign.id"), primary_key=True),
    Column("candidate_id", Id, ForeignKey("candidate.id"), primary_key=True),
    Column("seq", Integer, nullable=False),
    Column("standing", String(20), nullable=False),
    Column("position", Integer, nullable=False),  # the rung it waits for, runs at, or ended at
    Column("depth", Integer, nullable=False, default=-1),  # highest rung with an answer
    Column("verdict", String(20)),  # of the rung at `position`, once it is known
    Column("reason", String(60)),
    Column("detail", Text),
    Column("score", sa.Float),
    Column("utility", sa.Float),
    Column("hit_tier", String(20)),
    Column("is_hit", sa.Boolean, nullable=False, default=False),
    Column("in_seeds", sa.Boolean, nullable=False, default=False),
    reference("proposal_id", "proposal.id", nullable=True),
    moment("updated_at"),
    UniqueConstraint("campaign_id", "seq"),
    Index("ix_campaign_candidate_open", "campaign_id", "standing", "position", "seq"),
    Index("ix_campaign_candidate_places", "campaign_id", "position", "standing", "verdict", "hit_tier"),
)

_cc = campaign_candidate.c
Index("ix_campaign_candidate_score", _cc.campaign_id, _cc.standing, _cc.position, _cc.score.desc(), _cc.seq)
Index("ix_campaign_candidate_best", _cc.campaign_id, _cc.is_hit.desc(), _cc.depth.desc(), _cc.score.desc(), _cc.seq)
Index("ix_campaign_candidate_parents", _cc.campaign_id, _cc.score.desc(), _cc.seq)

job = Table(
    "job", metadata, id_column(), reference("campaign_id", "campaign.id"), reference("rung_id", "rung.id"),
    reference("candidate_id", "candidate.id"), Column("replicate", Integer, nullable=False, default=0),
    Column("evidence_key", Key, nullable=False), Column("state", String(20), nullable=False),
    Column("priority", sa.Float, nullable=False, default=0.0), Column("attempts", Integer, nullable=False, default=0),
    Column("kills", Integer, nullable=False, default=0), Column("fence", Integer, nullable=False, default=0),
    Column("lease_owner", String(200)), moment("lease_until", nullable=True),
    Column("cancel_requested", sa.Boolean, nullable=False, default=False), Column("outcome", String(20)),
    moment("created_at"), moment("updated_at"),
    UniqueConstraint("campaign_id", "rung_id", "candidate_id", "replicate"),
    # where workers find it; none: its own driver runs it. external: what an outside queue calls it, as "slurm 4711_3"
    Column("queue", String(60)), Column("external", String(100)),
    Column("seconds", sa.Float), Column("memory_mb", Integer),  # on the clock, as expected; the limit
    Column("losses", Integer, nullable=False, server_default="0"),  # attempts that vanished with their worker
    Column("needs", String(400)),  # what it holds while it runs, as "cores=4 gpu=1"; none: one core and nothing else
    Index("ix_job_campaign_state", "campaign_id", "state", "priority"), Index("ix_job_rung_state", "rung_id", "state"),
)  # fmt: skip


_job = job.c
index_of_some("ix_job_lease", _job.lease_until.is_not(None), _job.state, _job.lease_until)
index_of_some("ix_job_external", _job.external.is_not(None), _job.external)
index_of_some(
    "ix_job_queue", _job.queue.is_not(None), _job.queue, _job.state, _job.campaign_id, _job.priority.desc(), _job.id
)
index_of_some("ix_job_needs", _job.needs.is_not(None), _job.state, _job.queue, _job.needs)

# who works on queues; its name begins the owner of its leases
worker = Table(
    "worker", metadata, id_column(), Column("name", String(200), nullable=False, unique=True),
    Column("host", String(200), nullable=False), Column("pid", Integer, nullable=False),
    Column("executor", String(20), nullable=False), Column("queues", Json, nullable=False),
    Column("slots", Integer, nullable=False), Column("memory_mb", Integer), moment("started_at"), moment("seen_at"),
    moment("until"), Column("draining", sa.Boolean, nullable=False, default=False), moment("stopped_at", nullable=True),
    # of all its slots together; cores: none where they are its slots; resources: {name: how many}, GPUs among them
    Column("cores", Integer), Column("resources", Json), Index("ix_worker_until", "until"),
)  # fmt: skip

attempt = Table(
    "attempt", metadata, id_column(), reference("campaign_id", "campaign.id", nullable=True), reference("rung_id", "rung.id", nullable=True),
    reference("job_id", "job.id", nullable=True, index=True),  # None: a batch of a fast rung, or `verify`
    Column("fence", Integer, nullable=False, default=0), Column("owner", String(200), nullable=False),
    Column("state", String(20), nullable=False), Column("outcome", String(20)), Column("reason", String(60)),
    Column("detail", Text), Column("n_candidates", Integer, nullable=False, default=1),
    Column("cost", Json, nullable=False), Column("wall_seconds", sa.Float), moment("started_at"),
    moment("heartbeat_at"), moment("ended_at", nullable=True), Index("ix_attempt_campaign_state", "campaign_id", "state"),
    Index("ix_attempt_rung_outcome", "rung_id", "outcome"),
    # what it holds until it ends, where its job needs more than a core: {name: how many}, of GPUs which
    Column("holds", Json),
)  # fmt: skip

_attempt = attempt.c
index_of_some("ix_attempt_holds", sa.and_(_attempt.holds.is_not(None), _attempt.ended_at.is_(None)), _attempt.owner)

evidence = Table(
    "evidence", metadata, id_column(), Column("key", Key, nullable=False, unique=True),
    reference("candidate_id", "candidate.id"), reference("proposal_id", "proposal.id", nullable=True),
    Column("verifier", String(100), nullable=False), Column("verifier_version", String(40), nullable=False),
    Column("settings_hash", Key, nullable=False), Column("inputs_hash", String(64), nullable=False),
    Column("replicate", Integer, nullable=False), Column("revision", Integer, nullable=False),
    reference("supersedes_id", "evidence.id", nullable=True, unique=True), Column("outcome", String(20), nullable=False),
    Column("reason", String(60)), Column("detail", Text), Column("reusable", sa.Boolean, nullable=False),
    Column("diagnostics", Json, nullable=False), Column("versions", Json, nullable=False),
    Column("source", String(200), nullable=False), Column("who", String(200), nullable=False), Column("why", Text),
    reference("attempt_id", "attempt.id", nullable=True, index=True), Column("watermark", Id, nullable=False, unique=True),
    moment("at"), Index("ix_evidence_lookup", "candidate_id", "verifier", "verifier_version", "settings_hash", "replicate"),
)  # fmt: skip

quantity = Table(
    "quantity",
    metadata,
    id_column(),
    reference("evidence_id", "evidence.id"),
    reference("property_id", "property.id"),
    reference("level_id", "level.id"),
    Column("value", sa.Double, nullable=False),
    Column("uncertainty", sa.Double),
    Column("unit", String(40), nullable=False),
    Column("censoring", String(10), nullable=False),
    Column("n", Integer, nullable=False),
    Column("as_typed", Text),
    UniqueConstraint("evidence_id", "property_id", "level_id"),
    Index("ix_quantity_property_value", "property_id", "level_id", "value"),
)

artifact = Table(
    "artifact",
    metadata,
    id_column(),
    reference("evidence_id", "evidence.id", index=True),
    Column("name", String(200), nullable=False),
    Column("sha256", Key, nullable=False, index=True),
    Column("size", Id, nullable=False),
    Column("media_type", String(100), nullable=False),
)

decision = Table(
    "decision", metadata, id_column(), reference("campaign_id", "campaign.id"), reference("candidate_id", "candidate.id"),
    reference("rung_id", "rung.id", nullable=True), Column("action", String(20), nullable=False),
    Column("chooser", String(200), nullable=False), Column("why", Text), Column("law_version", String(64)),
    Column("watermark", Id, nullable=False), Column("price", Json), Column("index", sa.Float),
    Column("propensity", sa.Float, nullable=False), reference("evidence_id", "evidence.id", nullable=True), moment("at"),
    Index("ix_decision_campaign_candidate", "campaign_id", "candidate_id"),
    Index("ix_decision_campaign_action", "campaign_id", "action"), Index("ix_decision_rung_action", "rung_id", "action"),
)  # fmt: skip

# what a scheduler had learnt when it looked for hyper-parameters; with the evidence up to the watermark it is the law
law = Table(
    "law",
    metadata,
    id_column(),
    reference("campaign_id", "campaign.id"),
    Column("version", String(64), nullable=False),
    Column("watermark", Id, nullable=False),
    Column("state", Json, nullable=False),
    moment("at"),
    Index("ix_law_campaign", "campaign_id", "id"),
)

# people's directives to a campaign; written under the lock of the campaign's row, so that ids are in commit order
directive = Table(
    "directive",
    metadata,
    id_column(),
    reference("campaign_id", "campaign.id"),
    reference("candidate_id", "candidate.id", nullable=True),
    reference("rung_id", "rung.id", nullable=True),
    Column("verb", String(20), nullable=False),
    Column("payload", Json, nullable=False),
    Column("who", String(200), nullable=False),
    Column("why", Text, nullable=False),
    moment("at"),
    Index("ix_directive_campaign", "campaign_id", "id"),
    Index("ix_directive_candidate", "campaign_id", "candidate_id", "id"),
)

# a file that is gone on purpose: its artifact row stays, and this says who removed it, when and why
artifact_removal = Table(
    "artifact_removal",
    metadata,
    id_column(),
    Column("sha256", Key, nullable=False, index=True),
    Column("size", Id, nullable=False),
    Column("who", String(200), nullable=False),
    Column("why", Text, nullable=False),
    moment("at"),
)

current_evidence = sa.table("current_evidence", *(sa.column(c.name, c.type) for c in evidence.columns))
