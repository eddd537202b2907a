"""Rejected candidates and proposals with their reasons, and the sessions of a campaign's drivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import drawn, subject_of
from sciagent.domain.candidate_and_its_names_in_files import Names, identifier_text
from sciagent.report.parts.best_candidate_cards_and_table import properties_of_spec
from sciagent.report.parts.wording import words
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.results.candidates import names_of
from sciagent.store.views import report_queries

EXAMPLE = 160  # characters of a proposed text that are shown
DETAIL = 480  # characters of a detail that are shown


class _EndedCandidates(NamedTuple):
    """Candidates that ended at one rung for one reason, as `report_queries.rejection_reasons` counts them."""

    position: int
    verdict: str | None
    reason: str
    missed_property: str | None
    n: int
    first_id: int
    text: str
    """Text of the first candidate."""
    detail: str | None
    """Detail of the first candidate."""


class _FruitlessProposals(NamedTuple):
    """Proposals with one status and reason, as `report_queries.proposals_without_candidate` counts them."""

    status: str
    reason: str | None
    n: int
    first_id: int | None
    """Candidate of the first proposal; None if its text could not be read."""
    text: str
    """Text of the first proposal."""
    detail: str | None
    """Detail of the first proposal."""


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
    """Text of the first one that people read: of a crystal its formula and prototype."""
    detail: str
    """Detail of the first one."""
    picture: str
    """Drawing of the first candidate as SVG; empty for proposals and crystals."""
    name: str = ""
    """Name of the first one in the input file."""


def rejections(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> list[Rejection]:
    """Returns the candidates that ended at a rung without a hit, in ladder order, the most frequent reason first."""
    rung_names = {rung.position: rung.name for rung in ladder}
    counted = report_queries.rejection_reasons(connection, row, list(properties_of_spec(row.spec)))
    groups = [_EndedCandidates(*group) for group in counted]
    groups.sort(key=lambda group: (group.position, -group.n))
    names = names_of(connection, [group.first_id for group in groups], [row.id])
    return [
        _rejection(
            row.spec["subject"],
            where=rung_names[group.position],
            verdict=group.verdict or "set aside",
            reason=group.reason,
            missed=group.missed_property,
            n=group.n,
            first=(names.get(group.first_id, {}), group.text, group.detail),
        )
        for group in groups
    ]


_REASONS = {"duplicate": "already in the campaign", "filtered": "a law took others for more probable hits"}
"""Why proposals of a status did not become candidates, where no reason is kept."""


def fruitless_proposals(connection: Connection, row: CampaignRow) -> list[Rejection]:
    """Returns the proposals that did not become a candidate, or were already in the campaign."""
    groups = [_FruitlessProposals(*group) for group in report_queries.proposals_without_candidate(connection, row)]
    candidate_ids = [group.first_id for group in groups if group.first_id is not None]
    names = names_of(connection, candidate_ids, [row.id])
    shown = []
    for group in groups:
        first_names = {} if group.first_id is None else names.get(group.first_id, {})
        shown.append(
            _rejection(
                row.spec["subject"],
                where="",
                verdict=group.status,
                reason=group.reason or _REASONS.get(group.status, ""),
                missed=None,
                n=group.n,
                first=(first_names, group.text, group.detail),
            )
        )
    return shown


def _rejection(
    kind: str,
    *,
    where: str,
    verdict: str,
    reason: str,
    missed: str | None,
    n: int,
    first: tuple[Names, str | None, str | None],
) -> Rejection:
    """Returns a reason with its texts as they are shown.

    kind: subject of the campaign. first: names, text and detail of the first candidate or proposal.
    """
    names, text, detail = first
    return Rejection(
        where=where,
        verdict=words(verdict),
        reason=words(reason),
        what=words(missed or ""),
        n=n,
        example=subject_of(kind).shown(text or "")[:EXAMPLE],
        detail=(detail or "")[:DETAIL],
        picture=drawn(kind, text) if where and text else "",
        name=identifier_text(names),
    )


def sessions(connection: Connection, row: CampaignRow) -> list[tuple[Any, str, Any]]:
    """Returns (time, event, payload) of the start and end of each driver of the campaign."""
    events = []
    for kind in ("driver_started", "ended"):
        _, latest = report_queries.events(connection, row, kind, limit=50)
        for at, payload in latest:
            events.append((at, words(kind), payload))
    return sorted(events, key=lambda event: event[0])
