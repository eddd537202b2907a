"""`sciagent audit`: the trail of what people did, and the check that nobody changed it."""

from __future__ import annotations

from pathlib import Path

import typer

from sciagent.api.terminal import Line
from sciagent.cli import options
from sciagent.cli.shared import Exit, open_ledger, put, put_answer, say

audit_app = typer.Typer(help="The trail of what people did: check, note, export.", no_args_is_help=True)


@audit_app.command(epilog="Example: sciagent audit verify")
def verify(
    since: str | None = typer.Option(
        None, "--since", metavar="HASH", help="A hash from `audit head`: finds a tail that was rewritten since."
    ),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Check the chain of hashes. One changed or missing entry, or a changed answer, is found; the exit code is 1 then.

    Whoever owns the database can write the whole chain anew. So note the hash of `audit head` elsewhere.
    """
    from sciagent.store.people import audit

    with open_ledger(ledger).read() as connection:
        done = audit.check(connection, since)
    said = f"{done.entries} entries fit; the last hash is {done.head}"
    put_answer(vars(done), json, [Line(done.fault, "bold red") if done.fault else Line(said)])
    if done.fault:
        raise typer.Exit(Exit.FAILED)


@audit_app.command(epilog="Example: sciagent audit head")
def head(ledger: options.Ledger = None, json: options.Json = False) -> None:
    """Print the last hash, for a notebook or a printed page."""
    from sciagent.store.people import audit

    with open_ledger(ledger).read() as connection:
        last = audit.head(connection)
    entry, hash_ = (last.id, last.hash) if last else (0, audit.FIRST)
    put_answer({"entry": entry, "hash": hash_, "at": last and last.at}, json, [Line(f"{hash_} (entry {entry})")])


@audit_app.command(epilog="Example: sciagent audit export -o audit.jsonl")
def export(
    output: Path | None = typer.Option(None, "--output", "-o", help="A file; default: stdout."),
    ledger: options.Ledger = None,
) -> None:
    """Write the trail as JSON lines, oldest first: who did what, when, through which account and session."""
    import json
    from dataclasses import asdict

    from sciagent.store.people import audit

    with open_ledger(ledger).read() as connection:
        lines = (json.dumps(asdict(entry), default=str, ensure_ascii=False) for entry in audit.entries(connection))
        if output is None:
            for line in lines:
                put(line)
            return
        n = 0
        with output.open("w", encoding="utf-8") as file:
            for n, line in enumerate(lines, start=1):  # noqa: B007
                file.write(line + "\n")
    say(f"wrote {n} entries to {output}")
