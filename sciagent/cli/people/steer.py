"""`sciagent hold | release | veto | promote CANDIDATE`: a person's word on one candidate."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

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
    from sciagent.campaign.core.build import Built
    from sciagent.campaign.people.resolving import Named
    from sciagent.store.database.ledger import Ledger

CandidateArgument = Annotated[
    str, typer.Argument(metavar="CANDIDATE", help="SMILES, at least 6 digits of the key, or InChIKey.")
]
CampaignOption = Annotated[
    str | None, typer.Option("--campaign", "-c", help="The campaign; may be left out if there is only one.")
]
ReasonOption = Annotated[str, typer.Option("--reason", "-r", help="Why; it is kept with your name and the time.")]


def hold(
    candidate: CandidateArgument,
    reason: ReasonOption,
    campaign: CampaignOption = None,
    ledger: LedgerOption = None,
    as_who: WhoOption = None,
    json: JsonOption = False,
) -> None:
    """Start nothing more for a candidate until it is released. What runs may finish; what waits is cancelled."""
    _steer("hold", candidate, reason, campaign, ledger, as_who, json)


def release(
    candidate: CandidateArgument,
    reason: ReasonOption,
    campaign: CampaignOption = None,
    ledger: LedgerOption = None,
    as_who: WhoOption = None,
    json: JsonOption = False,
) -> None:
    """Take back a hold or a veto: the candidate stands again where its evidence puts it."""
    _steer("release", candidate, reason, campaign, ledger, as_who, json)


def veto(
    candidate: CandidateArgument,
    reason: ReasonOption,
    campaign: CampaignOption = None,
    ledger: LedgerOption = None,
    as_who: WhoOption = None,
    json: JsonOption = False,
) -> None:
    """Take a candidate out: nothing more is started for it, and it is no hit and no parent. Its evidence is kept.

    A job that waits is cancelled; one that runs may finish. `sciagent release` undoes it.
    """
    _steer("veto", candidate, reason, campaign, ledger, as_who, json)


def promote(
    candidate: CandidateArgument,
    reason: ReasonOption,
    to: Annotated[str | None, typer.Option("--to", metavar="RUNG", help="The rung; default: the next one.")] = None,
    campaign: CampaignOption = None,
    ledger: LedgerOption = None,
    as_who: WhoOption = None,
    json: JsonOption = False,
) -> None:
    """Run a rung on a candidate whatever the gates below have said, before all that the scheduler would choose.

    The budget still holds, and so does the safety screen. The decision is kept with your name and reason.
    """
    _steer("promote", candidate, reason, campaign, ledger, as_who, json, to=to)


def _steer(
    verb: str, text: str, reason: str, campaign: str | None, ledger: str | None, as_who: str | None, json: bool,
    **more: Any,
) -> None:  # fmt: skip
    from sciagent.campaign.people import steering
    from sciagent.store.campaign_state import directives

    why = directives.reason(reason)
    built, named = find(ledger, campaign, text)
    done = getattr(steering, verb)(built, named, as_who or who(), why, **more)
    if json:
        put_json(asdict(done))
        return
    word = {"hold": "held", "release": "released", "veto": "vetoed", "promote": "promoted"}[verb]
    put(f"{word}: {named}" + (f"; {done.detail}" if done.detail else ""))
    if done.cancelled:
        put(f"  cancelled: its job at {', '.join(done.cancelled)}, which nobody had begun")
    if done.running:
        put(f"  it runs at {', '.join(done.running)}: that may finish, and its evidence is kept")
    if verb == "release":
        put(f"  it is {done.standing} again, at {done.rung}")
    say(driver_line(built.ledger, built.row.name))


def find(ledger: str | None, campaign: str | None, text: str) -> tuple[Built, Named]:
    """The campaign and the candidate that the words name."""
    from sciagent.campaign.core.build import open_for_people
    from sciagent.campaign.people.resolving import resolve

    opened = open_ledger(ledger)
    with opened.read() as connection:
        row = pick_campaign(connection, campaign)
        named = resolve(connection, row, text)
    return open_for_people(opened, row.name), named


def driver_line(ledger: Ledger, name: str) -> str:
    """Who will act on it, and when."""
    from sciagent.store.campaign_state import campaigns

    with ledger.read() as connection:
        row = campaigns.get(connection, name)
        driver = campaigns.driver_of(connection, row.id)
    if driver is not None and driver.alive:
        return f"the driver at {driver.host} (process {driver.pid}) goes by it from now on"
    return f'campaign "{row.name}" is not running ({row.state}); it counts from the next: sciagent resume {row.name}'
