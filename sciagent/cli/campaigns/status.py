"""`sciagent status [NAME]`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sciagent.cli.shared.common import JsonOption, LedgerOption, open_ledger, pick_campaign, put_json


def register(app: typer.Typer) -> None:
    app.command("status", epilog="Example: sciagent status quickstart --json")(status)


def status(
    name: Annotated[str | None, typer.Argument(help="The campaign; may be left out if there is only one.")] = None,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """How a campaign stands: rungs, hits, cost and budget. Reads only; a running campaign is not disturbed."""
    from sciagent.report.analysis import audit

    with open_ledger(ledger).read() as connection:
        found = audit.status(connection, pick_campaign(connection, name))
    if json:
        put_json(found)
        return
    from rich.console import Console

    from sciagent.cli.shared.progress import budget_line, table

    console = Console()
    console.print(table(found))
    console.print(budget_line(found))
    if found["audit"]:
        console.print(f"audit: {found['audit']['words']}", highlight=False, markup=False)
        console.print(f"conformal guard {found['audit']['guard']['words']}", highlight=False, markup=False)
    if found["value"]:
        console.print(f"law, as of its last fit: {found['value']['words']}", highlight=False, markup=False)
    for one in found["opinions"]:
        console.print(one["words"], highlight=False, markup=False)
    if found["trouble"]:
        console.print(found["trouble"], style="bold red", highlight=False, markup=False, soft_wrap=True)
    if found["stop_reason"]:
        console.print(found["stop_reason"], highlight=False, markup=False)
    console.print(_driver(found), highlight=False, markup=False, soft_wrap=True)


def _driver(found: dict[str, Any]) -> str:
    """Whether anybody is at work, and what to type if not."""
    name, driver, state = found["campaign"], found["driver"], found["state"]
    if driver and driver["alive"]:
        where = f"driven by process {driver['pid']} on {driver['host']}"
        return f"{where}; go on with: sciagent resume {name}" if state == "paused" else where
    if state in ("running", "paused"):
        host = f" on {driver['host']} (process {driver['pid']})" if driver else ""
        return f"its driver{host} died: nothing is running. Nothing is lost; go on with: sciagent resume {name}"
    if state in ("created", "interrupted", "failed"):
        return f"go on with: sciagent resume {name}"
    return f"to go on, raise what ended it (sciagent amend {name}), then: sciagent resume {name}"
