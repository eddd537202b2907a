"""The tables of policies in use: evaluations, roles, and the policies of campaigns."""

from __future__ import annotations

from sqlalchemy import Index, UniqueConstraint

from sciagent.store.database.column_types import Json, Key, String, Text, UtcDateTime
from sciagent.store.database.table_parts import needed, reference, references, table

APPEND_ONLY = ("evaluation", "evaluation_arm", "policy_role", "campaign_policy")

# a complete evaluation, under the hash of what was asked and of its answer
evaluation = table(
    "evaluation",
    needed(Key, "hash", unique=True),
    needed(Json, "spec", "answer"),
    needed(String(200), "who"),
    needed(UtcDateTime, "at"),
)

# an arm of an evaluation that was a model
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
