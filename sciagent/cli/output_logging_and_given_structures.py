"""Helpers of all commands: opening the ledger, output on stdout and stderr, exit codes.

`structure` reads a structure that is given on the command line, as a text or as the name of a file that holds one.
`parts_of` turns a docstring in Markdown into parts of the output: paragraphs, tables and lists. `set_up` makes
long-running commands log: text on a terminal, JSON elsewhere, both with the fields of the event.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.text import Text

from sciagent.api import terminal_tables_and_signals
from sciagent.api.terminal_tables_and_signals import Part, plain_table, show
from sciagent.domain.safe_text_and_durations import Paragraph
from sciagent.errors import LEDGER_AWAY_CODE, UsageError

if TYPE_CHECKING:
    from sciagent.chemistry.molecule_files import StructureRecord
    from sciagent.chemistry.subjects.base import Subject
    from sciagent.store.database.ledger import Ledger


class Exit(IntEnum):
    OK = 0
    FAILED = 1  # an error, or the verdict `fail` of `verify`
    USAGE = 2
    NO_HIT = 3  # the budget is spent, or nothing is left, without a hit
    UNDECIDED = 4  # `verify` could not decide
    CAMPAIGN_FAILED = 5  # a campaign ended as failed, since its model did not answer
    LEDGER_AWAY = LEDGER_AWAY_CODE  # the ledger does not answer; the same command may succeed later
    INTERRUPTED = 130


def open_ledger(url: str | None, create: bool = False, idle_seconds: float | None = None) -> Ledger:
    """Opens the ledger; prints a line if a SQLite file was copied and upgraded. Parameters as in `api.ledger`."""
    from sciagent.api.open_ledger import open_ledger as open_quietly

    ledger = open_quietly(url, create, idle_seconds)
    say_upgraded(ledger)
    return ledger


def existing_ledger(url: str | None) -> Ledger | None:
    """Returns the ledger, or None if the default ledger does not exist. Raises UsageError for a missing named one."""
    from sciagent.inputs.environment_variables import ledger_address
    from sciagent.store.database.engine import ledger_url

    location = ledger_url(ledger_address(url))
    if url is None and location.get_backend_name() == "sqlite" and not Path(str(location.database)).exists():
        return None
    return open_ledger(url)


def say_upgraded(ledger: Ledger) -> None:
    """Prints a line if the SQLite file of the ledger was copied and upgraded when it was opened."""
    if ledger.copy_taken:
        say(f"the ledger was upgraded; a copy from before is at {ledger.copy_taken}")


def put(text: str) -> None:
    """Prints data on stdout."""
    sys.stdout.write(text + "\n")


def put_json(answer: Any) -> None:
    """Prints an answer, a list of answers, a dataclass or plain values as JSON on stdout."""
    from sciagent.domain.answers.candidate_and_value_answers import plain

    put(json.dumps(plain(answer), indent=2, ensure_ascii=False, default=str))


def put_answer(answer: Any, json: bool, parts: Iterable[Part], *notes: str) -> None:
    """Prints an answer on stdout: as JSON; otherwise as its parts, followed by the notes on stderr."""
    if json:
        put_json(answer)
        return
    show(*parts)
    for note in notes:
        say(note)


def wrapped(text: str) -> str:
    """Returns a text in lines of the terminal's width, broken between words, so that a SMILES stays whole."""
    return "\n".join(terminal_tables_and_signals.wrapped(text, shutil.get_terminal_size().columns))


def say(text: str) -> None:
    """Prints a message on stderr."""
    sys.stderr.write(text + "\n")


def pairs(option: str, texts: Iterable[str], form: str) -> dict[str, str]:
    """Returns {name: value} of the texts NAME=VALUE of an option. form: shown by the UsageError for another text."""
    values = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not value:
            raise UsageError(f'{option} "{text}": write {form}')
        values[name] = value
    return values


