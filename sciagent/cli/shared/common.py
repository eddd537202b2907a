"""What all commands share: options, the ledger, JSON on stdout, exit codes."""

from __future__ import annotations

import json
import sys
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from sciagent.store.campaign_state.campaigns import CampaignRow
    from sciagent.store.database.ledger import Ledger


class Exit(IntEnum):
    OK = 0
    FAILED = 1  # an error, or `verify` says fail
    USAGE = 2
    NO_HIT = 3  # the budget is spent, or nothing is left, without a hit
    UNDECIDED = 4  # `verify` could not decide
    INTERRUPTED = 130


LedgerOption = Annotated[
    str | None,
    typer.Option(
        "--ledger", metavar="URL", help="Database file or URL; default: $SCIAGENT_LEDGER, then ./sciagent.db."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, for scripts.")]
WhoOption = Annotated[
    str | None, typer.Option("--who", metavar="NAME", help="Who says so; default: the user of this machine.")
]


def open_ledger(url: str | None, create: bool = False, idle_seconds: float | None = None) -> Ledger:
    """The ledger at the code's revision; says so if SQLite was copied and upgraded.

    create: whether a SQLite file that does not exist is made. Raises UsageError if it is not. idle_seconds: how long a
    transaction may be silent on PostgreSQL.
    """
    from sciagent.api.ledger import open_ledger as opened

    ledger = opened(url, create, idle_seconds)
    say_upgraded(ledger)
    return ledger


def say_upgraded(ledger: Ledger) -> None:
    """Say so if the ledger, on SQLite, was copied and upgraded when it was opened."""
    if ledger.copy_taken:
        say(f"the ledger was upgraded; a copy from before is at {ledger.copy_taken}")


def who() -> str:
    """The user of this machine."""
    from sciagent.settings import user

    return user()


def put(text: str) -> None:
    """Data, on stdout."""
    sys.stdout.write(text + "\n")


def put_json(answer: Any) -> None:
    """An answer, a list of answers, or plain values, as JSON on stdout."""
    from sciagent.domain.answers.model import plain

    value = plain(answer)
    put(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def say(text: str) -> None:
    """Everything that is not data, on stderr."""
    sys.stderr.write(text + "\n")


def pick_campaign(connection: Connection, name: str | None) -> CampaignRow:
    """The campaign of that name, or the only one there is."""
    from sciagent.api.ledger import pick_campaign as pick

    return pick(connection, name)
