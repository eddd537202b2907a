"""`sciagent verify SMILES --campaign FILE`: one molecule up the whole ladder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sciagent.cli.shared.common import Exit, JsonOption, LedgerOption, put, put_json, say, say_upgraded


def verify(
    smiles: Annotated[str, typer.Argument(help="The molecule as SMILES.")],
    campaign: Annotated[Path, typer.Option("--campaign", "-c", help="The campaign whose ladder and limits count.")],
    ledger: LedgerOption = None,
    no_safety: Annotated[
        str | None, typer.Option("--no-safety", metavar="REASON", help="Leave the safety screen out, and say why.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run one molecule up a campaign's ladder until a rung fails it. What is known is reused; what is new is kept.

    What the safety screen refuses goes no further. Both that and --no-safety are logged in the ledger.

    Exit codes: 0 it is a hit (it passes every gate and objective), 1 it fails, 4 that could not be decided.
    """
    from sciagent.api.campaign import Campaign

    ladder = Campaign.from_yaml(campaign, ledger, enter=False)
    say_upgraded(ladder.ledger.store)
    if unusual := ladder.safety_note(no_safety):
        say(unusual)
    result = ladder.verify(smiles, no_safety=no_safety)
    if json:
        put_json(result.data)
    else:
        for line in result.lines():
            put(line)
    codes = {"pass": Exit.OK, "fail": Exit.FAILED}
    raise typer.Exit(codes.get(result.verdict, Exit.UNDECIDED))
