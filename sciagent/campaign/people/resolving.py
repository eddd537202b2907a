"""Finds a candidate by a notation, by the beginning of its key, or by InChIKey."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.engine import Connection

from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.registry import subject_names, subject_of
from sciagent.domain.candidates import MOLECULE_KIND, Candidate
from sciagent.errors import InvalidCandidateError, UsageError
from sciagent.store.campaign_state import standings
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.results import candidates

SHOWN = 12  # number of digits of a key in messages


@dataclass(frozen=True)
class Named:
    """A candidate in the ledger."""

    id: int
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.text} ({self.key[:SHOWN]})"


def resolve(connection: Connection, row: CampaignRow | None, text: str) -> Named:
    """Returns the candidate that `text` names. Any notation of it is valid, since it is standardised.

    row: campaign to search; None: the whole ledger. Raises UsageError if there is no such candidate or more than one.
    """
    name = text.strip()
    matches, is_structure = _matches(connection, row, name)
    if row is not None and matches:
        members = standings.members(connection, row.id, [match.id for match in matches])
        if not members:
            names = ", ".join(str(match) for match in matches[:5])
            raise UsageError(
                f'"{name}" is known to the ledger as {names}, but is not in campaign "{row.name}"; bring it in with: '
                f"sciagent add '{matches[0].text}' --campaign {row.name} --reason \"...\""
            )
        matches = [match for match in matches if match.id in members]
    if not matches:
        raise UsageError(_unknown(name, row, is_structure))
    if len(matches) > 1:
        lines = "\n".join(f"  {match.key[:SHOWN]}  {match.text}" for match in matches)
        notation = _notation(row)
        raise UsageError(
            f'"{name}" names {len(matches)} candidates; give more digits of the key, or the {notation} of one:\n{lines}'
        )
    return matches[0]


def _notation(row: CampaignRow | None) -> str:
    return subject_of(_kind(row) or MOLECULE_KIND).words.notation


def _kind(row: CampaignRow | None) -> str | None:
    return None if row is None else str(row.spec.get("subject", MOLECULE_KIND))


def _matches(connection: Connection, row: CampaignRow | None, name: str) -> tuple[list[Named], bool]:
    """Returns the candidates that match the name, and whether the name is a notation of a candidate."""
    found = [Named(candidate.id, candidate.key, candidate.text) for candidate in candidates.find(connection, name)]
    stated = "refuse" if row is None else row.spec.get("standardise", "refuse")
    kinds = [_kind(row)] if row is not None else [MOLECULE_KIND, *(k for k in subject_names() if k != MOLECULE_KIND)]
    for subject in (subject_of(kind) for kind in kinds if kind):
        if (candidate := _read(subject, name, stated)) is not None:
            id_ = candidates.ids_of(connection, [candidate.key]).get(candidate.key)
            return found if id_ is None else [Named(id_, candidate.key, candidate.text)], True
    return found, False


def _read(subject: Subject, name: str, stated: object) -> Candidate | None:
    try:
        return subject.reading(stated).apply(name).candidate
    except InvalidCandidateError:
        return None


def _unknown(text: str, row: CampaignRow | None, is_structure: bool) -> str:
    scope, notation = f'campaign "{row.name}"' if row is not None else "the ledger", _notation(row)
    if is_structure:
        name = row.name if row is not None else "NAME"
        return f'"{text}" is not in {scope}; bring it in with: sciagent add \'{text}\' --campaign {name} --reason "..."'
    if len(text) < 6 and all(c in "0123456789abcdef" for c in text):
        return f'"{text}" is too short for a key; give at least 6 digits, a {notation}, or an InChIKey'
    return (
        f'no candidate "{text}" in {scope}; give a {notation}, at least 6 digits of its key (sciagent best --json '
        "shows keys), or its InChIKey"
    )