def plural(n: int, noun: str) -> str:
    """Returns a number with its noun, such as `1 job` or `2 jobs`."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def end_at_once() -> NoReturn:
    """Ends the process at once, after a further Ctrl-C. Child processes end with it, or when their pipe closes."""
    os._exit(Exit.INTERRUPTED)


def structure(text: str) -> str:
    """Returns the structure of the file that a text names, or the text itself if it names none.

    Raises UsageError for a file that does not exist or does not hold exactly one structure that can be read.
    """
    subject = _subject_of_file(text)
    if subject is None:
        return text
    if not Path(text).is_file():
        raise UsageError(f'no such file: "{text}"')
    return _only_record(subject, Path(text)).text


def structures(texts: Iterable[str] | None) -> list[str]:
    """Returns the structures of several texts, as `structure` does."""
    return [structure(text) for text in texts or ()]


def structure_records(texts: Iterable[str] | None) -> list[StructureRecord]:
    """Returns the structures of several texts as `structure` does, those of files with the names that files give."""
    from sciagent.chemistry.molecule_files import StructureRecord

    records = []
    for number, text in enumerate(texts or ()):
        subject = _subject_of_file(text)
        if subject is not None and Path(text).is_file():
            records.append(_only_record(subject, Path(text)))
        else:
            records.append(StructureRecord(number, structure(text)))
    return records


def candidate_text(text: str) -> str:
    """Returns the structure of the file that a text names, or the text itself, which may be the name of a candidate.

    Raises UsageError for a file that does not hold exactly one structure that can be read.
    """
    subject = _subject_of_file(text)
    if subject is None or not Path(text).is_file():
        return text
    return _only_record(subject, Path(text)).text


def _subject_of_file(text: str) -> Subject | None:
    """Returns the subject whose files have names like this text; None for a text that is no name of such a file.

    A csv is a table of structures, and a name without an ending could be a SMILES.
    """
    from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_names, subject_of

    path = Path(text)
    is_poscar = path.name.startswith(("POSCAR", "CONTCAR"))
    is_csv = path.name.lower().removesuffix(".gz").endswith(".csv")
    if "\n" in text or is_csv:
        return None
    if not path.suffix and not is_poscar:
        return None
    for name in subject_names():
        subject = subject_of(name)
        if subject.is_file_of(path.name):
            return subject
    return None


def _only_record(subject: Subject, path: Path) -> StructureRecord:
    """Returns the only structure of a file with its names, read as a proposer reads it.

    Raises UsageError for none or several."""
    records = list(islice(subject.records(path), 2))  # the second tells that there are several
    if len(records) != 1:
        many = "more than one" if records else "no"
        raise UsageError(f"{path} holds {many} structure; name a file with a single one")
    if records[0].fault:
        raise UsageError(f"{path}: {records[0].fault}")
    return records[0]


def parts_of(text: str, depth: int = 1) -> Iterator[Part]:
    """Yields a paragraph for each block of lines, a table for each table, and a paragraph for each item of a list."""
    for block in text.split("\n\n"):
        stripped_lines = map(str.strip, block.splitlines())
        for is_table, lines in groupby(stripped_lines, lambda line: line.startswith("|")):
            if is_table:
                yield from _table(list(lines))
            else:
                yield from (Paragraph(item, depth) for item in _items(lines))


def _items(lines: Iterator[str]) -> Iterator[str]:
    """Yields the items of a list, each in one line; a block that is no list is one item."""
    item: list[str] = []
    for line in lines:
        if line.startswith("- ") and item:
            yield " ".join(item)
            item = []
        item += line.split()
    if item:
        yield " ".join(item)


def _table(lines: Sequence[str]) -> Iterator[Part]:
    rows = []
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        is_rule = all(cell and set(cell) <= set("-: ") for cell in cells)  # the line below the header
        if not is_rule:
            rows.append(cells)
    header, *body = rows
    table = plain_table(*header)
    for row in body:
        table.add_row(*(Text(cell) for cell in row))
    yield table


class LogFormat(StrEnum):
    AUTO = "auto"
    TEXT = "text"
    JSON = "json"


LogFormatOption = Annotated[
    LogFormat, typer.Option("--log-format", help="auto: text on a terminal, JSON lines elsewhere.")
]


def set_up(form: LogFormat = LogFormat.AUTO, level: int = logging.INFO) -> None:
    """Sends log messages to stderr. Must be called once, before the first message."""
    is_text = form is LogFormat.TEXT or (form is LogFormat.AUTO and sys.stderr.isatty())
    handler = logging.StreamHandler()
    handler.setFormatter(TextLines() if is_text else JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)  # alembic logs every plug-in at level INFO


def about(record: logging.LogRecord) -> dict[str, object]:
    """Returns the fields of a message logged with `extra={"about": {...}}`: event, campaign, job, fence, worker, ..."""
    return dict(getattr(record, "about", None) or {})


class JsonLines(logging.Formatter):
    """Formats a message as one line of JSON: time (UTC), level, event, message, the event's fields, logger."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = about(record)
        event = fields.pop("event", None)
        line: dict[str, object] = {"time": at, "level": record.levelname.lower()}
        if event:
            line["event"] = event
        line |= {"message": record.getMessage(), **fields, "logger": record.name}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """Formats a message for people: local time, level unless it is info, message, the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        text = f"{at} {level}{record.getMessage()}"
        fields = " ".join(f"{name}={value}" for name, value in about(record).items() if name != "event")
        if fields:
            text += f"  [{fields}]"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text
