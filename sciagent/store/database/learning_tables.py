"""The tables of learning: tool sets, policies, groups of rollouts, rewards, and what was used for training."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Index, Integer, UniqueConstraint

from sciagent.store.database.column_types import Id, Json, Key, String, Text, UtcDateTime
from sciagent.store.database.table_parts import needed, optional, reference, references, table

APPEND_ONLY = ("tool_set", "policy", "reward_spec", "reward_version", "reward", "training_use")
CHANGEABLE = {"rollout_group": ("state",)}

# the tools as they were offered in a turn, and all that restricted the answer
tool_set = table("tool_set", needed(Key, "hash", unique=True), needed(Json, "content"))

# a model under the hash of its weights; of a server's model whose weights are unknown, under that of address and name
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
    optional(Json, "guards"),  # statistics of each policy; None: published before there were guards
    optional(Key, "scope"),  # hash of the ids of the groups that it has the rewards of; None: of all episodes
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
