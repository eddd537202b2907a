"""The interface through which a driver starts and settles jobs, whoever runs them."""

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
    """A job that is about to be started."""

    rung: BuiltRung
    candidate_id: int
    candidate: Candidate
    key: EvidenceKey
    declared: Cost | None
    """What the verifier expects to spend; None where it cannot tell."""
    reservation: Cost
    """What the budget holds for it."""
    call: int = 0
    """Number of the call that it shares with others."""

    @property
    def position(self) -> Position:
        return self.rung.rules.position

    def row(self, campaign_id: int, priority: float, offer: Offer | None = None) -> NewJob:
        """The job's row in the ledger."""
        return NewJob(campaign_id, self.rung.id, self.candidate_id, 0, self.key.hash, priority, offer)


class Crew(Protocol):
    """Those who run a campaign's jobs: the driver's own pool, or remote workers."""

    session: DriverSession
    pace: Pace
    fault: str | None = None
    """Why no job is run any more until a person corrects something."""
    has_room: bool = True
    """Whether a job could be started now, as far as that is known without asking the ledger."""

    def __init__(self, session: DriverSession, pace: Pace) -> None:
        self.session, self.pace = session, pace

    @property
    def running(self) -> int:
        """Jobs that are not over."""

    def places(self, connection: Connection) -> Places:
        """The places of one dispatch."""

    def start(self, connection: Connection, planned: Sequence[tuple[PlannedJob, float]]) -> list[int]:
        """Enter new jobs, each with its priority, into the ledger; returns their ids in order."""

    def resume(self, connection: Connection, planned: Mapping[int, PlannedJob]) -> None:
        """Take up queued jobs. planned: by job id."""

    def launch(self) -> int:
        """Begin what was started or resumed, after the transaction was committed; returns how many jobs that is."""

    def settle(self) -> AbstractSet[Position]:
        """Write what has come back and place its candidates; returns the positions of the rungs that answered."""

    def recall(self) -> None:
        """Queue again what has not begun, since nothing more is to be started."""

    def abort(self) -> None:
        """Do not wait for running jobs any more."""

    def recount(self, connection: Connection) -> None:
        """Called when the budget was read from the ledger again: what it counts now is not to be counted again."""
        return None

    def amend(self, connection: Connection) -> None:
        """Go on with the session's amended campaign."""

    def close(self) -> None: ...
