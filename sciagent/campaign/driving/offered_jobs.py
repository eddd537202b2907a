"""Jobs that a driver has offered to others, workers or people, and what it does when they have ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built, BuiltRung
from sciagent.campaign.core.record import Settling, decides, settle, settling_of
from sciagent.campaign.driving.session import DriverSession
from sciagent.domain.cost import Cost
from sciagent.domain.evidence import Finding
from sciagent.domain.ladder import Position
from sciagent.domain.states import JobState, Standing
from sciagent.store.campaign_state import standings
from sciagent.store.job_queue import offers, spend
from sciagent.store.job_queue.offers import Ended, Out


@dataclass(frozen=True)
class OfferedJob:
    """A job that was offered and is not settled yet."""

    out: Out
    position: Position
    declared: Cost | None
    reservation: Cost


def offered_jobs(connection: Connection, built: Built, rungs: Sequence[BuiltRung]) -> dict[int, OfferedJob]:
    """Returns the jobs of these rungs that are offered or running, by id."""
    positions = {rung.id: rung.rules.position for rung in rungs}
    held = spend.held(connection, built.row.id)
    return {
        out.job_id: OfferedJob(out, positions[out.rung_id], None, Cost(held.get(out.job_id)))
        for out in offers.outstanding(connection, built.row.id)
        if out.rung_id in positions
    }


def settle_ended(session: DriverSession, out: Mapping[int, OfferedJob]) -> list[Ended]:
    """Places the candidates of those of the jobs that have ended; returns the ends. out: jobs by id."""
    if not out:
        return []
    with session.built.ledger.read() as connection:
        ended = offers.ended(connection, {id_: job.out for id_, job in out.items()})
    if ended:
        with session.begin() as connection:
            settlings = [
                _settling(end, job)
                for end in ended
                if (job := out[end.job_id])
                and (end.state is not JobState.CANCELLED or _waits(connection, session, job))
                and decides(connection, session.built.all_rungs[job.position], job.out.candidate_id)
            ]
            settle(connection, session.built, settlings)
    return ended


def _waits(connection: Connection, session: DriverSession, job: OfferedJob) -> bool:
    """Whether the candidate still waits for this rung; a person who cancelled its job may have moved it."""
    row = standings.get(connection, session.built.row.id, job.out.candidate_id)
    return bool(row["standing"] == Standing.PENDING and row["position"] == job.position)


def _settling(end: Ended, job: OfferedJob) -> Settling:
    candidate_id, finding = job.out.candidate_id, None
    if end.state is not JobState.DONE and end.outcome is not None:
        finding = Finding(str(candidate_id), end.outcome, reason=end.reason, detail=end.detail)
    return settling_of(candidate_id, job.position, end.state, finding, end.kills, end.losses)
