"""The chance of a hit of waiting candidates, by the campaign's current law."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import open_for_people
from sciagent.domain.answers.best import BestCandidate
from sciagent.errors import SciagentError
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates, laws
from sciagent.store.views import campaign_counts

MOST = 3000  # number of candidates above which rebuilding the law takes too long for a list


def with_chances(
    ledger: Ledger, connection: Connection, row: CampaignRow, best: Sequence[BestCandidate]
) -> list[BestCandidate]:
    """Returns `best` with `p_hit` added to candidates that wait for the terminal rung, if the campaign has a law and
    counts hits."""
    waiting = [candidate.key for candidate in best if candidate.p_hit is None]
    if not waiting or laws.last(connection, row.id) is None or campaign_counts.members(connection, row.id) > MOST:
        return list(best)
    from sciagent.campaign.pricing.priced_campaign import remake  # takes a second to import

    try:
        campaign = remake(open_for_people(ledger, row.name), connection)
    except (SciagentError, OSError):
        return list(best)  # files or verifiers are missing; `sciagent explain` names them
    if campaign is None or campaign.schema.aims.kind != "hits":
        return list(best)
    pool, row_of = campaign.pool, {int(id_): row for row, id_ in enumerate(campaign.pool.ids.tolist())}
    rows = {key: row_of[id_] for key, id_ in candidates.ids_of(connection, waiting).items() if id_ in row_of}
    rows = {key: row for key, row in rows.items() if not pool.closed[row, -1]}
    if rows:
        campaign.scheduler.evaluate(pool, np.array(sorted(rows.values()), dtype=np.intp))
    p_hit = {key: float(campaign.scheduler.expected[row]) for key, row in rows.items()}
    return [c.model_copy(update={"p_hit": p_hit[c.key]}) if c.key in p_hit else c for c in best]
