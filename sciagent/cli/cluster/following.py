"""Looks on while a dispatcher drives a campaign, until it has ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from sciagent.cli.shared.common import Exit, say

if TYPE_CHECKING:
    from sciagent.api.campaign import Campaign

LOOK_SECONDS = 1.0


def follow(campaign: Campaign, json: bool) -> None:
    """Returns, or raises typer.Exit, with the exit code of `sciagent run`. Ctrl-C ends the looking alone."""
    from sciagent.api.progress import Progress
    from sciagent.cli.campaigns.run import conclude
    from sciagent.execution.worker.runner import patiently

    name = campaign.name
    foot = "Ctrl-C looks away; the campaign goes on"
    try:
        with Progress(campaign.ledger.store, name, json, foot) as progress:
            while patiently(campaign.is_hosted):
                patiently(progress.step)
                time.sleep(LOOK_SECONDS)
        status = patiently(campaign.status)
    except KeyboardInterrupt:
        say(f"{name} goes on; see: sciagent status {name}")
        raise typer.Exit(Exit.INTERRUPTED) from None
    conclude(progress, campaign, status, None, json)
