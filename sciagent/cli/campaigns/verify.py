"""`sciagent verify SMILES --campaign FILE`: one molecule up the whole ladder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sciagent.cli.shared.common import Exit, JsonOption, LedgerOption, open_ledger, put, put_json, say, who


def register(app: typer.Typer) -> None:
    app.command("verify", epilog="Example: sciagent verify 'O=Cc1ccccc1' --campaign campaigns/quickstart.yaml")(verify)


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
    from sciagent.api.progress import show_value
    from sciagent.campaign.core.safety import note
    from sciagent.campaign.people.single import verify_one
    from sciagent.campaign.spec.load import load_spec
    from sciagent.campaign.spec.safety import is_reason
    from sciagent.domain.answers.values import ShownValue
    from sciagent.errors import UsageError

    spec = load_spec(campaign)
    if no_safety is not None:
        if not is_reason(no_safety):
            raise UsageError("--no-safety: give a reason that a colleague can judge, of three words at least")
        spec = spec.without_screen(no_safety)
    if unusual := note(spec):
        say(unusual)
    found = verify_one(open_ledger(ledger, create=True), spec, smiles, who())
    if json:
        put_json(found)
    else:
        put(f"{found['smiles'] or smiles}: {found['verdict']}" + (f" ({found['reason']})" if found["reason"] else ""))
        if not found["rungs"]:
            put(f"  {found['detail']}")
        for rung in found["rungs"]:
            why = f" ({rung['reason']}: {rung['detail']})" if rung["reason"] else ""
            put(f"  {rung['rung']}: {rung['verdict']}{why}" + (", known" if rung["reused"] else ""))
            for prop, value in rung["values"].items():
                put(f"    {prop} = {show_value(ShownValue(**value))}  [{value['level']}]")
    codes = {"pass": Exit.OK, "fail": Exit.FAILED}
    raise typer.Exit(codes.get(found["verdict"], Exit.UNDECIDED))
