"""Rejected candidates and proposals with their reasons, and the sessions of a campaign's drivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.report.parts.candidates import named_order
from sciagent.report.parts.wording import words
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.views import report_queries

EXAMPLE = 160  # characters of a text that somebody proposed
DETAIL = 480  # characters of a detail


@dataclass(frozen=True)
class Rejection:
    """A reason for which candidates or proposals were rejected, with the first of them as an example."""

    where: str
    """The rung at which candidates ended; empty for proposals."""
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


def rejections(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> list[Rejection]:
    """Candidates that ended at a rung, in ladder order and by number; verified misses are among them."""
    labels = {r.position: r.name for r in ladder}
    fallen = report_queries.fallen(connection, row, list(named_order(row.spec)))
    return [
        _rejection(labels[position], verdict or "set aside", reason, missed, n, text, detail)
        for position, verdict, reason, missed, n, text, detail in sorted(fallen, key=lambda row: (row[0], -row[4]))
    ]


def unread(connection: Connection, row: CampaignRow) -> list[Rejection]:
    """Proposals that did not become a candidate of the campaign, or were already in it."""
    return [
        _rejection("", status, reason or "already in the campaign", None, n, text, detail)
        for status, reason, n, text, detail in report_queries.unread(connection, row)
    ]


def _rejection(
    where: str, verdict: str, reason: str, missed: str | None, n: int, text: str | None, detail: str | None
) -> Rejection:
    cut = (text or "")[:EXAMPLE], (detail or "")[:DETAIL]
    return Rejection(where, words(verdict), words(reason), words(missed or ""), n, *cut)


def sessions(connection: Connection, row: CampaignRow) -> list[tuple[Any, str, Any]]:
    """(when, event, its payload) of the processes that drove the campaign: when they began and ended."""
    events = [
        (at, words(kind), payload)
        for kind in ("driver_started", "ended")
        for at, payload in report_queries.events(connection, row, kind, limit=50)[1]
    ]
    return sorted(events, key=lambda event: event[0])
