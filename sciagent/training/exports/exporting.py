"""Exports a data set into a folder: the files of a format, and a card."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from sciagent.domain.answers.datasets import ExportedDataset
from sciagent.errors import UnknownNameError, UsageError
from sciagent.training.datasets import check_empty
from sciagent.training.exports.card import card
from sciagent.training.exports.formats import FORMATS
from sciagent.training.exports.source import DatasetFolder


def export(source: Path, to: str, folder: Path, command: str = "") -> ExportedDataset:
    """Exports the data set in a folder to a new or empty folder. An error leaves nothing behind.

    to: a name in `FORMATS`. command: the command line, for the card. Raises UsageError for what is no data set, for a
    kind that the format does not take, for a data set without a row for it, or for a folder with files;
    UnknownNameError for an unknown format.
    """
    if to not in FORMATS:
        raise UnknownNameError("format", to, FORMATS)
    read = DatasetFolder(source)
    if read.kind not in FORMATS[to]:
        fits = [name for name, kinds in FORMATS.items() if read.kind in kinds]
        raise UsageError(
            f"{source} is a data set of {read.kind}; {to} takes {' or '.join(FORMATS[to])}. "
            f"Formats for {read.kind}: {', '.join(fits) or 'none'}"
        )
    exporter, left_out = FORMATS[to][read.kind], Counter[str]()
    check_empty(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".export-") as inside:
        part = Path(inside) / "part"
        part.mkdir()
        files = exporter.write(read, part, left_out)
        if not any(files.values()):
            why = "; ".join(f"{reason}: {n}" for reason, n in sorted(left_out.items()))
            raise UsageError(f"{source} has no row for {to}{f' ({why})' if why else ''}")
        exported = ExportedDataset(
            format=to,
            kind=read.kind,
            source=str(source),
            folder=str(folder),
            files=dict(files),
            left_out={why: n for why, n in sorted(left_out.items()) if n},
        )
        (part / "README.md").write_text(card(read, exported, exporter, command), encoding="utf-8")
        if folder.exists():
            folder.rmdir()
        part.rename(folder)
    return exported
