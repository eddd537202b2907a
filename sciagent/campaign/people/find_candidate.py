"""Finds a candidate by a notation, by the beginning of its key, by InChIKey, or by the text that people read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.fragments_and_protonation import ISOMER, TAUTOMER
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_names, subject_of
from sciagent.domain.candidate_and_its_names_in_files import MOLECULE_KIND, Candidate
from sciagent.domain.safe_text_and_durations import short
from sciagent.errors import InvalidCandidateError, UsageError
from sciagent.store.campaign_state import candidate_standings, proposer_trajectories
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.results import candidates

SHOWN_DIGITS = 12  # number of digits of a key in messages
MAX_NAME = 200  # characters of a name in messages
MAX_MATCHES = 5  # candidates that a message names
LEAST_DIGITS = 6  # digits of a key by which a candidate can be named


@dataclass(frozen=True)
class FoundCandidate:
    """A candidate in the ledger."""

    id: int
    """Ledger id."""
    key: str
    text: str
    """Text that people read."""

    def __str__(self) -> str:
        return f"{self.text} ({self.key[:SHOWN_DIGITS]})"


def resolve(connection: Connection, row: CampaignRow | None, text: str, with_filtered: bool = False) -> FoundCandidate:
    """Returns the candidate that `text` names.

    The text may be a notation, which is standardised, the beginning of a key, an InChIKey, a name in an input file, or
    the text that people read.
    row: campaign to search; None: the whole ledger. with_filtered: also candidates of which a filter of the campaign
    dropped a proposal. Raises UsageError if there is no such candidate or more than one.
    """
    name = text.strip()
    read, faults = _read_notation(row, name)
    matches = _matches(connection, row, name, read)
    if row is not None and matches:
        matches = _of_campaign(connection, row, name, read, matches, with_filtered)
    if not matches:
        raise UsageError(_unknown(name, row, read, faults))
    if len(matches) > 1:
        lines = "\n".join(f"  {match.key[:SHOWN_DIGITS]}  {match.text}" for match in matches)
        notation = _notation(row)
        raise UsageError(
            f'"{name}" names {len(matches)} candidates; give more digits of the key, or the {notation} of one:\n{lines}'
        )
    return matches[0]


def _of_campaign(
    connection: Connection,
    row: CampaignRow,
    name: str,
    read: Candidate | None,
    matches: list[FoundCandidate],
    with_filtered: bool,
) -> list[FoundCandidate]:
    """Returns the matches that are in a campaign, or of which its filter dropped a proposal if those count. Raises
    UsageError if there are none."""
    ids = [match.id for match in matches]
    members = candidate_standings.members(connection, row.id, ids)
    if not members:
        # a molecule whose stereoisomers or tautomers are candidates is none itself
        forms = candidates.made_of(connection, row.id, ids, (ISOMER, TAUTOMER))
        matches = [FoundCandidate(form.id, form.key, form.text) for form in forms] or matches
        members = {form.id for form in forms}
    if not members and with_filtered:
        members = proposer_trajectories.filtered_among(connection, row.id, ids)
    if not members:
        names = ", ".join(str(match) for match in matches[:MAX_MATCHES])
        raise UsageError(
            f'"{_shown(name, read)}" is known to the ledger as {names}, but is not in campaign "{row.name}"; '
            f"{_hint_to_add(name, matches[0].text, row)}"
        )
    return [match for match in matches if match.id in members]


def matching_ids(connection: Connection, text: str) -> set[int]:
    """Returns the ledger ids of the candidates that a text names, at most 20: a notation, the beginning of a key, an
    InChIKey, a name in an input file, or the text that people read."""
    name = text.strip()
    read, _ = _read_notation(None, name)
    return {match.id for match in _matches(connection, None, name, read)}


def _notation(row: CampaignRow | None) -> str:
    """Returns the word for a notation of the campaign's subject, such as SMILES."""
    return subject_of(_kind(row) or MOLECULE_KIND).words.notation


def _kind(row: CampaignRow | None) -> str | None:
    """Returns the name of the campaign's subject; None without a campaign."""
    return None if row is None else str(row.spec.get("subject", MOLECULE_KIND))


def _subjects(row: CampaignRow | None) -> list[Subject]:
    """Returns the subject of the campaign; without one, all subjects, molecules first."""
    kind = _kind(row)
    if kind is not None:
        return [subject_of(kind)]
    molecules_first = sorted(subject_names(), key=lambda name: name != MOLECULE_KIND)
    return [subject_of(name) for name in molecules_first]


def _read_notation(row: CampaignRow | None, name: str) -> tuple[Candidate | None, list[str]]:
    """Returns (candidate, []) if the name is a notation; otherwise None, and for each subject why it is no notation."""
    stated = "refuse" if row is None else row.spec.get("standardise", "refuse")
    faults = []
    for subject in _subjects(row):
        try:
            return subject.reading(stated).apply(name).candidate, []
        except InvalidCandidateError as error:
            faults.append(f"as a {subject.words.one}: {error.detail}")
    return None, faults


def _matches(
    connection: Connection, row: CampaignRow | None, name: str, read: Candidate | None
) -> list[FoundCandidate]:
    """Returns the candidates that match the name. read: the candidate whose notation it is."""
    if read is not None:
        candidate_id = candidates.ids_of(connection, [read.key]).get(read.key)
        if candidate_id is not None:
            return [FoundCandidate(candidate_id, read.key, read.text)]
    found = candidates.find(connection, name, None if row is None else row.id)
    # where the text that people read is a notation, `read` is the candidate with this text
    kinds = [subject.name for subject in _subjects(row) if not subject.texts_are_notations]
    if not found and read is None and kinds:
        found = candidates.find_by_text(connection, name, kinds, None if row is None else row.id)
    return [FoundCandidate(candidate.id, candidate.key, candidate.text) for candidate in found]


def _shown(name: str, read: Candidate | None) -> str:
    """Returns a name for a message; for a notation of several lines, the text of its candidate."""
    return read.text if read and "\n" in name else short(name, MAX_NAME)


def _hint_to_add(name: str, text: str, row: CampaignRow | None) -> str:
    """Returns a hint with the command that brings a candidate into a campaign.

    text: the structure in the command; instead of a name of several lines, the command shows FILE.
    """
    what = "FILE" if "\n" in name else f"'{text}'"
    campaign = "NAME" if row is None else row.name
    return f'bring it in with: sciagent add {what} --campaign {campaign} --reason "..."'


def _unknown(name: str, row: CampaignRow | None, read: Candidate | None, faults: Sequence[str]) -> str:
    """Returns the message for a name that no candidate has. read, faults: as `_read_notation` returns them."""
    scope = f'campaign "{row.name}"' if row is not None else "the ledger"
    notation = _notation(row)
    if read is not None:
        return f'"{_shown(name, read)}" is not in {scope}; {_hint_to_add(name, name, row)}'
    if "\n" in name:
        return f"the structure cannot be read {'; '.join(faults)}"
    is_hexadecimal = all(character in "0123456789abcdef" for character in name)
    if len(name) < LEAST_DIGITS and is_hexadecimal:
        return f'"{name}" is too short for a key; give at least {LEAST_DIGITS} digits, a {notation}, or an InChIKey'
    return (
        f'no candidate "{short(name, MAX_NAME)}" in {scope}; give a {notation}, the text that sciagent best shows, at '
        "least 6 digits of its key (sciagent best --json shows keys), its InChIKey, or a file of its structure"
    )
