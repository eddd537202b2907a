"""The chance of a hit of candidates that wait, by the law of now."""

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
from sciagent.store.views import queries

MOST = 3000  # candidates of a campaign beyond which making the law again takes too long for a list


def with_chances(
    ledger: Ledger, connection: Connection, row: CampaignRow, best: Sequence[BestCandidate]
) -> list[BestCandidate]:
    """The same with `p_hit` by the law, for those that wait for the terminal rung of a campaign that has a law and
    counts hits."""
    waiting = [candidate.key for candidate in best if candidate.p_hit is None]
    if not waiting or laws.last(connection, row.id) is None or queries.members(connection, row.id) > MOST:
        return list(best)
    from sciagent.campaign.pricing.forecast import remake  # takes a second to import

    try:
        campaign = remake(open_for_people(ledger, row.name), connection)
    except (SciagentError, OSError):
        return list(best)  # its files or verifiers are gone; `sciagent explain` says which
    if campaign is None or campaign.schema.aims.kind != "hits":
        return list(best)
    pool, ids = campaign.pool, candidates.ids_of(connection, waiting)
    row_of = {int(id_): place for place, id_ in enumerate(pool.ids.tolist())}
    asked = {key: row_of[id_] for key, id_ in ids.items() if id_ in row_of and not pool.closed[row_of[id_], -1]}
    if asked:
        campaign.scheduler.evaluate(pool, np.array(sorted(asked.values()), dtype=np.intp))
    p_hit = {key: float(campaign.scheduler.expected[place]) for key, place in asked.items()}
    return [c.model_copy(update={"p_hit": p_hit[c.key]}) if c.key in p_hit else c for c in best]
