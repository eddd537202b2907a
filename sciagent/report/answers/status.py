"""How a campaign stands: what the store counts, and what the audit, the rungs, proposers and judges have shown."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from sciagent.domain.answers.status import Status
from sciagent.report.analysis import audit, proposers, rung_value
from sciagent.report.parts import opinions
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.views import queries


def status(connection: Connection, row: CampaignRow) -> Status:
    """The answer of `sciagent status`; what it needs beyond `queries.counts` takes longer in a large campaign."""
    counts = queries.counts(connection, row)
    return Status(
        **dict(counts),
        audit=audit.audit(connection, row),
        value=rung_value.value_of_rungs(connection, row),
        proposers=proposers.results(connection, row),
        opinions=opinions.opinions(connection, row),
    )
