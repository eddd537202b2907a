"""Spend: what attempts cost, and what verifications cost against what their verifiers declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.store.database import tables as t
from sciagent.store.database.bulk import by_resource, execute_many
from sciagent.store.database.clock import db_now


class Bill(NamedTuple):
    """What an attempt cost."""

    campaign_id: int
    rung_id: int | None
    attempt_id: int | None
    cost: Mapping[str, float]


def book_many(connection: Connection, bills: Sequence[Bill]) -> None:
    """Book what attempts cost; lost attempts are booked like others."""
    rows = [
        row
        for bill in bills
        for row in by_resource(
            bill.cost, campaign_id=bill.campaign_id, rung_id=bill.rung_id, attempt_id=bill.attempt_id
        )
        if row["amount"]
    ]
    execute_many(connection, t.spend, rows, {"at": db_now(connection)})


class CostSeen(NamedTuple):
    """What a verification cost against what its verifier declared."""

    verifier: str
    version: str
    settings_hash: str
    candidate_id: int
    attempt_id: int
    declared: Mapping[str, float]
    actual: Mapping[str, float]


def observe_costs(connection: Connection, seen: Sequence[CostSeen]) -> None:
    rows = [
        {
            "verifier": observed.verifier,
            "verifier_version": observed.version,
            "settings_hash": observed.settings_hash,
            "candidate_id": observed.candidate_id,
            "attempt_id": observed.attempt_id,
            "resource": resource,
            "amount": amount,
            "declared": observed.declared.get(resource, 0.0),
        }
        for observed in seen
        for resource, amount in observed.actual.items()
    ]
    execute_many(connection, t.cost_observation, rows, {"at": db_now(connection)})


def cost_ratios(
    connection: Connection, verifier: str, version: str, settings_hash: str, last: int = 200
) -> list[float]:
    """Observed over declared core-seconds of the last verifications with these settings."""
    c = t.cost_observation.c
    query = (
        sa.select(c.amount, c.declared)
        .where(
            c.verifier == verifier,
            c.verifier_version == version,
            c.settings_hash == settings_hash,
            c.resource == "core_seconds",
        )
        .order_by(c.id.desc())
        .limit(last)
    )
    return [amount / declared for amount, declared in connection.execute(query) if declared > 0]
