"""The registry of subjects, which are the entry points of the group `sciagent.subjects`.

Candidates of any subject are drawn here, and restored from the payloads of the ledger and from the records that
processes exchange.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciagent.chemistry.subjects.base import EditSet, Subject
from sciagent.domain.answers.candidate_and_value_answers import StructureText
from sciagent.domain.candidate_and_its_names_in_files import MOLECULE_KIND, Candidate
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import InvalidCandidateError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from sciagent.chemistry.molecule_files import StructureRecord

GROUP = "sciagent.subjects"


@cache
def subject_names() -> tuple[str, ...]:
    """Returns the names of the installed subjects, sorted."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


@cache
def subject_of(name: str) -> Subject:
    """Returns the subject of this name.

    Raises UnknownNameError, or UsageError if two packages offer it or its class does not load.
    """
    # by value, since a package that is on the path twice lists its entry point twice
    points_by_value = {point.value: point for point in entry_points(group=GROUP, name=name)}
    points = list(points_by_value.values())
    if not points:
        raise UnknownNameError("subject", name, subject_names())
    if len(points) > 1:
        raise UsageError(f'two installed packages offer a subject named "{name}"; uninstall one')
    try:
        made: Subject = points[0].load()()
    except Exception as error:  # whatever the package raises
        raise UsageError(f'the subject "{name}" does not load: {type(error).__name__}: {error}') from error
    if not isinstance(made, Subject) or made.name != name:
        raise UsageError(f'the subject "{name}" is {made!r}, which is no Subject of this name')
    return made


def needed_edits(subject: Subject) -> EditSet:
    """Returns the edits of a subject. Raises UsageError if it has none."""
    if subject.edits is None:
        raise UsageError(f'the subject "{subject.name}" has no edits; propose its {subject.words.many} from a file')
    return subject.edits


REMEMBERED_DRAWINGS = 2048


@lru_cache(REMEMBERED_DRAWINGS)
def drawn(kind: str, notation: str, width: int = 260, height: int = 190) -> str:
    """Returns an SVG with colours from CSS; an empty text if the notation cannot be drawn."""
    return subject_of(kind).drawing(notation, width, height) if notation else ""


def structure_text(candidate: Candidate) -> StructureText:
    """Returns the text of a candidate together with the notation from which it is drawn."""
    notation = subject_of(candidate.kind).notation(candidate)
    return StructureText(kind=candidate.kind, text=candidate.text, drawn_from=notation)


def candidate_from_payload(kind: str, payload: Mapping[str, Any]) -> Candidate:
    """Returns the candidate with this `payload()`. Raises InvalidCandidateError for any other mapping."""
    if kind not in subject_names():
        raise InvalidCandidateError(Reason.WRONG_KIND, f'kind "{kind}"; known: {", ".join(subject_names())}')
    return subject_of(kind).restored(payload)


def record_of(candidate: Candidate) -> Mapping[str, Any]:
    """Returns all fields of a candidate as JSON for `candidate_from_record`, so that nothing is computed again."""
    return subject_of(candidate.kind).record(candidate)


def candidate_from_record(kind: str, record: Mapping[str, Any]) -> Candidate:
    """Returns the candidate of a record. Its identity is not computed again; a caller compares the key afterwards."""
    return subject_of(kind).from_record(record)


def structures_of(
    given: Iterable[str | StructureRecord],
    file: Path | None = None,
    column: str | None = None,
    keep: Sequence[str] | None = None,
    subject: Subject | None = None,
) -> Iterator[StructureRecord]:
    """Yields structures that are given as texts or records, then the structures of a file.

    column, keep: as in `Subject.records`. subject: None means molecules.
    """
    from sciagent.chemistry.molecule_files import StructureRecord

    for number, text_or_record in enumerate(given):
        if isinstance(text_or_record, str):
            yield StructureRecord(number, text_or_record)
        else:
            yield replace(text_or_record, number=number)
    if file is not None:
        yield from (subject or subject_of(MOLECULE_KIND)).records(file, column, keep=keep)
