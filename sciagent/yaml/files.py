"""The text of a YAML file that a person names."""

from __future__ import annotations

from pathlib import Path

from sciagent.errors import InputFileError, SpecError
from sciagent.input_files import open_input
from sciagent.yaml.mistakes import report
from sciagent.yaml.positions import MAX_BYTES, decode


def text_of(path: Path) -> str:
    """The text of a file. Raises SpecError for what is no regular file, too long, or not UTF-8."""
    try:
        with open_input(path) as stream:
            text, bad = decode(stream.read(MAX_BYTES + 1))
    except (InputFileError, OSError) as error:
        raise SpecError(str(error)) from None
    if bad is not None:
        raise SpecError(report(str(path), [bad]))
    return text
