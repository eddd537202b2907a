"""The tables of the ledger. Times are UTC. Evidence, quantities, decisions and spend are append-only (triggers)."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Integer, Table, UniqueConstraint

from sciagent.store.database.column_types import Id, Json, Key, String, Text
from sciagent.store.database.schema import APPEND_ONLY as APPEND_ONLY
from sciagent.store.database.schema import index_of_some, moment, needed, reference, table
from sciagent.store.database.schema import metadata as metadata

# a single row, locked in every evidence transaction, so that its numbers are in the order of commits
watermark = Table("watermark", metadata, Column("id", Integer, primary_key=True), needed("value", Id))

property_ = table(
    "property",
    needed("name", String(100), unique=True),
    needed("unit", String(40)),
    needed("kind", String(20)),
    needed("description", Text),
)

level = table("level", needed("hash", Key, unique=True), needed("label", Text), needed("spec", Json))

candidate = table(
    "candidate",
    needed("key", Key, unique=True),
    needed("kind", String(20)),
    needed("text", Text),
    needed("identity", Text),
    Column("inchikey", String(27), index=True),
    needed("formula", Text),
    needed("charge", Integer),
    needed("multiplicity", Integer),
    needed("n_atoms", Integer),
    needed("payload", Json),
    needed("standardiser", String(20)),
    needed("library", String(60)),
    moment("created_at"),
    Column("scaffold_hash", Key),  # None: not computed yet; empty: no molecule
    Index("ix_candidate_scaffold_hash", "scaffold_hash", "id"),
)

candidate_alias = table(
    "candidate_alias",
    reference("candidate_id", "candidate.id", index=True),
    needed("notation", String(20)),
    needed("text", Text),
    needed("text_hash", Key),
    UniqueConstraint("text_hash", "notation"),
)

# names and remarks from the columns of an input file; campaign_id: None for names from an import of values
candidate_name = table(
    "candidate_name",
    reference("candidate_id", "candidate.id"),
    reference("campaign_id", "campaign.id", nullable=True),
    needed("field", String(60)),
    needed("text", String(200)),
    UniqueConstraint("candidate_id", "campaign_id", "field", "text"),
    Index("ix_candidate_name_text", "text"),
)

campaign = table(
    "campaign",
    needed("name", String(64), unique=True),
    needed("spec", Json),
    needed("spec_hash", Key),
    needed("identity_hash", Key),
    needed("base", Text),
    needed("source", Text),  # the YAML text of the spec
    needed("state", String(20)),
    Column("stop_reason", Text),
    Column("driver", String(200)),
    needed("driver_fence", Integer, default=0),
    moment("driver_until", nullable=True),
    needed("wall_seconds", sa.Float, default=0.0),
    moment("created_at"),
    moment("updated_at"),
    # whether a dispatcher is to drive the campaign, whoever created it
    needed("hosted", sa.Boolean, server_default=sa.false()),
    Index("ix_campaign_hosted", "hosted", "state"),
)

campaign_amendment = table(
    "campaign_amendment",
    reference("campaign_id", "campaign.id", index=True),
    needed("path", String(200)),
    Column("old", Json),
    Column("new", Json),
    needed("who", String(200)),
    needed("why", Text),
    moment("at"),
)

rung = table(
    "rung",
    reference("campaign_id", "campaign.id"),
    needed("position", Integer),
    needed("name", String(64)),
    needed("verifier", String(100)),
    needed("verifier_version", String(40)),
    needed("tier", String(20)),
    needed("settings", Json),
    needed("settings_hash", Key),
    needed("gate", Json),
    UniqueConstraint("campaign_id", "position"),
    UniqueConstraint("campaign_id", "name"),
    # for remote workers: settings with the paths of their files, and the present limits
    Column("request", Json),
)

trajectory = table(
    "trajectory",
    reference("campaign_id", "campaign.id"),
    needed("number", Integer),
    needed("proposer", String(100)),
    needed("settings", Json),
    needed("seed", Id),
    Column("policy_version", String(200)),
    needed("state", String(20)),
    moment("started_at"),
    moment("ended_at", nullable=True),
    UniqueConstraint("campaign_id", "number"),
)

turn = table("turn", reference("trajectory_id", "trajectory.id"), needed("number", Integer),
    Column("cursor", Json), needed("calls", Json), needed("observations", Json),
    Column("prompt_ids", Json), Column("output_ids", Json), Column("logprobs", Json), Column("sampling", Json),
    Column("template_hash", Key), Column("policy_version", String(200)), needed("watermark", Id),
    needed("cost", Json), moment("at"), Column("message", Json), Column("forced", Json),
    Column("kept", Integer),  # number of earlier tokens with which the prompt begins; prompt_ids follow them
    UniqueConstraint("trajectory_id", "number"),
)  # fmt: skip

proposal = table(
    "proposal",
    reference("campaign_id", "campaign.id"),
    reference("turn_id", "turn.id", nullable=True, index=True),
    needed("text", Text),
    reference("candidate_id", "candidate.id", nullable=True, index=True),
    needed("status", String(20)),
    Column("reason", String(60)),
    Column("detail", Text),
    Column("operation", String(100)),
    Column("rationale", Text),
    Column("predicted", Json),
    moment("at"),
    Column("novelty", Json),  # novelty in the ledger at the time of the proposal
    Index("ix_proposal_campaign_status", "campaign_id", "status"),
)

candidate_parent = table(
    "candidate_parent",
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
    needed("seq", Integer),
    needed("standing", String(20)),
    needed("position", Integer),  # the rung it waits for, runs at, or ended at
    needed("depth", Integer, default=-1),  # highest rung with an answer
    Column("verdict", String(20)),  # of the rung at `position`, once it is known
    Column("reason", String(60)),
    Column("detail", Text),
    Column("score", sa.Float),
    Column("utility", sa.Float),
    Column("hit_tier", String(20)),
    needed("is_hit", sa.Boolean, default=False),
    needed("in_seeds", sa.Boolean, default=False),
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

job = table("job", reference("campaign_id", "campaign.id"), reference("rung_id", "rung.id"),
    reference("candidate_id", "candidate.id"), needed("replicate", Integer, default=0),
    needed("evidence_key", Key), needed("state", String(20)),
    needed("priority", sa.Float, default=0.0), needed("attempts", Integer, default=0),
    needed("kills", Integer, default=0), needed("fence", Integer, default=0),
    Column("lease_owner", String(200)), moment("lease_until", nullable=True),
    needed("cancel_requested", sa.Boolean, default=False), Column("outcome", String(20)),
    moment("created_at"), moment("updated_at"),
    UniqueConstraint("campaign_id", "rung_id", "candidate_id", "replicate"),
    # queue: where workers find it; None: its driver runs it. external: name in a cluster's queue, as "slurm 4711_3"
    Column("queue", String(60)), Column("external", String(100)),
    Column("seconds", sa.Float), Column("memory_mb", Integer),  # expected wall time; memory limit
    needed("losses", Integer, server_default="0"),  # attempts that were lost with their worker
    Column("needs", String(400)),  # resources that it holds while it runs, as "cores=4 gpu=1"; None: one core
    Index("ix_job_campaign_state", "campaign_id", "state", "priority"), Index("ix_job_rung_state", "rung_id", "state"),
)  # fmt: skip


_job = job.c
index_of_some("ix_job_lease", _job.lease_until.is_not(None), _job.state, _job.lease_until)
index_of_some("ix_job_external", _job.external.is_not(None), _job.external)
index_of_some(
    "ix_job_queue", _job.queue.is_not(None), _job.queue, _job.state, _job.campaign_id, _job.priority.desc(), _job.id
)
index_of_some("ix_job_needs", _job.needs.is_not(None), _job.state, _job.queue, _job.needs)

# the owner of a worker's leases begins with the worker's name
worker = table("worker", needed("name", String(200), unique=True),
    needed("host", String(200)), needed("pid", Integer),
    needed("executor", String(20)), needed("queues", Json),
    needed("slots", Integer), Column("memory_mb", Integer), moment("started_at"), moment("seen_at"),
    moment("until"), needed("draining", sa.Boolean, default=False), moment("stopped_at", nullable=True),
    # of all its slots together; cores: None if equal to the slots; resources: {name: amount}, including GPUs
    Column("cores", Integer), Column("resources", Json), Index("ix_worker_until", "until"),
)  # fmt: skip

attempt = table("attempt", reference("campaign_id", "campaign.id", nullable=True), reference("rung_id", "rung.id", nullable=True),
    reference("job_id", "job.id", nullable=True, index=True),  # None: a batch of a fast rung, or `verify`
    needed("fence", Integer, default=0), needed("owner", String(200)),
    needed("state", String(20)), Column("outcome", String(20)), Column("reason", String(60)),
    Column("detail", Text), needed("n_candidates", Integer, default=1),
    needed("cost", Json), Column("wall_seconds", sa.Float), moment("started_at"),
    moment("heartbeat_at"), moment("ended_at", nullable=True), Index("ix_attempt_campaign_state", "campaign_id", "state"),
    Index("ix_attempt_rung_outcome", "rung_id", "outcome"),
    # resources that it holds until it ends, if more than one core: {name: amount}, for GPUs their indices
    Column("holds", Json),
)  # fmt: skip

reservation = table(
    "reservation",
    reference("campaign_id", "campaign.id"),
    reference("job_id", "job.id", index=True),
    needed("resource", String(40)),
    needed("amount", sa.Float),
    moment("at"),
    moment("released_at", nullable=True),
)

index_of_some("ix_reservation_live", reservation.c.released_at.is_(None), reservation.c.campaign_id)

spend = table(
    "spend",
    reference("campaign_id", "campaign.id"),
    reference("rung_id", "rung.id", nullable=True),
    reference("attempt_id", "attempt.id", nullable=True),
    needed("resource", String(40)),
    needed("amount", sa.Float),
    moment("at"),
    Index("ix_spend_campaign_rung", "campaign_id", "rung_id", "resource", "amount"),
)

cost_observation = table(
    "cost_observation",
    needed("verifier", String(100)),
    needed("verifier_version", String(40)),
    needed("settings_hash", Key),
    reference("candidate_id", "candidate.id"),
    reference("attempt_id", "attempt.id"),
    needed("resource", String(40)),
    needed("declared", sa.Float),
    needed("amount", sa.Float),
    moment("at"),
    Index("ix_cost_observation_rung", "verifier", "verifier_version", "settings_hash", "id"),
)

event = table(
    "event",
    reference("campaign_id", "campaign.id", nullable=True, index=True),
    needed("kind", String(40)),
    needed("payload", Json),
    moment("at"),
)

evidence = table("evidence", needed("key", Key, unique=True),
    reference("candidate_id", "candidate.id"), reference("proposal_id", "proposal.id", nullable=True),
    needed("verifier", String(100)), needed("verifier_version", String(40)),
    needed("settings_hash", Key), needed("inputs_hash", String(64)),
    needed("replicate", Integer), needed("revision", Integer),
    reference("supersedes_id", "evidence.id", nullable=True, unique=True), needed("outcome", String(20)),
    Column("reason", String(60)), Column("detail", Text), needed("reusable", sa.Boolean),
    needed("diagnostics", Json), needed("versions", Json),
    needed("source", String(200)), needed("who", String(200)), Column("why", Text),
    reference("attempt_id", "attempt.id", nullable=True, index=True), needed("watermark", Id, unique=True),
    moment("at"), Index("ix_evidence_lookup", "candidate_id", "verifier", "verifier_version", "settings_hash", "replicate"),
)  # fmt: skip

quantity = table(
    "quantity",
    reference("evidence_id", "evidence.id"),
    reference("property_id", "property.id"),
    reference("level_id", "level.id"),
    needed("value", sa.Double),
    Column("uncertainty", sa.Double),
    needed("unit", String(40)),
    needed("censoring", String(10)),
    needed("n", Integer),
    Column("as_typed", Text),
    UniqueConstraint("evidence_id", "property_id", "level_id"),
    Index("ix_quantity_property_value", "property_id", "level_id", "value"),
)

artifact = table(
    "artifact",
    reference("evidence_id", "evidence.id", index=True),
    needed("name", String(200)),
    needed("sha256", Key, index=True),
    needed("size", Id),
    needed("media_type", String(100)),
)

decision = table("decision", reference("campaign_id", "campaign.id"), reference("candidate_id", "candidate.id"),
    reference("rung_id", "rung.id", nullable=True), needed("action", String(20)),
    needed("chooser", String(200)), Column("why", Text), Column("law_version", String(64)),
    needed("watermark", Id), Column("price", Json), Column("index", sa.Float),
    needed("propensity", sa.Float), reference("evidence_id", "evidence.id", nullable=True), moment("at"),
    Index("ix_decision_campaign_candidate", "campaign_id", "candidate_id"),
    Index("ix_decision_campaign_action", "campaign_id", "action"), Index("ix_decision_rung_action", "rung_id", "action"),
)  # fmt: skip

# a fit of a scheduler's hyper-parameters; together with the evidence up to the watermark it defines the law
law = table(
    "law",
    reference("campaign_id", "campaign.id"),
    needed("version", String(64)),
    needed("watermark", Id),
    needed("state", Json),
    moment("at"),
    Index("ix_law_campaign", "campaign_id", "id"),
)

# people's directives to a campaign; written under the lock of the campaign's row, so that ids are in commit order
directive = table(
    "directive",
    reference("campaign_id", "campaign.id"),
    reference("candidate_id", "candidate.id", nullable=True),
    reference("rung_id", "rung.id", nullable=True),
    needed("verb", String(20)),
    needed("payload", Json),
    needed("who", String(200)),
    needed("why", Text),
    moment("at"),
    Index("ix_directive_campaign", "campaign_id", "id"),
    Index("ix_directive_candidate", "campaign_id", "candidate_id", "id"),
)

# a file that a person removed: its artifact row stays, and this row records who removed it, when and why
artifact_removal = table(
    "artifact_removal",
    needed("sha256", Key, index=True),
    needed("size", Id),
    needed("who", String(200)),
    needed("why", Text),
    moment("at"),
)

current_evidence = sa.table("current_evidence", *(sa.column(c.name, c.type) for c in evidence.columns))
