"""Looks on while a dispatcher drives a campaign, until it has ended."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import typer

from sciagent.cli.shared.common import Exit, say

if TYPE_CHECKING:
    from sciagent.campaign.core.build import Built
    from sciagent.domain.answers.status import Status

LOOK_SECONDS = 1.0


def follow(built: Built, json: bool) -> None:
    """Returns, or raises typer.Exit, with the exit code of `sciagent run`. Ctrl-C ends the looking alone."""
    from sciagent.cli.campaigns.run import conclude
    from sciagent.cli.shared.progress import Progress
    from sciagent.execution.worker.runner import patiently

    name = built.row.name
    try:
        with Progress(built, json, "Ctrl-C looks away; the campaign goes on") as progress:
            while patiently(partial(_goes_on, built)):
                patiently(progress.step)
                time.sleep(LOOK_SECONDS)
        status = patiently(partial(_status, built))
    except KeyboardInterrupt:
        say(f"{name} goes on; see: sciagent status {name}")
        raise typer.Exit(Exit.INTERRUPTED) from None
    conclude(progress, built, status, None, json)


def _goes_on(built: Built) -> bool:
    from sciagent.store.campaign_state import campaigns

    with built.ledger.read() as connection:
        return campaigns.is_hosted(connection, built.row.id)


def _status(built: Built) -> Status:
    from sciagent.report.answers.status import status
    from sciagent.store.campaign_state import campaigns

    with built.ledger.read() as connection:
        return status(connection, campaigns.get(connection, built.row.name))
