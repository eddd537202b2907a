"""The interface through which a driver starts and settles jobs, local or remote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import BuiltRung
from sciagent.campaign.driving.pace import Pace, Places
from sciagent.campaign.driving.session import DriverSession
from sciagent.domain.campaigns.ladder import Position
from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import Cost
from sciagent.domain.evidence import EvidenceKey
from sciagent.store.job_queue.jobs import NewJob, Offer


@dataclass(frozen=True)
class PlannedJob:
    """A job that is to be started."""

    rung: BuiltRung
    candidate_id: int
    candidate: Candidate
    key: EvidenceKey
    declared: Cost | None
    """Cost that the verifier declares; None if it declares none."""
    reservation: Cost
    """Cost reserved in the budget."""
    call: int = 0
    """Number of the call that runs this job, possibly with other jobs."""

    @property
    def position(self) -> Position:
        return self.rung.rules.position

    def row(self, campaign_id: int, priority: float, offer: Offer | None = None) -> NewJob:
        """Returns the job's row for the ledger."""
        return NewJob(campaign_id, self.rung.id, self.candidate_id, 0, self.key.hash, priority, offer)


class Crew(Protocol):
    """The runner of a campaign's jobs: the driver's own pool, or remote workers."""

    session: DriverSession
    pace: Pace
    fault: str | None = None
    """Reason why no job can run until a person corrects something."""
    has_room: bool = True
    """Whether a job could be started now, as far as the driver knows without reading the ledger."""

    def __init__(self, session: DriverSession, pace: Pace) -> None:
        self.session, self.pace = session, pace

    @property
    def running(self) -> int:
        """Number of jobs that are not over."""

    def places(self, connection: Connection) -> Places:
        """Returns the places of one dispatch."""

    def start(self, connection: Connection, planned: Sequence[tuple[PlannedJob, float]]) -> list[int]:
        """Writes new jobs to the ledger; returns their ids in order. planned: pairs of job and priority."""

    def resume(self, connection: Connection, planned: Mapping[int, PlannedJob]) -> None:
        """Claims or offers queued jobs again. planned: jobs by id."""

    def launch(self) -> int:
        """Runs the jobs that were started or resumed, after the commit; returns their number."""

    def settle(self) -> AbstractSet[Position]:
        """Writes results of finished jobs and places their candidates; returns the positions of their rungs."""

    def recall(self) -> None:
        """Takes back jobs that have not begun, since no more jobs may start."""

    def abort(self) -> None:
        """Stops waiting for running jobs."""

    def recount(self, connection: Connection) -> None:
        """Called after the budget was read from the ledger again, so that no cost is counted twice."""
        return None

    def amend(self, connection: Connection) -> None:
        """Adopts the session's amended campaign."""

    def close(self) -> None: ...
