"""`sciagent amend NAME`: another budget, goal or number of workers for a campaign, running or not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sciagent.cli.shared.common import (
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

if TYPE_CHECKING:
    from sciagent.domain.answers.status import DriverState


def register(app: typer.Typer) -> None:
    app.command(
        "amend",
        epilog="Example: sciagent amend quickstart --budget rungs.dft=20 --goal-count 5 --reason 'two more days'",
    )(amend)


def amend(
    name: Annotated[str | None, typer.Argument(help="The campaign; may be left out if there is only one.")] = None,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            "--budget",
            "-b",
            help="KEY=NUMBER, such as wall_minutes=90, rungs.dft=20 or money=50/week; none lifts a limit.",
        ),
    ] = None,
    goal_count: Annotated[int | None, typer.Option("--goal-count", min=1, help="Stop after so many hits.")] = None,
    workers: Annotated[int | None, typer.Option("--workers", "-w", min=1, help="Jobs at one time.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="The campaign's YAML, edited, in place of these options.")
    ] = None,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why; it is kept with your name.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change; write nothing.")] = False,
    ledger: LedgerOption = None,
    as_who: WhoOption = None,
    json: JsonOption = False,
) -> None:
    """Change the budget, the goal's count, the limits or the workers of a campaign. A running driver takes it up.

    What changes is shown and logged. Anything else would be another campaign, and is refused.
    """
    from sciagent.campaign.people import amending
    from sciagent.errors import UsageError
    from sciagent.store.campaign_state import campaigns, directives
    from sciagent.yaml.document import text_of

    some = bool(budget or goal_count or workers)
    if file is not None and some:
        raise UsageError("give either --file, or --budget, --goal-count and --workers")
    if file is None and not some:
        raise UsageError("say what to change: --budget, --goal-count, --workers, or --file with the edited YAML")
    why = directives.reason(reason) if reason else "amended"
    opened = open_ledger(ledger)
    with opened.read() as connection:
        row = pick_campaign(connection, name)
        driver = campaigns.driver_of(connection, row.id)
    if file is not None:
        source = text_of(file)
        base, shown = file.resolve().parent, str(file)
    else:
        source = amending.amended_source(row, budget=budget or (), goal_count=goal_count, workers=workers)
        base, shown = Path(row.base), f"{row.name} (amended)"
    spec, changes = amending.differences(row, source, shown, base)
    if changes and not dry_run:
        amending.amend(opened, spec, source, as_who or who(), why, changes)
    if json:
        put_json({"campaign": row.name, "changes": changes, "written": bool(changes) and not dry_run})
        return
    for line in changes:
        put(line)
    if not changes:
        say("nothing changes")
    else:
        say("nothing was written (--dry-run)" if dry_run else _takes_effect(row.name, driver))


def _takes_effect(name: str, driver: DriverState | None) -> str:
    """When the changes count."""
    if driver is not None and driver.alive:
        return f"the driver at {driver.host} (process {driver.pid}) takes it up at its next step"
    return f'campaign "{name}" is not running; it counts from the next: sciagent resume {name}'
