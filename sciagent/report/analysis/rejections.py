"""Rejected candidates and proposals with their reasons, safety blocks, directives and driver sessions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.report.parts.wording import words
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.views import report_queries

EXAMPLE = 160  # characters of a text that somebody handed in


@dataclass(frozen=True)
class Rejection:
    """A reason for which candidates or proposals were rejected, with the first of them as an example."""

    where: str
    """The rung at which candidates ended, or `proposal`."""
    verdict: str
    """The verdict on a candidate, or the status of a proposal, in words."""
    reason: str
    """In words."""
    what: str
    """The property that missed, or empty."""
    n: int
    """How many."""
    example: str
    """The text of the first one."""
    detail: str
    """The detail given for that candidate."""


def rejections(
    connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], names: Sequence[str]
) -> list[Rejection]:
    """Candidates that ended at a rung, in ladder order and by number; verified misses are among them."""
    labels = {r.position: r.name for r in ladder}
    made = [
        Rejection(
            labels.get(position, ""),
            words(verdict or "set aside"),
            words(reason),
            words(missed or ""),
            n,
            text,
            (detail or "")[: 3 * EXAMPLE],
        )
        for position, verdict, reason, missed, n, text, detail in report_queries.fallen(connection, row, names)
    ]
    order = {r.name: r.position for r in ladder}
    return sorted(made, key=lambda rejection: (order.get(rejection.where, -1), -rejection.n))


def unread(connection: Connection, row: CampaignRow) -> list[Rejection]:
    """Proposals that did not become a candidate of the campaign, or were already in it."""
    return [
        Rejection(
            "proposal",
            words(status),
            words(reason or "already in the campaign"),
            "",
            n,
            (text or "")[:EXAMPLE],
            (detail or "")[: 3 * EXAMPLE],
        )
        for status, reason, n, text, detail in report_queries.unread(connection, row)
    ]


@dataclass(frozen=True)
class Noted:
    """Something with a time: a safety block, a directive of a person, a session of the driver."""

    at: Any
    what: str
    detail: str


def safety_blocks(connection: Connection, row: CampaignRow) -> tuple[int, list[Noted]]:
    n, latest = report_queries.events(connection, row, "safety_blocked", limit=50)
    return n, [Noted(at, "blocked", _flat(payload)) for at, payload in latest]


def sessions(connection: Connection, row: CampaignRow) -> list[Noted]:
    """When a process drove the campaign, and how that ended."""
    noted = []
    for kind in ("driver_started", "ended"):
        _, latest = report_queries.events(connection, row, kind, limit=50)
        noted += [Noted(at, words(kind), _flat(payload)) for at, payload in latest]
    return sorted(noted, key=lambda session: session.at)


def _flat(payload: Any) -> str:
    if not isinstance(payload, dict):
        return str(payload)[:EXAMPLE]
    return ", ".join(
        f"{words(str(k))}: {v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)}" for k, v in payload.items()
    )[: 3 * EXAMPLE]
