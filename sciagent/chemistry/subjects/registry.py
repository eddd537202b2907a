"""The registry of subjects: the entry point group `sciagent.subjects`."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.edit_set import EditSet
from sciagent.errors import UnknownNameError, UsageError

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
    points = list({point.value: point for point in entry_points(group=GROUP, name=name)}.values())
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
