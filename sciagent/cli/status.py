"""`sciagent status [NAME]`."""

from __future__ import annotations

from typing import Annotated

import typer

from sciagent.cli.common import JsonOption, LedgerOption, open_ledger, pick_campaign, put_json


def register(app: typer.Typer) -> None:
    app.command("status", epilog="Example: sciagent status quickstart --json")(status)


def status(
    name: Annotated[str | None, typer.Argument(help="The campaign; may be left out if there is only one.")] = None,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """How a campaign stands: rungs, hits, cost and budget. Reads only; a running campaign is not disturbed."""
    from sciagent.store import queries

    with open_ledger(ledger).read() as connection:
        found = queries.status(connection, pick_campaign(connection, name))
    if json:
        put_json(found)
        return
    from rich.console import Console

    from sciagent.cli.progress import budget_line, table

    console = Console()
    console.print(table(found))
    console.print(budget_line(found))
    if found["stop_reason"]:
        console.print(found["stop_reason"], highlight=False)
