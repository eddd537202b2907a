"""Tables of learning, policies, the laboratory and people."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Integer, UniqueConstraint

from sciagent.store.database.table_building_blocks import (
    Id,
    Json,
    Key,
    String,
    Text,
    UtcDateTime,
    index_of_some,
    keyed,
    needed,
    optional,
    reference,
    references,
    table,
)

APPEND_ONLY = (
    "tool_set",
    "policy",
    "reward_spec",
    "reward_version",
    "reward",
    "training_use",
    "evaluation",
    "evaluation_arm",
    "policy_role",
    "campaign_policy",
    "campaign_law",
    "submission",
    "audit_entry",
)
CHANGEABLE = {"rollout_group": ("state",)}

# the tools as they were offered in a turn, and all that restricted the answer
tool_set = table("tool_set", needed(Key, "hash", unique=True), needed(Json, "content"))

# a model under the hash of its weights, or of its address and name if a server has it and the weights are unknown
policy = table(
    "policy",
    needed(Key, "hash", unique=True),
    needed(String(200), "name"),
    optional(Key, "base_sha256", "adapter_sha256"),
    reference("parent_id", "policy", nullable=True),
    optional(Json, "recipe"),
    needed(Text, "source"),
    needed(UtcDateTime, "at"),
)

# episodes of one task that begin with one opening and see one frozen snapshot of the ledger
rollout_group = table(
    "rollout_group",
    references("campaign"),
    needed(Integer, "number"),
    needed(Json, "task", "snapshot"),
    needed(Id, "snapshot_watermark"),
    needed(Integer, "snapshot_seq"),  # candidates of the campaign with a lower `seq` are in the snapshot
    needed(Json, "opening"),
    needed(Key, "opening_hash"),
    references("tool_set", "policy", nullable=True),
    needed(Id, "seed"),
    needed(Integer, "size"),
    needed(String(20), "purpose"),
    needed(String(100), "code_version"),
    needed(String(20), "state"),  # open, complete or broken
    needed(UtcDateTime, "at"),
    UniqueConstraint("campaign_id", "number"),
)

reward_spec = table("reward_spec", needed(Key, "hash", unique=True), needed(Json, "spec"))

# rewards of the episodes of a campaign as of a watermark; laws: ids of rows of `law`
reward_version = table(
    "reward_version",
    references("campaign"),
    needed(Integer, "number"),
    references("reward_spec"),
    needed(Id, "watermark"),
    needed(Json, "laws", "prices"),
    reference("previous_id", "reward_version", nullable=True),
    needed(String(100), "code_version"),
    needed(UtcDateTime, "at"),
    needed(Json, "guards"),  # statistics of each policy
    optional(Key, "scope"),  # hash of the ids of the groups whose rewards it has; None: it has those of all episodes
    UniqueConstraint("campaign_id", "number"),
    Index("ix_reward_version_scope", "campaign_id", "scope"),
)

# turn_id NULL: the outcome of the whole episode; value, return and advantage NULL: undecided
reward = table(
    "reward",
    references("reward_version", "trajectory"),
    references("turn", nullable=True),
    optional(sa.Double, "value", "return", "advantage"),
    needed(Json, "terms", "candidates"),
    UniqueConstraint("reward_version_id", "trajectory_id", "turn_id"),
    Index("ix_reward_trajectory", "trajectory_id"),
)

# a turn that a policy was trained on, with the rewards of one version
training_use = table(
    "training_use",
    references("policy", "reward_version", "turn"),
    needed(UtcDateTime, "at"),
    UniqueConstraint("policy_id", "reward_version_id", "turn_id"),
    Index("ix_training_use_turn", "turn_id"),
)

# a complete evaluation, under the hash of what was asked and of its answer
evaluation = table(
    "evaluation",
    needed(Key, "hash", unique=True),
    needed(Json, "spec", "answer"),
    needed(String(200), "who"),
    needed(UtcDateTime, "at"),
)

# an arm of an evaluation; arms that are no models have no row
evaluation_arm = table(
    "evaluation_arm",
    references("evaluation"),
    needed(String(64), "name"),
    references("policy"),
    UniqueConstraint("evaluation_id", "name"),
    Index("ix_evaluation_arm_policy", "policy_id"),
)

# the policy that a role points to from then on; undoes_id: the row that a rollback takes back
policy_role = table(
    "policy_role",
    needed(String(64), "role"),
    references("policy"),
    reference("undoes_id", "policy_role", nullable=True),
    references("evaluation", nullable=True),
    needed(String(200), "who"),
    needed(Text, "why"),
    needed(UtcDateTime, "at"),
    Index("ix_policy_role_role", "role", "id"),
)

# the policy of a proposer that names a role, as it was when the campaign started
campaign_policy = table(
    "campaign_policy",
    references("campaign"),
    needed(String(64), "proposer"),  # name of the proposer; empty if it is the only one
    references("policy"),
    needed(String(200), "named"),  # what the campaign file says
    needed(UtcDateTime, "at"),
    UniqueConstraint("campaign_id", "proposer"),
)

# a law of structures under a name, and the hash of what it was fitted to; versions of a name follow each other
law_entry = table(
    "law_entry",
    needed(String(64), "name"),
    needed(Key, "hash"),
    needed(String(20), "kind"),  # of the candidates
    optional(Key, "parent_hash"),  # of the version before, which may have been removed
    needed(Json, "summary"),
    needed(Text, "content"),
    needed(String(200), "who"),
    needed(UtcDateTime, "at"),
    UniqueConstraint("name", "hash"),
)

# the version of a law entry that a campaign uses
campaign_law = table(
    "campaign_law",
    references("campaign"),
    needed(String(140), "named"),  # what the campaign file says
    references("law_entry"),
    UniqueConstraint("campaign_id", "named"),
    Index("ix_campaign_law_law_entry_id", "law_entry_id"),
)

# a vial: some amount of a candidate in one form, from one batch
sample = table(
    "sample",
    needed(String(16), "code", unique=True),
    references("candidate", index=True),
    references("job"),  # the task for which it was registered
    reference("parent_id", "sample", nullable=True),  # the sample that it was taken from
    needed(String(200), "form"),  # "free base", "HCl, 1 H2O"
    needed(String(20), "source"),  # made, bought or given
    optional(String(100), "lot"),
    optional(sa.Double, "amount"),
    optional(String(20), "amount_unit"),
    optional(sa.Double, "purity"),  # mass fraction, 0 to 1
    optional(String(200), "purity_how", "made_by", "place"),
    optional(sa.Date, "made_on"),
    needed(String(20), "state"),  # ok, empty or bad
    needed(String(200), "who"),
    needed(UtcDateTime, "created_at"),
)

# what only the jobs of people have; version: grows with each change, so that two people notice each other's changes
lab_task = keyed(
    "lab_task",
    Column("job_id", Id, ForeignKey("job.id"), primary_key=True, autoincrement=False),
    needed(Integer, "version", default=0),
    optional(String(60), "plate"),
    optional(String(10), "well"),
    optional(UtcDateTime, "due_at", "approved_at"),
    reference("assigned_to", "person", nullable=True),
    optional(String(200), "approved_by"),
    references("sample", nullable=True),
    reference("in_review_id", "submission", nullable=True),  # the answer that waits for a second person
    reference("sent_back_id", "submission", nullable=True),  # the act that sent the last answer back
    optional(Text, "open_quantities"),  # names that the recorded answer leaves open, with spaces between them
    optional(Text, "note"),
    Index("ix_lab_task_sample", "sample_id"),
    Index("ix_lab_task_due", "due_at"),
)
_in_review = lab_task.c.in_review_id.is_not(None)
index_of_some("ix_lab_task_in_review", _in_review, lab_task.c.in_review_id)
_sent_back = lab_task.c.sent_back_id.is_not(None)
index_of_some("ix_lab_task_sent_back", _sent_back, lab_task.c.sent_back_id)

# the original record of what a person entered; evidence is made from it
submission = table(
    "submission",
    needed(String(64), "key", unique=True),  # made by the sender, so that a second sending writes nothing
    references("job"),
    needed(Integer, "fence", "revision"),
    needed(String(20), "kind"),  # result, not_obtained, returned, reviewed or sent_back
    reference("of_id", "submission", nullable=True),  # what it corrects or reviews
    references("person", "access", "sample", nullable=True),
    needed(String(200), "who"),
    needed(Json, "said", "files"),
    optional(Text, "why"),
    references("evidence", nullable=True),
    needed(UtcDateTime, "at"),
    Index("ix_submission_job", "job_id", "id"),
)

# an account; it is disabled, never deleted, since what the person wrote names it
person = table(
    "person",
    needed(String(64), "login", unique=True),
    needed(String(200), "name"),
    optional(String(320), "email"),
    optional(Text, "password_hash"),  # None: invited, and no password was chosen yet
    optional(Text, "pin_hash"),  # None: the sessions of the person are never locked
    needed(sa.Boolean, "is_admin", default=False),
    optional(UtcDateTime, "disabled_at"),
    needed(UtcDateTime, "created_at"),
)

# wrong passwords of late, counted by address, by login and by both; a row is deleted when it is old
wrong_password = table(
    "wrong_password",
    needed(Key, "subject", unique=True),  # hash of what is counted, such as a login, which need not exist
    needed(Integer, "number"),
    needed(UtcDateTime, "last_at"),
    Index("ix_wrong_password_last_at", "last_at"),
)

# a person's role in a campaign; without a campaign: in all of them
membership = table(
    "membership",
    references("person"),
    references("campaign", nullable=True),
    needed(String(20), "role"),  # viewer, lab or chemist
    UniqueConstraint("person_id", "campaign_id"),
)
_everywhere = membership.c.campaign_id.is_(None)
Index(
    "ix_membership_everywhere",
    membership.c.person_id,
    unique=True,
    sqlite_where=_everywhere,
    postgresql_where=_everywhere,
)

# a session of a browser, a token of an instrument, or a link to choose a password; only the hash of its secret is kept
access = table(
    "access",
    references("person", index=True),
    needed(String(20), "kind"),  # session, token, invite or reset
    needed(Key, "secret_hash", unique=True),
    optional(Key, "csrf"),
    needed(String(200), "label"),
    needed(Json, "scopes"),
    references("campaign", nullable=True),  # the only campaign of a token
    optional(String(64), "address"),
    needed(UtcDateTime, "created_at", "expires_at"),
    optional(UtcDateTime, "seen_at", "revoked_at"),
    optional(UtcDateTime, "locked_at"),  # a locked session needs the PIN
    needed(Integer, "wrong_pins", default=0),  # since the last right one
    Index("ix_access_expires", "expires_at"),
)

# an act of a person; each entry has the hash of the one before it, so that a changed entry is found
audit_entry = table(
    "audit_entry",
    needed(UtcDateTime, "at"),
    references("person", "access", nullable=True),
    needed(String(200), "who"),
    needed(String(40), "what", "object"),
    optional(Id, "object_id"),
    references("campaign", nullable=True),
    needed(Json, "payload"),
    needed(Key, "previous_hash"),
    needed(Key, "hash", unique=True),
    CheckConstraint("id > 0", name="id"),
    Index("ix_audit_entry_campaign", "campaign_id", "id"),
    Index("ix_audit_entry_object", "object", "object_id", "id"),
)
