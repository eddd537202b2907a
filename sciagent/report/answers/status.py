"""How a campaign stands: what the store counts, and what the audit, the rungs, proposers and judges have shown."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from sciagent.domain.answers.status import Status
from sciagent.report import audit, earning, finders, opinions
from sciagent.store import queries
from sciagent.store.campaigns import CampaignRow


def status(connection: Connection, row: CampaignRow) -> Status:
    """The answer of `sciagent status`; what it needs beyond `queries.counts` takes longer in a large campaign."""
    counts = queries.counts(connection, row)
    return Status(
        **dict(counts),
        audit=audit.audit(connection, row),
        value=earning.earning(connection, row),
        proposers=finders.results(connection, row),
        opinions=opinions.opinions(connection, row),
    )
