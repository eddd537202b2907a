"""`sciagent best [NAME]`."""

from __future__ import annotations

from typing import Annotated

import typer

from sciagent.cli.shared.common import JsonOption, LedgerOption, open_ledger, put_json


def best(
    name: Annotated[str | None, typer.Argument(help="The campaign; may be left out if there is only one.")] = None,
    n: Annotated[int, typer.Option("-n", min=1, max=10_000, help="How many.")] = 10,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """The best candidates: hits first, then by the highest rung reached and the score there."""
    from sciagent.api.campaign import Campaign

    campaign = Campaign.open(name, open_ledger(ledger))
    candidates = campaign.best(n)
    if json:
        put_json(list(candidates))
        return
    from rich.console import Console

    from sciagent.api.progress import best_table, imported_lines

    console = Console()
    console.print(best_table(candidates, campaign.properties))
    if lines := imported_lines(candidates):
        console.print("values from files:")
        for line in lines:
            console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
