"""Structures on the command line: a text, or the name of a file that holds one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.registry import subject_names, subject_of
from sciagent.errors import UsageError


def structure(text: str) -> str:
    """Returns the structure of the file that a text names, or the text itself if it names none.

    Raises UsageError for a file that does not exist or does not hold exactly one structure that can be read.
    """
    subject = _subject_of_file(text)
    if subject is None:
        return text
    if not Path(text).is_file():
        raise UsageError(f'no such file: "{text}"')
    return _only_structure(subject, Path(text))


def structures(texts: Iterable[str] | None) -> list[str]:
    """Returns the structures of several texts, as `structure` does."""
    return [structure(text) for text in texts or ()]


def candidate_text(text: str) -> str:
    """Returns the structure of the file that a text names, or the text itself, which may be the name of a candidate.

    Raises UsageError for a file that does not hold exactly one structure that can be read.
    """
    subject = _subject_of_file(text)
    return text if subject is None or not Path(text).is_file() else _only_structure(subject, Path(text))


def _subject_of_file(text: str) -> Subject | None:
    """Returns the subject whose files have names like this text; None for a text that is no name of such a file.

    A csv is a table of structures, and a name without an ending could be a SMILES.
    """
    path = Path(text)
    is_poscar = path.name.startswith(("POSCAR", "CONTCAR"))
    if "\n" in text or not (path.suffix or is_poscar) or path.name.lower().removesuffix(".gz").endswith(".csv"):
        return None
    return next((s for s in map(subject_of, subject_names()) if s.is_file_of(path.name)), None)


def _only_structure(subject: Subject, path: Path) -> str:
    """Returns the only structure of a file, read as a proposer reads it. Raises UsageError for none or several."""
    records = list(islice(subject.records(path), 2))
    if len(records) != 1:
        many = "more than one" if records else "no"
        raise UsageError(f"{path} holds {many} structure; name a file with a single one")
    if records[0].fault:
        raise UsageError(f"{path}: {records[0].fault}")
    return records[0].text
