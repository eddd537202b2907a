"""`sciagent report NAME`: the report of a campaign as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sciagent.cli.shared.common import LedgerOption, open_ledger, put


def report(
    name: Annotated[str | None, typer.Argument(help="The campaign; may be left out if there is only one.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="An HTML file; default: NAME.report.html.")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, max=60, help="How many of the best get a card.")] = 12,
    episodes: Annotated[
        Path | None,
        typer.Option("--episodes", help="A folder for a page of every episode, besides; its index.html lists them."),
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
    ledger: LedgerOption = None,
) -> None:
    """Write the report of a campaign as it stands; a running campaign is not disturbed. Prints the file's name."""
    from sciagent.api.campaign import Campaign
    from sciagent.report.page import episode_pages

    opened = open_ledger(ledger)
    campaign = Campaign.open(name, opened)
    folder = None if episodes is None else episode_pages.checked(episodes)
    target = campaign.report(output, top).path
    put(str(target))
    if folder is not None:
        episode_pages.write_episodes(opened, campaign.name, folder)
        put(str(folder / "index.html"))
    if open_it:
        typer.launch(target.resolve().as_uri())
