"""The tables of the ledger. Times are UTC. Evidence, quantities, decisions and spend are append-only (triggers)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Integer, MetaData, Table, UniqueConstraint
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import Dialect

from sciagent.domain.text import storable

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

APPEND_ONLY = (
    "evidence",
    "quantity",
    "artifact",
    "decision",
    "spend",
    "cost_observation",
    "campaign_amendment",
    "directive",
    "artifact_removal",
    "law",
)
Id = sa.BigInteger().with_variant(Integer(), "sqlite")
_ENCODE = json.JSONEncoder(allow_nan=False).encode


class UtcDateTime(sa.types.TypeDecorator[datetime]):
    """A timezone-aware datetime in UTC; SQLite drops the zone, this puts it back."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        stored: datetime = value
        return stored.replace(tzinfo=UTC) if stored.tzinfo is None else stored.astimezone(UTC)


def storable_json(value: Any) -> Any:
    """The same value with storable texts; NaN and infinity, which JSON does not have, by name."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {storable(str(k)): storable_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [storable_json(v) for v in value]
    return value


class String(sa.types.TypeDecorator[str]):
    """Text that both databases take, at most `length` characters where a length is given."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class Text(String):
    """Text of any length that both databases take."""

    impl = sa.Text
    cache_ok = True


class WrittenJson(str):
    """JSON that is written already, without anything that `storable_json` would change."""


class Json(sa.types.TypeDecorator[Any]):
    """JSON that both databases take: JSONB in PostgreSQL."""

    impl = sa.JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> sa.types.TypeEngine[Any]:
        return dialect.type_descriptor(JSONB() if dialect.name == "postgresql" else sa.JSON())

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any] | None:
        """What can be stored as it is, nearly all, is written without looking at each part of it first."""
        carefully = super().bind_processor(dialect)
        if carefully is None:
            return None
        if dialect.name == "postgresql":
            return lambda value: str(value) if type(value) is WrittenJson else carefully(value)

        def process(value: Any) -> Any:
            if type(value) is WrittenJson:
                return str(value)
            if type(value) is dict and not value:
                return "{}"
            try:
                text = _ENCODE(value)
            except (TypeError, ValueError):  # a mapping that is no dict, NaN, infinity
                return carefully(value)
            return carefully(value) if value is None or "\\u0000" in text or "\\ud" in text else text

        return process

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return storable_json(value)


Key = String(64)


def _id() -> Column[int]:
    return Column("id", Id, primary_key=True, autoincrement=True)


def _ref(
    name: str, target: str, *, nullable: bool = False, index: bool = False, unique: bool | None = None
) -> Column[int]:
    return Column(name, Id, ForeignKey(target), nullable=nullable, index=index, unique=unique)


def _when(name: str, *, nullable: bool = False) -> Column[datetime]:
    return Column(name, UtcDateTime, nullable=nullable)


# one row; taken inside every evidence transaction, so that its order is the order of commits
watermark = Table("watermark", metadata, Column("id", Integer, primary_key=True), Column("value", Id, nullable=False))

