"""`sciagent pause | stop`: a word to the driver of a campaign, wherever it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from sciagent.cli.shared.common import (
    JsonOption,
    LedgerOption,
    WhoOption,
    open_ledger,
    pick_campaign,
    put,
    put_json,
    who,
)

NameArgument = Annotated[str | None, typer.Argument(help="The campaign; may be left out if there is only one.")]
WhyOption = Annotated[str, typer.Option("--reason", "-r", help="Why; it is kept with your name and the time.")]


def pause(
    name: NameArgument = None,
    reason: WhyOption = "",
    ledger: LedgerOption = None,
    as_who: WhoOption = None,
    json: JsonOption = False,
) -> None:
    """Start nothing new. What runs may finish; the driver stays, at no cost, until `sciagent resume` or `stop`.

    Time spent paused is no wall time of the campaign.
    """
    _tell("pause", name, reason, ledger, as_who, json, {})


def stop(
    name: NameArgument = None,
    reason: WhyOption = "",
    now: Annotated[
        bool, typer.Option("--now", help="Kill what runs, here and elsewhere; it is run again after a resume.")
    ] = False,
    ledger: LedgerOption = None,
    as_who: WhoOption = None,
    json: JsonOption = False,
) -> None:
    """End a running campaign: what runs may finish, its driver ends, and `sciagent resume` goes on later."""
    _tell("stop", name, reason, ledger, as_who, json, {"now": now})


def _tell(
    verb: str, name: str | None, reason: str, ledger: str | None, as_who: str | None, json: bool,
    payload: dict[str, bool],
) -> None:  # fmt: skip
    from sciagent.domain.campaigns.directives import Verb
    from sciagent.domain.jobs.states import AttemptState, CampaignState
    from sciagent.errors import UsageError
    from sciagent.store.campaign_state import campaigns, directives
    from sciagent.store.database import tables as t
    from sciagent.store.views import queries

    person, why = as_who or who(), directives.reason(reason) if reason else ""
    opened = open_ledger(ledger)
    with opened.begin() as connection:
        row = pick_campaign(connection, name)
        driver = campaigns.driver_of(connection, row.id)
        alive = driver is not None and driver.alive
        waits = verb == "stop" and not alive and campaigns.host(connection, row.id, False)
    if waits:
        if json:
            put_json({"campaign": row.name, "told": verb, "driver": None, "running": 0})
        else:
            put(f"no dispatcher will take up {row.name} now; hand it in again with: sciagent submit {row.name}")
        return
    if driver is None or not alive:
        gone = f"; its driver on {driver.host} is gone" if driver is not None else ""
        raise UsageError(f'campaign "{row.name}" is not running ({row.state}{gone}): there is nothing to {verb}')
    if verb == "pause" and row.state is CampaignState.PAUSED:
        raise UsageError(f'campaign "{row.name}" is paused already; go on with: sciagent resume {row.name}')
    with opened.begin() as connection:
        directives.write(connection, row.id, Verb(verb), person, why, payload=payload)
        running = queries.count(
            connection, t.attempt, t.attempt.c.campaign_id == row.id, t.attempt.c.state == AttemptState.RUNNING
        )
    if json:
        put_json({"campaign": row.name, "told": verb, "driver": f"{driver.host}:{driver.pid}", "running": running})
        return
    put(f"told the driver at {driver.host} (process {driver.pid}) to {verb}; it {_rest(running, payload)}")
    put(f"go on with: sciagent resume {row.name}")


def _rest(running: int, payload: dict[str, bool]) -> str:
    """What becomes of the jobs that run."""
    if not running:
        return "has nothing running"
    jobs = f"{running} job{'' if running == 1 else 's'} that run{'s' if running == 1 else ''}"
    return f"{'kills' if payload.get('now') else 'finishes'} the {jobs}"
