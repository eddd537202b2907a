"""`sciagent best [NAME]`."""

from __future__ import annotations

from typing import Annotated

import typer

from sciagent.cli.shared.common import JsonOption, LedgerOption, open_ledger, pick_campaign, put_json


def register(app: typer.Typer) -> None:
    app.command("best", epilog="Example: sciagent best quickstart -n 5 --json")(best)


def best(
    name: Annotated[str | None, typer.Argument(help="The campaign; may be left out if there is only one.")] = None,
    n: Annotated[int, typer.Option("-n", min=1, max=10_000, help="How many.")] = 10,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """The best candidates: hits first, then by the highest rung reached and the score there."""
    from sciagent.store.views import queries

    with open_ledger(ledger).read() as connection:
        row = pick_campaign(connection, name)
        found = queries.best(connection, row, n)
    if json:
        put_json(found)
        return
    from types import SimpleNamespace

    from rich.console import Console

    from sciagent.cli.shared.progress import best_table, imported_lines

    wanted = [SimpleNamespace(property=o["property"]) for o in row.spec["objectives"]]
    console = Console()
    console.print(best_table(found, wanted))
    if lines := imported_lines(found):
        console.print("values from files:")
        for line in lines:
            console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
