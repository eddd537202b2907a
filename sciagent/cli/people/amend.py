"""`sciagent amend NAME`: another budget, goal or number of workers for a campaign, running or not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sciagent.cli.shared.common import (
    CampaignArgument,
    JsonOption,
    LedgerOption,
    WhoOption,
    open_ledger,
    put,
    put_json,
    say,
)
from sciagent.errors import UsageError


def amend(
    name: CampaignArgument = None,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            "--budget",
            "-b",
            help="KEY=NUMBER, such as wall_minutes=90, rungs.dft=20 or money=50/week; none lifts a limit.",
        ),
    ] = None,
    goal_count: Annotated[int | None, typer.Option("--goal-count", min=1, help="Stop after so many hits.")] = None,
    workers: Annotated[int | None, typer.Option("--workers", "-w", min=1, help="Jobs at a time.")] = None,
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
    from sciagent.api.ledger import pick_campaign
    from sciagent.api.other_drivers import driver_line
    from sciagent.campaign.people import amending
    from sciagent.settings import user
    from sciagent.store.campaign_state import directives
    from sciagent.yaml.document import text_of

    if bool(budget or goal_count or workers) == (file is not None):
        raise UsageError("say what to change: --budget, --goal-count and --workers, or --file with the edited YAML")
    why = directives.reason(reason) if reason else "amended"
    opened = open_ledger(ledger)
    with opened.read() as connection:
        row = pick_campaign(connection, name)
    if file is not None:
        source = text_of(file)
        spec, changes = amending.differences(row, source, str(file), file.resolve().parent)
    else:
        source = amending.amended_source(row, budget=budget or (), goal_count=goal_count, workers=workers)
        spec, changes = amending.differences(row, source, f"{row.name} (amended)", Path(row.base))
    written = bool(changes) and not dry_run
    if written:
        amending.amend(opened, spec, source, as_who or user(), why, changes)
    if json:
        put_json({"campaign": row.name, "changes": changes, "written": written})
        return
    for line in changes:
        put(line)
    if written:
        say(driver_line(opened, row.name))
    else:
        say("nothing was written (--dry-run)" if changes else "nothing changes")
