"""Helpers of all commands: opening the ledger, output on stdout and stderr, exit codes."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NoReturn

from sciagent.api import terminal
from sciagent.api.terminal import Part, show
from sciagent.errors import UsageError

if TYPE_CHECKING:
    from sciagent.store.database.ledger import Ledger


class Exit(IntEnum):
    OK = 0
    FAILED = 1  # an error, or the verdict `fail` of `verify`
    USAGE = 2
    NO_HIT = 3  # the budget is spent, or nothing is left, without a hit
    UNDECIDED = 4  # `verify` could not decide
    CAMPAIGN_FAILED = 5  # a campaign ended as failed, since its model did not answer
    INTERRUPTED = 130


def open_ledger(url: str | None, create: bool = False, idle_seconds: float | None = None) -> Ledger:
    """Opens the ledger; prints a line if a SQLite file was copied and upgraded. Parameters as in `api.ledger`."""
    from sciagent.api.ledger import open_ledger as opened

    ledger = opened(url, create, idle_seconds)
    say_upgraded(ledger)
    return ledger


def say_upgraded(ledger: Ledger) -> None:
    """Prints a line if the SQLite file of the ledger was copied and upgraded when it was opened."""
    if ledger.copy_taken:
        say(f"the ledger was upgraded; a copy from before is at {ledger.copy_taken}")


def put(text: str) -> None:
    """Prints data on stdout."""
    sys.stdout.write(text + "\n")


def put_json(answer: Any) -> None:
    """Prints an answer, a list of answers, a dataclass or plain values as JSON on stdout."""
    from sciagent.domain.answers.model import plain

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
    return "\n".join(terminal.wrapped(text, shutil.get_terminal_size().columns))


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
