"""The tables of the ledger. Times are UTC.

The tables of learning, the laboratory and people are defined in `lab_learning_and_people_tables`, and can be imported
from here, too. A watermark is a number of the ledger's counter; it tells which rows were written before which others.
Triggers in the database guard the append-only tables, such as evidence, turn and spend.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import CheckConstraint, Column, Index, Integer, UniqueConstraint

from sciagent.store.database import lab_learning_and_people_tables
from sciagent.store.database.lab_learning_and_people_tables import (
    access,
    audit_entry,
    campaign_law,
    campaign_policy,
    evaluation,
    evaluation_arm,
    lab_task,
    law_entry,
    membership,
    person,
    policy,
    policy_role,
    reward,
    reward_spec,
    reward_version,
    rollout_group,
    sample,
    submission,
    tool_set,
    training_use,
    wrong_password,
)
from sciagent.store.database.table_building_blocks import (
    Id,
    Json,
    Key,
    String,
    Text,
    UtcDateTime,
    index_of_some,
    keyed,
    metadata,
    needed,
    optional,
    reference,
    references,
    table,
)

__all__ = [
    "APPEND_ONLY",
    "CHANGEABLE",
    "access",
    "audit_entry",
    "campaign_law",
    "campaign_policy",
    "evaluation",
    "evaluation_arm",
    "lab_task",
    "law_entry",
    "membership",
    "metadata",
    "person",
    "policy",
    "policy_role",
    "reward",
    "reward_spec",
    "reward_version",
    "rollout_group",
    "sample",
    "submission",
    "tool_set",
    "training_use",
    "wrong_password",
]
# the tables whose rows are never changed or deleted
APPEND_ONLY = (
    *("evidence", "quantity", "artifact", "decision", "spend", "cost_observation", "campaign_amendment", "directive"),
    *("artifact_removal", "law", "calibration", "likeness", "turn", "proposal"),
    *lab_learning_and_people_tables.APPEND_ONLY,
)
CHANGEABLE = {"trajectory": ("state", "ended_at", "ended_why")} | lab_learning_and_people_tables.CHANGEABLE
"""The columns that may change, by table; every other column of these tables stays as it was written."""

# Row 1 holds the last watermark, and row 2 the id of the last entry of `audit_entry`. A transaction that takes the next
# number locks the row until its commit, so that the numbers are in the order of commits.
watermark = keyed("watermark", Column("id", Integer, primary_key=True), needed(Id, "value"))

property_ = table(
    "property",
    needed(String(100), "name", unique=True),
    needed(String(40), "unit"),
    needed(String(20), "kind"),
    needed(Text, "description"),
)

level = table("level", needed(Key, "hash", unique=True), needed(Text, "label"), needed(Json, "spec"))

candidate = table(
    "candidate",
    needed(Key, "key", unique=True),
    needed(Text, "text", "identity", "formula"),
    Column("inchikey", String(27), index=True),
    needed(Integer, "charge", "multiplicity", "n_atoms"),
    needed(Json, "payload"),
    needed(String(20), "kind", "standardiser"),
    needed(String(60), "library"),
    needed(UtcDateTime, "created_at"),
    optional(Key, "scaffold_hash"),  # None: not computed yet; empty: no molecule
    Index("ix_candidate_scaffold_hash", "scaffold_hash", "id"),
)

# a molecule's text is a SMILES, found by its key; a hash index, since B-trees of PostgreSQL limit the length of a text
is_no_molecule = candidate.c.kind != sa.literal_column("'molecule'")
index_of_some("ix_candidate_text", is_no_molecule, candidate.c.text, postgresql_using="hash")
index_of_some("ix_candidate_formula", is_no_molecule, candidate.c.formula)

candidate_alias = table(
    "candidate_alias",
    references("candidate", index=True),
    needed(String(20), "notation"),
    needed(Text, "text"),
    needed(Key, "text_hash"),
    UniqueConstraint("text_hash", "notation"),
)

# names and remarks from the columns of an input file; campaign_id: None for names from a file with values;
# row_hash: of the texts of the row of the file, the same for all its columns
candidate_name = table(
    "candidate_name",
    references("candidate"),
    references("campaign", nullable=True),
    needed(String(16), "row_hash"),
    needed(String(60), "field"),
    needed(String(200), "text"),
    UniqueConstraint("candidate_id", "campaign_id", "row_hash", "field"),
    Index("ix_candidate_name_text", sa.text("lower(text)")),  # names are found without regard to capitals
)

campaign = table(
    "campaign",
    needed(String(64), "name", unique=True),
    needed(Json, "spec"),
    needed(Key, "spec_hash", "identity_hash"),
    needed(Text, "base", "source"),  # source: the YAML text of the spec
    needed(String(20), "state"),
    optional(Text, "stop_reason"),
    optional(String(200), "driver"),
    needed(Integer, "driver_fence", default=0),
    optional(UtcDateTime, "driver_until"),
    needed(sa.Float, "wall_seconds", default=0.0),
    needed(sa.Float, "driver_core_seconds", default=0.0),  # computing time of the drivers themselves; in no budget
    needed(UtcDateTime, "created_at", "updated_at"),
    # whether a dispatcher is to drive the campaign, whoever created it
    needed(sa.Boolean, "hosted", server_default=sa.false()),
    optional(UtcDateTime, "wakes_at"),  # of a waiting campaign: when a dispatcher looks at it without an answer
    Index("ix_campaign_hosted", "hosted", "state"),
)

campaign_amendment = table(
    "campaign_amendment",
    references("campaign", index=True),
    needed(String(200), "path", "who"),
    optional(Json, "old", "new"),
    needed(Text, "why"),
    needed(UtcDateTime, "at"),
)

rung = table(
    "rung",
    references("campaign"),
    needed(Integer, "position"),
    needed(String(64), "name"),
    needed(String(100), "verifier"),
    needed(String(40), "verifier_version"),
    needed(String(20), "tier"),
    needed(Json, "settings", "gate"),
    needed(Key, "settings_hash"),
    UniqueConstraint("campaign_id", "position"),
    UniqueConstraint("campaign_id", "name"),
    # for remote workers: settings with the paths of their files, and the present limits
    optional(Json, "request"),
    needed(sa.Boolean, "control", server_default=sa.false()),  # it decides nothing and is never rewarded
    needed(
        Json, "decides", server_default="{}"
    ),  # {property: phase of the values} of the objectives that no higher rung measures
)

trajectory = table(
    "trajectory",
    references("campaign"),
    needed(Integer, "number"),
    needed(String(100), "proposer"),
    needed(Json, "settings"),
    needed(Id, "seed"),
    optional(String(200), "policy_version"),
    needed(String(20), "state"),
    needed(UtcDateTime, "started_at"),
    optional(UtcDateTime, "ended_at"),
    optional(Text, "ended_why"),
    # what the turns are made for: campaign, rollout, evaluation or demonstration
    needed(String(20), "purpose", server_default="campaign"),
    reference("group_id", "rollout_group", nullable=True),
    optional(Integer, "sibling"),  # number in its group, from 0
    optional(String(100), "code_version"),
    UniqueConstraint("campaign_id", "number"),
)

index_of_some("ix_trajectory_group", trajectory.c.group_id.is_not(None), trajectory.c.group_id, trajectory.c.sibling)

turn = table("turn", references("trajectory"), needed(Integer, "number"),
    needed(Json, "calls", "observations", "cost"), optional(Json, "cursor", "message", "sampling"),
    optional(Json, "prompt_ids", "output_ids", "logprobs", "forced"), optional(Key, "template_hash"),
    optional(Integer, "kept"),  # number of earlier tokens with which the prompt begins; prompt_ids follow them
    optional(String(200), "policy_version"), needed(Id, "watermark"), needed(UtcDateTime, "at"),
    references("tool_set", "policy", nullable=True),
    optional(Id, "asked_watermark"), optional(UtcDateTime, "asked_at"),  # when the question was asked
    optional(Json, "behaviour"),  # log-probability of each output id in the distribution that it was drawn from
    optional(Text, "untrainable"),  # why no policy gradient may use the turn; None: it may be used
    UniqueConstraint("trajectory_id", "number"),
)  # fmt: skip

proposal = table(
    "proposal",
    references("campaign"),
    references("turn", "candidate", nullable=True, index=True),
    needed(String(20), "status"),
    optional(String(60), "reason"),
    optional(String(100), "operation"),
    needed(Text, "text"),
    optional(Text, "detail", "rationale"),
    # novelty in the ledger at the time of the proposal; filter_decision: as `FilterDecision.as_json` returns it
    optional(Json, "predicted", "novelty", "filter_decision"),
    needed(UtcDateTime, "at"),
    Index("ix_proposal_campaign_status", "campaign_id", "status"),
)

candidate_parent = table(
    "candidate_parent",
    references("candidate", index=True),
    reference("parent_id", "candidate", index=True),
    references("proposal"),
    optional(String(100), "operation"),
)

campaign_candidate = keyed(
    "campaign_candidate",
    references("campaign", "candidate", primary_key=True),
    needed(Integer, "seq"),
    needed(String(20), "standing"),
    needed(Integer, "position"),  # of the rung that the candidate waits for, runs at, or ended at
    needed(Integer, "depth", default=-1),  # position of the highest rung with an answer; -1: no rung has answered
    optional(String(20), "verdict", "hit_tier"),  # verdict: of the rung at `position`, once it is known
    optional(String(60), "reason"),
    optional(Text, "detail"),
    optional(sa.Float, "utility", "p_hit", "expected_utility", "margin"),  # the last three and the next two: `Worth`
    optional(Integer, "chance"),
    optional(String(10), "basis"),
    needed(sa.Boolean, "is_hit", "in_seeds", default=False),
    references("proposal", nullable=True),
    needed(UtcDateTime, "updated_at"),
    UniqueConstraint("campaign_id", "seq"),
    Index("ix_campaign_candidate_open", "campaign_id", "standing", "position", "seq"),
    Index("ix_campaign_candidate_places", "campaign_id", "position", "standing", "verdict", "hit_tier"),
)

_cc = campaign_candidate.c
# values below all others, so that both databases list candidates without a value last
_NO_CHANCE: sa.ColumnElement[Any] = sa.literal_column("-1")
LEAST_MARGIN = -1_000_000
_NO_MARGIN: sa.ColumnElement[Any] = sa.literal_column(str(LEAST_MARGIN))
BEST_FIRST = (
    sa.func.coalesce(_cc.chance, _NO_CHANCE).desc(),
    sa.func.coalesce(_cc.expected_utility, _NO_CHANCE).desc(),
    sa.func.coalesce(_cc.margin, _NO_MARGIN).desc(),
    _cc.seq,
)
"""The one order of a campaign's candidates: by the chance to be a hit, then by expected utility, then by margin.
Candidates without a worth come last, in order of arrival."""
Index("ix_campaign_candidate_best", _cc.campaign_id, *BEST_FIRST)
index_of_some("ix_campaign_candidate_hit", _cc.is_hit == sa.true(), _cc.campaign_id, _cc.candidate_id)
Index("ix_campaign_candidate_waiting", _cc.campaign_id, _cc.standing, _cc.position, *BEST_FIRST)

job = table("job", references("campaign", "rung", "candidate"), needed(Key, "evidence_key"),
    needed(String(20), "state"), optional(String(20), "outcome"), needed(sa.Float, "priority", default=0.0),
    needed(Integer, "replicate", "attempts", "kills", "fence", default=0),
    needed(Integer, "losses", server_default="0"),  # attempts that were lost with their worker
    optional(String(200), "lease_owner"), optional(UtcDateTime, "lease_until"),
    needed(sa.Boolean, "cancel_requested", default=False), needed(UtcDateTime, "created_at", "updated_at"),
    # queue: where workers find it; None: its driver runs it. external: name in a cluster's queue, as "slurm 4711_3"
    optional(String(60), "queue"), optional(String(100), "external"),
    optional(sa.Float, "seconds"), optional(Integer, "memory_mb"),  # expected wall time; memory limit
    optional(String(400), "needs"),  # resources that the job holds while it runs, as "cores=4 gpu=1"; None: one core
    UniqueConstraint("campaign_id", "rung_id", "candidate_id", "replicate"),
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
# memory, cores (None if equal to the slots) and resources are of all its slots together
worker = table("worker", needed(String(200), "name", unique=True), needed(String(200), "host"),
    needed(String(20), "executor"), needed(Integer, "pid", "slots"), needed(Json, "queues"),
    optional(Integer, "memory_mb", "cores"), optional(Json, "resources"),  # {name: amount}, including GPUs
    needed(UtcDateTime, "started_at", "seen_at", "until"), optional(UtcDateTime, "stopped_at"),
    needed(sa.Boolean, "draining", default=False), Index("ix_worker_until", "until"),
)  # fmt: skip

attempt = table("attempt", references("campaign", "rung", nullable=True),
    references("job", nullable=True, index=True),  # None: a batch of a fast rung, or `verify`
    needed(Integer, "fence", default=0), needed(Integer, "n_candidates", default=1), needed(String(200), "owner"),
    needed(String(20), "state"), optional(String(20), "outcome"), optional(String(60), "reason"),
    optional(Text, "detail"), needed(Json, "cost"), optional(sa.Float, "wall_seconds"),
    needed(UtcDateTime, "started_at", "heartbeat_at"), optional(UtcDateTime, "ended_at"),
    # holds: resources that the attempt holds until it ends, as {name: amount}, for GPUs their indices; None: one core
    optional(Json, "holds"), optional(Id, "watermark"),  # watermark: the one at which the attempt ended
    references("turn", nullable=True),  # of a fast rung that ran within a turn
    # of a lost attempt whose worker came back: its cost until then, and the watermark at which `cost` became larger
    optional(Json, "cost_at_loss"), optional(Id, "late_watermark"),
    optional(Integer, "together"),  # number of jobs in the call that ran it; None: it counts as 1
    # progress: the fields of `ReportedProgress`, as reported at `progress_at`; None: it reports none
    optional(Json, "progress"), optional(UtcDateTime, "progress_at"),
    Index("ix_attempt_campaign_state", "campaign_id", "state"),
    Index("ix_attempt_rung_outcome", "rung_id", "outcome"),
)  # fmt: skip

index_of_some("ix_attempt_progress", attempt.c.progress_at.is_not(None), attempt.c.progress_at)
index_of_some("ix_attempt_turn", attempt.c.turn_id.is_not(None), attempt.c.turn_id)

reservation = table(
    "reservation",
    references("campaign"),
    references("job", index=True),
    needed(String(40), "resource"),
    needed(sa.Float, "amount"),
    needed(UtcDateTime, "at"),
    optional(UtcDateTime, "released_at"),
)
index_of_some("ix_reservation_live", reservation.c.released_at.is_(None), reservation.c.campaign_id)

spend = table(
    "spend",
    references("campaign"),
    references("rung", "attempt", nullable=True),
    needed(String(40), "resource"),
    needed(sa.Float, "amount"),
    needed(UtcDateTime, "at"),
    Index("ix_spend_campaign_rung", "campaign_id", "rung_id", "resource", "amount"),
)

cost_observation = table(
    "cost_observation",
    needed(String(100), "verifier"),
    needed(String(40), "verifier_version", "resource"),
    needed(Key, "settings_hash"),
    references("candidate", "attempt"),
    needed(sa.Float, "declared", "amount"),
    needed(UtcDateTime, "at"),
    Index("ix_cost_observation_rung", "verifier", "verifier_version", "settings_hash", "id"),
)

event = table(
    "event",
    references("campaign", nullable=True, index=True),
    needed(String(40), "kind"),
    needed(Json, "payload"),
    needed(UtcDateTime, "at"),
)

evidence = table("evidence", needed(Key, "key", unique=True), references("candidate"),
    references("proposal", nullable=True), references("attempt", nullable=True, index=True),
    reference("supersedes_id", "evidence", nullable=True, unique=True),
    needed(String(100), "verifier"), needed(String(40), "verifier_version"), needed(Key, "settings_hash"),
    needed(String(64), "inputs_hash"), needed(Integer, "replicate", "revision"), needed(String(20), "outcome"),
    optional(String(60), "reason"), optional(Text, "detail", "why"), needed(sa.Boolean, "reusable"),
    needed(Json, "diagnostics", "versions"), optional(Json, "unobtained"), needed(String(200), "source", "who"),
    needed(Id, "watermark", unique=True), needed(UtcDateTime, "at"),
    optional(String(80), "seal"),  # of computed evidence, by a secret outside the database; None: people answer for it
    CheckConstraint("watermark > 0", name="watermark"),
    Index("ix_evidence_lookup", "candidate_id", "verifier", "verifier_version", "settings_hash", "replicate"),
)  # fmt: skip
index_of_some("ix_evidence_import", evidence.c.verifier == sa.literal_column("'import'"), evidence.c.candidate_id)

quantity = table(
    "quantity",
    references("evidence", "property", "level"),
    needed(sa.Double, "value"),
    optional(sa.Double, "uncertainty"),
    needed(String(40), "unit"),
    needed(String(10), "censoring"),
    needed(Integer, "n"),
    optional(Text, "as_typed"),
    UniqueConstraint("evidence_id", "property_id", "level_id"),
    Index("ix_quantity_property_value", "property_id", "level_id", "value"),
)

artifact = table(
    "artifact",
    references("evidence", index=True),
    needed(String(200), "name"),
    needed(Key, "sha256", index=True),
    needed(Id, "size"),
    needed(String(100), "media_type"),
)

decision = table("decision", references("campaign", "candidate"), references("rung", "evidence", nullable=True),
    needed(String(20), "action"), needed(String(200), "chooser"), optional(Text, "why"),
    optional(String(64), "law_version"), needed(Id, "watermark"), optional(Json, "price"),
    optional(sa.Float, "index"), needed(sa.Float, "propensity"), needed(UtcDateTime, "at"),
    Index("ix_decision_campaign_candidate", "campaign_id", "candidate_id"),
    Index("ix_decision_campaign_action", "campaign_id", "action"),
    Index("ix_decision_rung_action", "rung_id", "action"),
)  # fmt: skip

# a fit of hyper-parameters; together with the evidence up to the watermark it defines the law
law = table(
    "law",
    references("campaign"),
    needed(String(64), "version"),
    needed(Id, "watermark"),
    needed(Json, "state"),
    needed(UtcDateTime, "at"),
    needed(String(20), "purpose", server_default="scheduler"),  # scheduler or reward
    Index("ix_law_campaign", "campaign_id", "id"),
)

# fits of a rung's values of a property to measured values, in the canonical unit; the last fit counts
calibration = table(
    "calibration",
    references("campaign", "rung"),
    needed(String(100), "property"),
    needed(String(20), "kind"),
    needed(Text, "measured_level"),
    needed(Integer, "n"),
    needed(sa.Double, "slope", "intercept", "mean_absolute_error", "root_mean_square_error", "error_without"),
    needed(sa.Boolean, "is_used", server_default=sa.true()),
    needed(sa.Double, "center", "squared_deviations"),  # of the computed values
    needed(String(10), "charges"),  # class of charge of the molecules: neutral, ion or any
    needed(Id, "watermark"),
    needed(UtcDateTime, "at"),
    Index("ix_calibration_campaign", "campaign_id", "id"),
)

# a candidate that relaxed to the same structure as another one, which the rung had answered before, or that lies above
# another one with the same formula by more than the limit
likeness = table(
    "likeness",
    references("campaign", "candidate"),
    reference("of_id", "candidate"),  # the other candidate
    references("rung", "evidence"),
    reference("of_evidence_id", "evidence"),  # the other candidate's answer of the same rung
    optional(sa.Double, "distance"),  # largest distance between the two positions of an atom, angstrom; none: an excess
    optional(sa.Double, "excess"),  # formation energy above that of the other candidate, eV/atom; none: one structure
    needed(Id, "watermark"),
    needed(UtcDateTime, "at"),
    UniqueConstraint("campaign_id", "candidate_id"),
)

# people's directives to a campaign; written under the lock of the campaign's row, so that ids are in commit order
directive = table(
    "directive",
    references("campaign"),
    references("candidate", "rung", nullable=True),
    needed(String(20), "verb"),
    needed(Json, "payload"),
    needed(String(200), "who"),
    needed(Text, "why"),
    needed(UtcDateTime, "at"),
    Index("ix_directive_campaign", "campaign_id", "id"),
    Index("ix_directive_candidate", "campaign_id", "candidate_id", "id"),
)

# a file that a person removed: its artifact row stays, and this row records who removed it, when and why
artifact_removal = table(
    "artifact_removal",
    needed(Key, "sha256", index=True),
    needed(Id, "size"),
    needed(String(200), "who"),
    needed(Text, "why"),
    needed(UtcDateTime, "at"),
)

current_evidence = sa.table("current_evidence", *(sa.column(c.name, c.type) for c in evidence.columns))
