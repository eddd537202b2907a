"""`sciagent db upgrade | current | check`."""

from __future__ import annotations

from typing import Any

import typer

from sciagent.cli.common import Exit, JsonOption, LedgerOption, put, put_json, say
from sciagent.settings import load


def register(app: typer.Typer) -> None:
    db = typer.Typer(help="The ledger's schema.", no_args_is_help=True)
    db.command("upgrade")(upgrade)
    db.command("current")(current)
    db.command("check")(check)
    app.add_typer(db, name="db")


def _engine(url: str | None) -> Any:
    from sciagent.store.engine import connect, ledger_url

    return connect(ledger_url(load(url).ledger))


def upgrade(ledger: LedgerOption = None) -> None:
    """Bring the ledger to this version's schema. A SQLite file is copied first."""
    from sciagent.store import migrate

    engine = _engine(ledger)
    before = migrate.current(engine)
    copy = migrate.upgrade(engine)
    put(f"{before or 'empty'} -> {migrate.current(engine)}")
    if copy:
        say(f"a copy from before is at {copy}")


def current(ledger: LedgerOption = None, json: JsonOption = False) -> None:
    """At which revision the ledger is, and which one this version needs."""
    from sciagent.store import migrate

    at, need = migrate.current(_engine(ledger)), migrate.head()
    put_json({"current": at, "needed": need}) if json else put(f"current {at or 'none'}, needed {need}")


def check(ledger: LedgerOption = None, json: JsonOption = False) -> None:
    """Compare the database with the tables of this version; exit code 1 if they differ."""
    from sciagent.store import migrate

    engine = _engine(ledger)
    found = (
        [] if migrate.current(engine) == migrate.head() else [f"at {migrate.current(engine)}, needs {migrate.head()}"]
    )
    found += migrate.differences(engine) if not found else []
    if json:
        put_json({"ok": not found, "differences": found})
    else:
        put("\n".join(found) or "the ledger is as it should be")
    if found:
        raise typer.Exit(Exit.FAILED)
