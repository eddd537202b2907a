"""`sciagent db upgrade | current | check | backup`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from sciagent.api.terminal import Line
from sciagent.cli import options
from sciagent.cli.shared import Exit, put, put_answer, say
from sciagent.inputs.settings import ledger_address

app = typer.Typer(help="The ledger's schema.", no_args_is_help=True)


def _engine(address: str | None) -> Any:
    from sciagent.store.database.engine import connect, ledger_url

    return connect(ledger_url(ledger_address(address)))


@app.command()
def upgrade(ledger: options.Ledger = None) -> None:
    """Bring the ledger to this version's schema. A SQLite file is copied first."""
    from sciagent.store.database import migrate

    engine = _engine(ledger)
    before = migrate.current(engine)
    copy = migrate.upgrade(engine)
    put(f"{before or 'empty'} -> {migrate.current(engine)}")
    if copy:
        say(f"a copy from before is at {copy}")


@app.command(epilog="Example: sciagent db backup ledger.2026-11-22.dump")
def backup(
    file: Path = typer.Argument(help="Where it goes; refused if it is there."), ledger: options.Ledger = None
) -> None:
    """Copy the ledger as it is at this moment, while campaigns run. Copy the folder of artifacts afterwards.

    SQLite: a database file. PostgreSQL: an archive for pg_restore, made by pg_dump.
    """
    from sciagent.store.database.engine import ledger_url
    from sciagent.store.database.migrate import back_up

    back_up(ledger_url(ledger_address(ledger)), file)
    put(f"{file}: {file.stat().st_size / 1e6:.1f} MB")


@app.command()
def current(ledger: options.Ledger = None, json: options.Json = False) -> None:
    """At which revision the ledger is, and which revision this version needs."""
    from sciagent.store.database import migrate

    at, need = migrate.current(_engine(ledger)), migrate.head()
    put_answer({"current": at, "needed": need}, json, [f"current {at or 'none'}, needed {need}"])


@app.command()
def check(ledger: options.Ledger = None, json: options.Json = False) -> None:
    """Compare the database with the tables of this version; exit code 1 if they differ."""
    from sciagent.store.database import migrate

    engine = _engine(ledger)
    at, need = migrate.current(engine), migrate.head()
    differences = migrate.differences(engine) if at == need else [f"at {at}, needs {need}"]
    lines = map(Line, differences or ["the ledger is as it should be"])
    put_answer({"ok": not differences, "differences": differences}, json, lines)
    if differences:
        raise typer.Exit(Exit.FAILED)
