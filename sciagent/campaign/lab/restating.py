"""An answer counts in every campaign that asks for it, and a correction moves the verdict in each of them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built, open_within
from sciagent.campaign.core.record import settle_again
from sciagent.domain.evidence import Computation
from sciagent.errors import SciagentError
from sciagent.store.campaign_state import campaigns, standings
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs
from sciagent.store.lab.tasks import LabTask


def share(
    connection: Connection, ledger: Ledger, asking: Sequence[LabTask], evidence_id: int, chooser: str, why: str
) -> None:
    """Gives an answer to the tasks that ask for the same: those that nobody has claimed go off the list, and their
    candidates are placed. chooser, why: of the decision. The caller holds the locks of all their campaigns."""
    for other in asking:
        try:
            built = open_within(connection, ledger, other.campaign)
        except SciagentError:
            continue  # one with the rung of another notebook; its own driver reuses the evidence
        rung = next((rung for rung in built.asked if rung.id == other.rung_id), None)
        if rung is None or not jobs.cancel_queued(connection, [other.id]):
            continue
        decision = {
            "candidate_id": other.candidate_id,
            "rung_id": rung.id,
            "action": "reuse",
            "chooser": chooser[:100],
            "why": why,
            "propensity": 1.0,
            "evidence_id": evidence_id,
        }
        standings.decide(connection, built.row.id, [decision])
        settle_again(connection, built, other.candidate_id, answered=rung.rules.position)
        campaigns.wake(connection, built.row.id)


def restate(connection: Connection, built: Built, candidate_id: int, computation: Computation, why: str) -> list[str]:
    """Places a candidate again in all campaigns whose ladder has the computation; returns their names.

    The caller holds the locks of all of them. A campaign that this process cannot open, such as one with the rung of
    another notebook, keeps its place and gets an event that says so.
    """
    names = []
    for campaign_id, name in campaigns.with_rung(connection, candidate_id, computation):
        try:
            other = built if campaign_id == built.row.id else open_within(connection, built.ledger, name)
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
