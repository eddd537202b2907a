"""`sciagent add CANDIDATE…`: a person's own molecules enter a campaign."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sciagent.cli.shared.common import (
    CampaignOption,
    Exit,
    JsonOption,
    LedgerOption,
    ReasonOption,
    WhoOption,
    open_ledger,
    put,
    put_json,
    say,
)
from sciagent.errors import UsageError

if TYPE_CHECKING:
    from sciagent.campaign.people.screening import AddedCandidate


def add(
    reason: ReasonOption,
    candidates: Annotated[
        list[str] | None, typer.Argument(metavar="[CANDIDATE]...", help="Molecules, as SMILES.")
    ] = None,
    campaign: CampaignOption = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="More molecules: csv, smi or sdf, also .gz.")
    ] = None,
    column: Annotated[str, typer.Option("--column", help="The column of a csv with the structures.")] = "smiles",
    ledger: LedgerOption = None,
    as_who: WhoOption = None,
    json: JsonOption = False,
) -> None:
    """Bring molecules of your own into a campaign. They are parsed, screened and gated as any other proposal.

    Exit code 1 if any of them could not be read.
    """
    from sciagent.api.campaign import Campaign
    from sciagent.api.other_drivers import driver_line

    if not candidates and file is None:
        raise UsageError("give molecules as SMILES, or a file of them with --file")
    entered = Campaign.open(campaign, open_ledger(ledger))
    rows = []
    counts = {"new": 0, "duplicate": 0, "refused": 0}
    for added in entered.entering(_given(candidates or [], file, column), reason, as_who):
        counts[added.status] += 1
        if json:
            rows.append(vars(added))
        else:
            put(_line(added))
    if json:
        put_json({"campaign": entered.name, **counts, "candidates": rows})
    else:
        say(f"{counts['new']} new, {counts['duplicate']} there already, {counts['refused']} refused")
        if counts["new"]:
            say(driver_line(entered.ledger.store, entered.name))
    if counts["refused"]:
        raise typer.Exit(Exit.FAILED)


def _given(texts: list[str], file: Path | None, column: str) -> Iterator[str]:
    from sciagent.chemistry.structure_files import read_structures

    yield from texts
    if file is not None:
        for record in read_structures(file, column):
            yield record.text


def _line(added: AddedCandidate) -> str:
    text = added.text[:80] or "(nothing)"
    if added.status == "refused":
        return f"refused    {text}: {added.reason}: {added.detail}"
    stands = f"{added.standing}" + (f" ({added.reason}: {added.detail})" if added.reason else "")
    return f"{'new' if added.status == 'new' else 'there':<10} {(added.key or '')[:12]}  {text}: {stands}"
