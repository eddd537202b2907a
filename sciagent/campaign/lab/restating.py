"""A correction moves verdicts: the candidate is placed again in every campaign that has the corrected rung."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built, open_for_people
from sciagent.campaign.core.record import settle_again
from sciagent.domain.evidence import Computation
from sciagent.errors import SciagentError
from sciagent.store.campaign_state import campaigns, standings


def restate(connection: Connection, built: Built, candidate_id: int, computation: Computation, why: str) -> list[str]:
    """Places a candidate again in all campaigns whose ladder has the computation; returns their names.

    The caller holds the locks of all of them. A campaign that this process cannot open, such as one with the rung of
    another notebook, keeps its place and gets an event that says so.
    """
    names = []
    for campaign_id, name in campaigns.with_rung(connection, candidate_id, computation):
        try:
            other = built if campaign_id == built.row.id else open_for_people(built.ledger, name)
        except SciagentError as error:
            payload = {"candidate_id": candidate_id, "why": why, "error": str(error)[:500]}
            campaigns.log_event(connection, campaign_id, "not_restated", payload)
            continue
        before = standings.get(connection, campaign_id, candidate_id)
        settle_again(connection, other, candidate_id)
        after = standings.get(connection, campaign_id, candidate_id)
        payload = {"candidate_id": candidate_id, "why": why}
        payload |= {"verdict": [before["verdict"], after["verdict"]], "is_hit": [before["is_hit"], after["is_hit"]]}
        campaigns.log_event(connection, campaign_id, "restated", payload)
        campaigns.wake(connection, campaign_id)
        names.append(name)
    return names
