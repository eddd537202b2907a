"""Rejected candidates and proposals with their reasons, and the sessions of a campaign's drivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.chemistry.subjects.registry import drawn
from sciagent.domain.candidates import Names, identifier_text
from sciagent.report.parts.candidates import named_order
from sciagent.report.parts.wording import words
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.results.candidates import names_of
from sciagent.store.views import campaign_queries

EXAMPLE = 160  # characters of a proposed text
DETAIL = 480  # characters of a detail


@dataclass(frozen=True)
class Rejection:
    """A reason for which candidates or proposals were rejected, with the first candidate or proposal as an example."""

    where: str
    """The rung at which candidates ended; empty for proposals."""
    verdict: str
    """The verdict on a candidate, or the status of a proposal, in words."""
    reason: str
    """Reason in words."""
    what: str
    """Property that missed its window, or empty."""
    n: int
    """Number of candidates or proposals."""
    example: str
    """Text of the first one."""
    detail: str
    """Detail of the first one."""
    picture: str
    """Drawing of the first candidate as SVG; empty for proposals and crystals."""
    name: str = ""
    """Name of the first one in the input file."""


def rejections(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> list[Rejection]:
    """Returns the candidates that ended at a rung without a hit, in ladder order, the most frequent reason first."""
    labels = {r.position: r.name for r in ladder}
    kind = row.spec["subject"]
    fallen = campaign_queries.rejection_reasons(connection, row, list(named_order(row.spec)))
    names = names_of(connection, [id_ for *_, id_, _, _ in fallen], [row.id])
    return [
        _rejection(
            kind, labels[position], verdict or "set aside", reason, missed, n, (names.get(id_, {}), text, detail)
        )
        for position, verdict, reason, missed, n, id_, text, detail in sorted(fallen, key=lambda row: (row[0], -row[4]))
    ]


def unread(connection: Connection, row: CampaignRow) -> list[Rejection]:
    """Returns the proposals that did not become a candidate, or were already in the campaign."""
    groups = campaign_queries.unread_proposals(connection, row)
    kind = row.spec["subject"]
    names = names_of(connection, [id_ for *_, id_, _, _ in groups if id_ is not None], [row.id])
    return [
        _rejection(kind, "", status, reason or "already in the campaign", None, n, (names.get(id_, {}), text, detail))
        for status, reason, n, id_, text, detail in groups
    ]


def _rejection(
    kind: str,
    where: str,
    verdict: str,
    reason: str,
    missed: str | None,
    n: int,
    first: tuple[Names, str | None, str | None],
) -> Rejection:
    """Returns a reason. kind: subject of the campaign. first: names, text and detail of the first candidate."""
    names, text, detail = first
    return Rejection(
        where=where,
        verdict=words(verdict),
        reason=words(reason),
        what=words(missed or ""),
        n=n,
        example=(text or "")[:EXAMPLE],
        detail=(detail or "")[:DETAIL],
        picture=drawn(kind, text) if where and text else "",
        name=identifier_text(names),
    )


def sessions(connection: Connection, row: CampaignRow) -> list[tuple[Any, str, Any]]:
    """Returns (time, event, payload) of the start and end of each driver of the campaign."""
    events = []
    for kind in ("driver_started", "ended"):
        for at, payload in campaign_queries.events(connection, row, kind, limit=50)[1]:
            events.append((at, words(kind), payload))
    return sorted(events, key=lambda event: event[0])
