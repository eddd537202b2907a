"""`sciagent add CANDIDATE…`: a person's own molecules enter a campaign."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sciagent.cli.people.steer import CampaignOption, ReasonOption, driver_line
from sciagent.cli.shared.common import (
    Exit,
    JsonOption,
    LedgerOption,
    WhoOption,
    open_ledger,
    pick_campaign,
    put,
    put_json,
    say,
    who,
)


def register(app: typer.Typer) -> None:
    app.command(
        "add", epilog="Example: sciagent add 'O=Cc1ccccc1' --campaign quickstart --reason 'the parent of our dyes'"
    )(add)


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

    Exit code 1 if one of them could not be read.
    """
    from sciagent.campaign.core.build import open_for_people
    from sciagent.campaign.people.screening import add as enter
    from sciagent.errors import UsageError
    from sciagent.store.campaign_state import directives

    if not candidates and file is None:
        raise UsageError("give molecules as SMILES, or a file of them with --file")
    why, person = directives.reason(reason), as_who or who()
    opened = open_ledger(ledger)
    with opened.read() as connection:
        name = pick_campaign(connection, campaign).name
    built, rows = open_for_people(opened, name), []
    counts = {"new": 0, "duplicate": 0, "refused": 0}
    for one in enter(built, _given(candidates or [], file, column, why), person, why):
        counts[one.answer.status] += 1
        if json:
            rows.append(_row(one))
        else:
            put(_line(one))
    if json:
        put_json({"campaign": name, **counts, "candidates": rows})
    else:
        say(f"{counts['new']} new, {counts['duplicate']} there already, {counts['refused']} refused")
        if counts["new"]:
            say(driver_line(built))
    if counts["refused"]:
        raise typer.Exit(Exit.FAILED)


def _given(texts: list[str], file: Path | None, column: str, why: str) -> Iterator[Any]:
    from sciagent.chemistry.structure_files import read_structures
    from sciagent.domain.ports import ProposalIn

    for text in texts:
        yield ProposalIn(text, operation="person", rationale=why)
    if file is not None:
        for record in read_structures(file, column):
            yield ProposalIn(record.text, operation="person", rationale=why)


def _row(one: Any) -> Mapping[str, Any]:
    return {
        "text": one.given.text,
        "status": one.answer.status,
        "key": one.answer.key,
        "standing": one.standing,
        "reason": one.reason,
        "detail": one.detail,
    }


def _line(one: Any) -> str:
    status, text = one.answer.status, one.given.text[:80] or "(nothing)"
    if status == "refused":
        return f"refused    {text}: {one.reason}: {one.detail}"
    key = (one.answer.key or "")[:12]
    stands = f"{one.standing}" + (f" ({one.reason}: {one.detail})" if one.reason else "")
    return f"{'new' if status == 'new' else 'there':<10} {key}  {text}: {stands}"
