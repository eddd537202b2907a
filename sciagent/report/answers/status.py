"""The status of a campaign: counts of the store, and the results of audit, rungs, proposers and judges."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from sciagent.domain.answers.status import Status
from sciagent.report.analysis import audit, proposers, rung_value
from sciagent.report.parts import judge_agreement
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.views import campaign_counts


def status(connection: Connection, row: CampaignRow) -> Status:
    """Returns the answer of `sciagent status`; for a large campaign it takes longer than `campaign_counts.counts`."""
    counts = campaign_counts.counts(connection, row)
    return Status(
        **dict(counts),
        audit=audit.audit(connection, row),
        value=rung_value.value_of_rungs(connection, row),
        proposers=proposers.results(connection, row),
        opinions=judge_agreement.opinions(connection, row),
    )
