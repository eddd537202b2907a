"""The best candidates of a campaign, as `best` shows them. It imports little, since the command is used often."""

from __future__ import annotations

from functools import partial

from sqlalchemy.engine import Connection

from sciagent.api.answers import best_brief, best_record
from sciagent.api.tables import ResultTable
from sciagent.campaign.pricing.chances import with_chances
from sciagent.domain.answers.values import BestCandidate
from sciagent.report.answers import best
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import Ledger


def best_of(ledger: Ledger, connection: Connection, row: CampaignRow, n: int) -> ResultTable[BestCandidate]:
    """Returns the n best candidates: hits first, then by the highest rung reached and the score there."""
    rows = with_chances(ledger, connection, row, best(connection, row, n))
    brief = partial(best_brief, properties=[objective["property"] for objective in row.spec["objectives"]])
    return ResultTable(rows, f"The best of {row.name}", brief, best_record)