property_ = Table(
    "property",
    metadata,
    _id(),
    Column("name", String(100), nullable=False, unique=True),
    Column("unit", String(40), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("description", Text, nullable=False),
)

level = Table(
    "level",
    metadata,
    _id(),
    Column("hash", Key, nullable=False, unique=True),
    Column("label", Text, nullable=False),
    Column("spec", Json, nullable=False),
)

candidate = Table(
    "candidate",
    metadata,
    _id(),
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
    _when("created_at"),
    Column("scaffold_hash", Key),  # None: not worked out yet, or no molecule
    Index("ix_candidate_scaffold_hash", "scaffold_hash", "id"),
)

candidate_alias = Table(
    "candidate_alias",
    metadata,
    _id(),
    _ref("candidate_id", "candidate.id", index=True),
    Column("notation", String(20), nullable=False),
    Column("text", Text, nullable=False),
    Column("text_hash", Key, nullable=False),
    UniqueConstraint("text_hash", "notation"),
)

campaign = Table(
    "campaign",
    metadata,
    _id(),
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
    _when("driver_until", nullable=True),
    Column("wall_seconds", sa.Float, nullable=False, default=0.0),
    _when("created_at"),
    _when("updated_at"),
    # a dispatcher shall drive it; it goes by this, not by who began it
    Column("hosted", sa.Boolean, nullable=False, server_default=sa.false()),
    Index("ix_campaign_hosted", "hosted", "state"),
)

campaign_amendment = Table(
    "campaign_amendment",
    metadata,
    _id(),
    _ref("campaign_id", "campaign.id", index=True),
    Column("path", String(200), nullable=False),
    Column("old", Json),
    Column("new", Json),
    Column("who", String(200), nullable=False),
    Column("why", Text, nullable=False),
    _when("at"),
)

rung = Table(
    "rung",
    metadata,
    _id(),
    _ref("campaign_id", "campaign.id"),
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
    _id(),
    _ref("campaign_id", "campaign.id"),
    Column("number", Integer, nullable=False),
    Column("proposer", String(100), nullable=False),
    Column("settings", Json, nullable=False),
    Column("seed", Id, nullable=False),
    Column("policy_version", String(200)),
    Column("state", String(20), nullable=False),
    _when("started_at"),
    _when("ended_at", nullable=True),
    UniqueConstraint("campaign_id", "number"),
)

turn = Table(
    "turn", metadata, _id(), _ref("trajectory_id", "trajectory.id"), Column("number", Integer, nullable=False),
    Column("cursor", Json), Column("calls", Json, nullable=False), Column("observations", Json, nullable=False),
    Column("prompt_ids", Json), Column("output_ids", Json), Column("logprobs", Json), Column("sampling", Json),
    Column("template_hash", Key), Column("policy_version", String(200)), Column("watermark", Id, nullable=False),
    Column("cost", Json, nullable=False), _when("at"), Column("message", Json), Column("forced", Json),
    Column("kept", Integer),  # of the tokens held, those that the prompt begins with; prompt_ids come after them
    UniqueConstraint("trajectory_id", "number"),
)  # fmt: skip

proposal = Table(
    "proposal",
    metadata,
    _id(),
    _ref("campaign_id", "campaign.id"),
    _ref("turn_id", "turn.id", nullable=True, index=True),
    Column("text", Text, nullable=False),
    _ref("candidate_id", "candidate.id", nullable=True, index=True),
    Column("status", String(20), nullable=False),
    Column("reason", String(60)),
    Column("detail", Text),
    Column("operation", String(100)),
    Column("rationale", Text),
    Column("predicted", Json),
    _when("at"),
    Column("novelty", Json),  # how new it was to the ledger when it was made
    Index("ix_proposal_campaign_status", "campaign_id", "status"),
)

candidate_parent = Table(
    "candidate_parent",
    metadata,
    _id(),
    _ref("candidate_id", "candidate.id", index=True),
    _ref("parent_id", "candidate.id", index=True),
    _ref("proposal_id", "proposal.id"),
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
    _ref("proposal_id", "proposal.id", nullable=True),
    _when("updated_at"),
    UniqueConstraint("campaign_id", "seq"),
    Index("ix_campaign_candidate_open", "campaign_id", "standing", "position", "seq"),
    Index("ix_campaign_candidate_places", "campaign_id", "position", "standing", "verdict", "hit_tier"),
)

_cc = campaign_candidate.c
Index("ix_campaign_candidate_score", _cc.campaign_id, _cc.standing, _cc.position, _cc.score.desc(), _cc.seq)
Index("ix_campaign_candidate_best", _cc.campaign_id, _cc.is_hit.desc(), _cc.depth.desc(), _cc.score.desc(), _cc.seq)
Index("ix_campaign_candidate_parents", _cc.campaign_id, _cc.score.desc(), _cc.seq)

job = Table(
    "job", metadata, _id(), _ref("campaign_id", "campaign.id"), _ref("rung_id", "rung.id"),
    _ref("candidate_id", "candidate.id"), Column("replicate", Integer, nullable=False, default=0),
    Column("evidence_key", Key, nullable=False), Column("state", String(20), nullable=False),
    Column("priority", sa.Float, nullable=False, default=0.0), Column("attempts", Integer, nullable=False, default=0),
    Column("kills", Integer, nullable=False, default=0), Column("fence", Integer, nullable=False, default=0),
    Column("lease_owner", String(200)), _when("lease_until", nullable=True),
    Column("cancel_requested", sa.Boolean, nullable=False, default=False), Column("outcome", String(20)),
    _when("created_at"), _when("updated_at"),
    UniqueConstraint("campaign_id", "rung_id", "candidate_id", "replicate"),
    # where workers find it; none: its own driver runs it. external: what an outside queue calls it, as "slurm 4711_3"
    Column("queue", String(60)), Column("external", String(100)),
    Column("seconds", sa.Float), Column("memory_mb", Integer),  # on the clock, as expected; the limit
    Column("losses", Integer, nullable=False, server_default="0"),  # attempts that vanished with their worker
    Column("needs", String(400)),  # what it holds while it runs, as "cores=4 gpu=1"; none: one core and nothing else
    Index("ix_job_campaign_state", "campaign_id", "state", "priority"), Index("ix_job_rung_state", "rung_id", "state"),
)  # fmt: skip


def _of_some(name: str, where: sa.ColumnElement[bool], *columns: Any) -> None:
    """An index that holds only rows of which something is true: nearly all are over, and none of those is asked for."""
    Index(name, *columns, sqlite_where=where, postgresql_where=where)


_job = job.c
_of_some("ix_job_lease", _job.lease_until.is_not(None), _job.state, _job.lease_until)
_of_some("ix_job_external", _job.external.is_not(None), _job.external)
_of_some(
    "ix_job_queue", _job.queue.is_not(None), _job.queue, _job.state, _job.campaign_id, _job.priority.desc(), _job.id
)
_of_some("ix_job_needs", _job.needs.is_not(None), _job.state, _job.queue, _job.needs)

# who works on queues; its name begins the owner of its leases
worker = Table(
    "worker", metadata, _id(), Column("name", String(200), nullable=False, unique=True),
    Column("host", String(200), nullable=False), Column("pid", Integer, nullable=False),
    Column("executor", String(20), nullable=False), Column("queues", Json, nullable=False),
    Column("slots", Integer, nullable=False), Column("memory_mb", Integer), _when("started_at"), _when("seen_at"),
    _when("until"), Column("draining", sa.Boolean, nullable=False, default=False), _when("stopped_at", nullable=True),
    # of all its slots together; cores: none where they are its slots; resources: {name: how many}, GPUs among them
    Column("cores", Integer), Column("resources", Json), Index("ix_worker_until", "until"),
)  # fmt: skip

attempt = Table(
    "attempt", metadata, _id(), _ref("campaign_id", "campaign.id", nullable=True), _ref("rung_id", "rung.id", nullable=True),
    _ref("job_id", "job.id", nullable=True, index=True),  # None: a batch of a fast rung, or `verify`
    Column("fence", Integer, nullable=False, default=0), Column("owner", String(200), nullable=False),
    Column("state", String(20), nullable=False), Column("outcome", String(20)), Column("reason", String(60)),
    Column("detail", Text), Column("n_candidates", Integer, nullable=False, default=1),
    Column("cost", Json, nullable=False), Column("wall_seconds", sa.Float), _when("started_at"),
    _when("heartbeat_at"), _when("ended_at", nullable=True), Index("ix_attempt_campaign_state", "campaign_id", "state"),
    Index("ix_attempt_rung_outcome", "rung_id", "outcome"),
    # what it holds until it ends, where its job needs more than a core: {name: how many}, of GPUs which
    Column("holds", Json),
)  # fmt: skip

_attempt = attempt.c
_of_some("ix_attempt_holds", sa.and_(_attempt.holds.is_not(None), _attempt.ended_at.is_(None)), _attempt.owner)

# how many may be in use at once by all workers together; how many are is counted among the attempts that run
licence = Table(
    "licence",
    metadata,
    Column("name", String(31), primary_key=True),
    Column("total", Integer, nullable=False),
    Column("who", String(200), nullable=False),
    _when("at"),
)

evidence = Table(
    "evidence", metadata, _id(), Column("key", Key, nullable=False, unique=True),
    _ref("candidate_id", "candidate.id"), _ref("proposal_id", "proposal.id", nullable=True),
    Column("verifier", String(100), nullable=False), Column("verifier_version", String(40), nullable=False),
    Column("settings_hash", Key, nullable=False), Column("inputs_hash", String(64), nullable=False),
    Column("replicate", Integer, nullable=False), Column("revision", Integer, nullable=False),
    _ref("supersedes_id", "evidence.id", nullable=True, unique=True), Column("outcome", String(20), nullable=False),
    Column("reason", String(60)), Column("detail", Text), Column("reusable", sa.Boolean, nullable=False),
    Column("diagnostics", Json, nullable=False), Column("versions", Json, nullable=False),
    Column("source", String(200), nullable=False), Column("who", String(200), nullable=False), Column("why", Text),
    _ref("attempt_id", "attempt.id", nullable=True, index=True), Column("watermark", Id, nullable=False, unique=True),
    _when("at"), Index("ix_evidence_lookup", "candidate_id", "verifier", "verifier_version", "settings_hash", "replicate"),
)  # fmt: skip

quantity = Table(
    "quantity",
    metadata,
    _id(),
    _ref("evidence_id", "evidence.id"),
    _ref("property_id", "property.id"),
    _ref("level_id", "level.id"),
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
    _id(),
    _ref("evidence_id", "evidence.id", index=True),
    Column("name", String(200), nullable=False),
    Column("sha256", Key, nullable=False, index=True),
    Column("size", Id, nullable=False),
    Column("media_type", String(100), nullable=False),
)

decision = Table(
    "decision", metadata, _id(), _ref("campaign_id", "campaign.id"), _ref("candidate_id", "candidate.id"),
    _ref("rung_id", "rung.id", nullable=True), Column("action", String(20), nullable=False),
    Column("chooser", String(200), nullable=False), Column("why", Text), Column("law_version", String(64)),
    Column("watermark", Id, nullable=False), Column("price", Json), Column("index", sa.Float),
    Column("propensity", sa.Float, nullable=False), _ref("evidence_id", "evidence.id", nullable=True), _when("at"),
    Index("ix_decision_campaign_candidate", "campaign_id", "candidate_id"),
    Index("ix_decision_campaign_action", "campaign_id", "action"), Index("ix_decision_rung_action", "rung_id", "action"),
)  # fmt: skip

# what a scheduler had learnt when it looked for hyper-parameters; with the evidence up to the watermark it is the law
law = Table(
    "law",
    metadata,
    _id(),
    _ref("campaign_id", "campaign.id"),
    Column("version", String(64), nullable=False),
    Column("watermark", Id, nullable=False),
    Column("state", Json, nullable=False),
    _when("at"),
    Index("ix_law_campaign", "campaign_id", "id"),
)

# what a person told a campaign to do; written under the lock of the campaign's row, so that ids come in commit order
directive = Table(
    "directive",
    metadata,
    _id(),
    _ref("campaign_id", "campaign.id"),
    _ref("candidate_id", "candidate.id", nullable=True),
    _ref("rung_id", "rung.id", nullable=True),
    Column("verb", String(20), nullable=False),
    Column("payload", Json, nullable=False),
    Column("who", String(200), nullable=False),
    Column("why", Text, nullable=False),
    _when("at"),
    Index("ix_directive_campaign", "campaign_id", "id"),
    Index("ix_directive_candidate", "campaign_id", "candidate_id", "id"),
)

# a file that is gone on purpose: its artifact row stays, and this says who removed it, when and why
artifact_removal = Table(
    "artifact_removal",
    metadata,
    _id(),
    Column("sha256", Key, nullable=False, index=True),
    Column("size", Id, nullable=False),
    Column("who", String(200), nullable=False),
    Column("why", Text, nullable=False),
    _when("at"),
)

reservation = Table(
    "reservation",
    metadata,
    _id(),
    _ref("campaign_id", "campaign.id"),
    _ref("job_id", "job.id", index=True),
    Column("resource", String(40), nullable=False),
    Column("amount", sa.Float, nullable=False),
    _when("at"),
    _when("released_at", nullable=True),
)

_of_some("ix_reservation_live", reservation.c.released_at.is_(None), reservation.c.campaign_id)

spend = Table(
    "spend",
    metadata,
    _id(),
    _ref("campaign_id", "campaign.id"),
    _ref("rung_id", "rung.id", nullable=True),
    _ref("attempt_id", "attempt.id", nullable=True),
    Column("resource", String(40), nullable=False),
    Column("amount", sa.Float, nullable=False),
    _when("at"),
    Index("ix_spend_campaign_rung", "campaign_id", "rung_id", "resource", "amount"),
)

cost_observation = Table(
    "cost_observation",
    metadata,
    _id(),
    Column("verifier", String(100), nullable=False),
    Column("verifier_version", String(40), nullable=False),
    Column("settings_hash", Key, nullable=False),
    _ref("candidate_id", "candidate.id"),
    _ref("attempt_id", "attempt.id"),
    Column("resource", String(40), nullable=False),
    Column("declared", sa.Float, nullable=False),
    Column("amount", sa.Float, nullable=False),
    _when("at"),
    Index("ix_cost_observation_rung", "verifier", "verifier_version", "settings_hash", "id"),
)

event = Table(
    "event",
    metadata,
    _id(),
    _ref("campaign_id", "campaign.id", nullable=True, index=True),
    Column("kind", String(40), nullable=False),
    Column("payload", Json, nullable=False),
    _when("at"),
)


current_evidence = sa.table("current_evidence", *(sa.column(c.name, c.type) for c in evidence.columns))
