"""`sciagent status [NAME]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sciagent.cli.shared.common import JsonOption, LedgerOption, open_ledger, put_json

if TYPE_CHECKING:
    from sciagent.domain.answers.status import CampaignCounts, Status


def status(
    name: Annotated[str | None, typer.Argument(help="The campaign; may be left out if there is only one.")] = None,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """How a campaign stands: rungs, hits, cost and budget. Reads only; a running campaign is not disturbed."""
    from sciagent.api.campaign import Campaign

    stands = Campaign.open(name, open_ledger(ledger)).status()
    if json:
        put_json(stands)
    else:
        _print(stands)


def _print(stands: Status) -> None:
    from rich.console import Console

    from sciagent.api.progress import budget_line, table

    console = Console()
    console.print(table(stands))
    console.print(budget_line(stands))
    for line in _findings(stands):
        console.print(line, highlight=False, markup=False)
    if stands.trouble:
        console.print(stands.trouble, style="bold red", highlight=False, markup=False, soft_wrap=True)
    if stands.stop_reason:
        console.print(stands.stop_reason, highlight=False, markup=False)
    console.print(_driver(stands), highlight=False, markup=False, soft_wrap=True)


def _findings(stands: Status) -> list[str]:
    """What the audit, the law and the judges say, a line each."""
    lines = []
    if stands.audit:
        lines += [f"audit: {stands.audit.words}", f"conformal guard {stands.audit.guard.words}"]
    if stands.value:
        lines.append(f"law, as of its last fit: {stands.value.words}")
    return lines + [judge.words for judge in stands.opinions]


def _driver(stands: CampaignCounts) -> str:
    """Whether a driver runs, and what to type if not."""
    name, driver, state = stands.campaign, stands.driver, stands.state
    if driver and driver.alive:
        where = f"driven by process {driver.pid} on {driver.host}"
        return f"{where}; go on with: sciagent resume {name}" if state == "paused" else where
    if state in ("running", "paused"):
        host = f" on {driver.host} (process {driver.pid})" if driver else ""
        return f"its driver{host} died: nothing is running. Nothing is lost; go on with: sciagent resume {name}"
    if state in ("created", "interrupted", "failed"):
        return f"go on with: sciagent resume {name}"
    return f"to go on, raise what ended it (sciagent amend {name}), then: sciagent resume {name}"
