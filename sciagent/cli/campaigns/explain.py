"""`sciagent explain CANDIDATE`: everything the ledger knows of one candidate, in plain words."""

from __future__ import annotations

from typing import Annotated

import typer

from sciagent.cli.people.steer import CampaignOption, CandidateArgument
from sciagent.cli.shared.common import JsonOption, LedgerOption, open_ledger, put_json


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
    from sciagent.campaign.people.explaining import explain_named
    from sciagent.domain.answers.explanation import RefusedText

    answer = explain_named(open_ledger(ledger), candidate, campaign)
    if json:
        put_json(answer)
        return
    from rich.console import Console

    from sciagent.cli.campaigns.explanation_text import lines, refused_lines
    from sciagent.cli.shared.tables import print_paragraph

    console = Console()
    for line in refused_lines(answer) if isinstance(answer, RefusedText) else lines(answer, full):
        print_paragraph(console, line)
