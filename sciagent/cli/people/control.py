"""`sciagent pause | stop`: what a person tells the driver of a campaign, wherever it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from sciagent.cli.shared.common import (
    CampaignArgument,
    JsonOption,
    LedgerOption,
    ReasonOption,
    WhoOption,
    open_ledger,
    plural,
    put,
    put_json,
)


def pause(
    name: CampaignArgument = None,
    reason: ReasonOption = "",
    ledger: LedgerOption = None,
    as_who: WhoOption = None,
    json: JsonOption = False,
) -> None:
    """Start nothing new. What runs may finish; the driver stays, at no cost, until `sciagent resume` or `stop`.

    Time spent paused is no wall time of the campaign.
    """
    _tell("pause", name, reason, ledger, as_who, json)


def stop(
    name: CampaignArgument = None,
    reason: ReasonOption = "",
    now: Annotated[
        bool, typer.Option("--now", help="Kill what runs, here and elsewhere; it is run again after a resume.")
    ] = False,
    ledger: LedgerOption = None,
    as_who: WhoOption = None,
    json: JsonOption = False,
) -> None:
    """End a running campaign: what runs may finish, its driver ends, and `sciagent resume` goes on later."""
    _tell("stop", name, reason, ledger, as_who, json, now)


def _tell(
    verb: str, name: str | None, reason: str, ledger: str | None, as_who: str | None, json: bool, now: bool = False
) -> None:
    from sciagent.api.ledger import pick_campaign
    from sciagent.api.other_drivers import tell
    from sciagent.domain.campaigns.directives import Verb
    from sciagent.settings import user

    opened = open_ledger(ledger)
    with opened.read() as connection:
        campaign = pick_campaign(connection, name).name
    answer = tell(opened, campaign, Verb(verb), as_who or user(), reason, now)
    running, driver = (answer.running, answer.driver) if answer else (0, None)
    if json:
        where = f"{driver.host}:{driver.pid}" if driver else None
        put_json({"campaign": campaign, "told": verb, "driver": where, "running": running})
    elif driver is None:
        put(f"no dispatcher will take up {campaign} now; hand it in again with: sciagent submit {campaign}")
    else:
        rest = (
            f"{'kills' if now else 'finishes'} {plural(running, 'running job')}" if running else "has nothing running"
        )
        put(f"told the driver at {driver.host} (process {driver.pid}) to {verb}; it {rest}")
        put(f"go on with: sciagent resume {campaign}")
