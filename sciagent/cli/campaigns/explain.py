"""`sciagent explain CANDIDATE`: everything the ledger knows of one candidate, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sciagent.cli.people.steer import CampaignOption, CandidateArgument
from sciagent.cli.shared.common import JsonOption, LedgerOption, open_ledger, put_json

if TYPE_CHECKING:
    from sciagent.domain.answers.explanation import Explanation, RefusedText
    from sciagent.store.database.ledger import Ledger


def register(app: typer.Typer) -> None:
    app.command("explain", epilog="Example: sciagent explain 'O=Cc1ccccc1' --campaign quickstart")(explain)


def explain(
    candidate: CandidateArgument,
    campaign: CampaignOption = None,
    full: Annotated[bool, typer.Option("--full", help="Settings, engine versions, keys and files too.")] = False,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """What a candidate is, who proposed it, what each rung said, why it stands where it stands, and what it cost.

    For one that waits in a priced campaign: its value, its chance of a hit, its index against the price, and what
    would be bought next. A text that was proposed and refused is found, too, with the reason.
    """
    answer = _answer(open_ledger(ledger), candidate, campaign)
    if json:
        put_json(answer)
        return
    from rich.console import Console

    from sciagent.cli.campaigns.explain_lines import lines, refused_lines
    from sciagent.cli.shared.tables import print_paragraph

    console = Console()
    for line in lines(answer, full) if answer.key is not None else refused_lines(answer):
        print_paragraph(console, line)


def _answer(ledger: Ledger, candidate: str, campaign: str | None) -> Explanation | RefusedText:
    from sciagent.campaign.people import explaining
    from sciagent.campaign.people.resolving import resolve
    from sciagent.errors import UsageError
    from sciagent.store.campaign_state import campaigns

    with ledger.read() as connection:
        row = campaigns.get(connection, campaign) if campaign is not None else None
        try:
            named = resolve(connection, row, candidate)
        except UsageError:
            refused = explaining.refused(connection, candidate, campaign)
            if refused is None:
                raise
            return refused
        rows = explaining.campaigns_to_tell(connection, named.id, campaign)
        return explaining.explain(connection, named.id, rows, ledger)
