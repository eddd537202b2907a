"""`sciagent hold | release | veto | promote CANDIDATE`: a person's decision on a candidate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from sciagent.cli.shared.common import (
    CampaignOption,
    CandidateArgument,
    JsonOption,
    LedgerOption,
    ReasonOption,
    WhoOption,
    open_ledger,
    put,
    put_json,
    say,
)
from sciagent.settings import user

DONE = {"hold": "held", "release": "released", "veto": "vetoed", "promote": "promoted"}


def _command(verb: str, help: str) -> Callable[..., None]:
    """The command of a verb whose only argument is the candidate."""

    def steer(
        candidate: CandidateArgument,
        reason: ReasonOption,
        campaign: CampaignOption = None,
        ledger: LedgerOption = None,
        as_who: WhoOption = None,
        json: JsonOption = False,
    ) -> None:
        _steer(verb, candidate, reason, campaign, ledger, as_who, json)

    steer.__doc__ = help
    return steer


hold = _command(
    "hold", "Start nothing more for a candidate until it is released. What runs may finish; what waits is cancelled."
)
release = _command("release", "Take back a hold or a veto: the candidate stands again where its evidence puts it.")
veto = _command(
    "veto",
    """Take a candidate out: nothing more is started for it, and it is no hit and no parent. Its evidence is kept.

    A queued job is cancelled; a running job may finish. `sciagent release` undoes it.
    """,
)


def promote(
    candidate: CandidateArgument,
    reason: ReasonOption,
    to: Annotated[str | None, typer.Option("--to", metavar="RUNG", help="The rung; default: the next.")] = None,
    campaign: CampaignOption = None,
    ledger: LedgerOption = None,
    as_who: WhoOption = None,
    json: JsonOption = False,
) -> None:
    """Run a rung on a candidate whatever the gates below have decided, before all that the scheduler would choose.

    The budget still holds, and so does the safety screen. The decision is kept with your name and reason.
    """
    _steer("promote", candidate, reason, campaign, ledger, as_who, json, to=to)


def _steer(
    verb: str,
    text: str,
    reason: str,
    campaign: str | None,
    ledger: str | None,
    as_who: str | None,
    json: bool,
    **more: str | None,
) -> None:
    from sciagent.api.ledger import pick_campaign
    from sciagent.api.other_drivers import driver_line
    from sciagent.campaign.core.build import open_for_people
    from sciagent.campaign.people import steering
    from sciagent.campaign.people.resolving import resolve
    from sciagent.store.campaign_state import directives

    why = directives.reason(reason)
    opened = open_ledger(ledger)
    with opened.read() as connection:
        row = pick_campaign(connection, campaign)
        named = resolve(connection, row, text)
    result = getattr(steering, verb)(open_for_people(opened, row.name), named, as_who or user(), why, **more)
    if json:
        put_json(result)
        return
    put(f"{DONE[verb]}: {named}" + (f"; {result.detail}" if result.detail else ""))
    if result.cancelled:
        put(f"  cancelled: its job at {', '.join(result.cancelled)}, which nobody had begun")
    if result.running:
        put(f"  it runs at {', '.join(result.running)}: that may finish, and its evidence is kept")
    if verb == "release":
        put(f"  it is {result.standing} again, at {result.rung}")
    say(driver_line(opened, row.name))
