"""The chance of a hit of waiting candidates, by the campaign's current law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy.engine import Connection

from sciagent.domain.answers.values import BestCandidate
from sciagent.errors import SciagentError
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates, laws
from sciagent.store.views import campaign_counts

if TYPE_CHECKING:
    from sciagent.campaign.pricing.priced_campaign import PricedCampaign

MOST = 3000  # number of candidates above which rebuilding the law takes too long for a list


def with_chances(
    ledger: Ledger, connection: Connection, row: CampaignRow, best: Sequence[BestCandidate]
) -> list[BestCandidate]:
    """Returns `best` with `p_hit` added to candidates that wait for the terminal rung, if the campaign has a law and
    counts hits."""
    waiting = [candidate.key for candidate in best if candidate.p_hit is None and not candidate.verified]
    if not waiting or laws.last(connection, row.id) is None or campaign_counts.members(connection, row.id) > MOST:
        return list(best)
    from sciagent.campaign.core.build import open_for_people  # these take a second to import
    from sciagent.campaign.pricing.priced_campaign import remake

    try:
        campaign = remake(open_for_people(ledger, row.name), connection)
    except (SciagentError, OSError):
        return list(best)  # files or verifiers are missing; `sciagent explain` names them
    if campaign is None or campaign.schema.aims.kind != "hits":
        return list(best)
    p_hit = _chances(campaign, candidates.ids_of(connection, waiting))
    return [c.model_copy(update={"p_hit": p_hit[c.key]}) if c.key in p_hit else c for c in best]


def _chances(campaign: PricedCampaign, ids: Mapping[str, int]) -> dict[str, float]:
    """Returns the chance of a hit, by candidate key, if the terminal rung is still open. ids: ledger ids by key."""
    import numpy as np

    pool = campaign.pool
    row_of = {int(id_): place for place, id_ in enumerate(pool.ids.tolist())}
    asked = {key: row_of[id_] for key, id_ in ids.items() if id_ in row_of and not pool.closed[row_of[id_], -1]}
    if asked:
        campaign.scheduler.evaluate(pool, np.array(sorted(asked.values()), dtype=np.intp))
    return {key: float(campaign.scheduler.expected[place]) for key, place in asked.items()}
