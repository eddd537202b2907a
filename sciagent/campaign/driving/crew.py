"""The interface through which a driver starts and settles jobs, whoever runs them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import BuiltRung
from sciagent.campaign.core.record import Settling, given_up
from sciagent.campaign.driving.pace import Pace
from sciagent.campaign.driving.session import DriverSession
from sciagent.domain.campaigns.ladder import Position
from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import Cost
from sciagent.domain.evidence import EvidenceKey, Finding
from sciagent.domain.jobs.states import JobState
from sciagent.store.job_queue.jobs import NewJob, Offer
from sciagent.store.job_queue.leases import Claim
from sciagent.store.results.evidence import RecordedEvidence


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
    """Number of the call to a verifier that it belongs to, as `Places.take` gives it."""

    @property
    def position(self) -> Position:
        return self.rung.rules.position

    def row(self, campaign_id: int, priority: float, offer: Offer | None = None) -> NewJob:
        """The job's row in the ledger."""
        return NewJob(campaign_id, self.rung.id, self.candidate_id, 0, self.key.hash, priority, offer)


class Places(Protocol):
    """How many more jobs a crew can take in one dispatch."""

    @property
    def open(self) -> Collection[Position]:
        """Positions of the rungs that have a place."""

    @property
    def wanted(self) -> int:
        """The most jobs that could be started now."""

    @property
    def has_free(self) -> bool:
        """Whether a worker still has nothing to do."""

    @property
    def is_full(self) -> bool:
        """Whether there is no place for any other rung either, asked after `take` found none."""

    def take(self, position: Position, ample: bool) -> int | None:
        """Take a place for a job of this rung; the number of its call, or None without a place. ample: whether the
        budget holds many jobs like it."""


class Crew(ABC):
    """Those who run a campaign's jobs: the driver's own pool, or remote workers."""

    fault: str | None = None
    """Why no job is run any more until a person corrects something."""
    has_room: bool = True
    """Whether a job could be started now, as far as that is known without asking the ledger."""

    def __init__(self, session: DriverSession, pace: Pace) -> None:
        self.session, self.pace = session, pace

    @property
    @abstractmethod
    def running(self) -> int:
        """Jobs that are not over."""

    @property
    def claims(self) -> Sequence[Claim]:
        """Jobs whose leases the driver has to renew."""
        return ()

    @abstractmethod
    def places(self, connection: Connection) -> Places:
        """The places of one dispatch."""

    @abstractmethod
    def start(self, connection: Connection, planned: Sequence[tuple[PlannedJob, float]]) -> list[int]:
        """Enter new jobs, each with its priority, into the ledger; returns their ids in order."""

    @abstractmethod
    def resume(self, connection: Connection, planned: Mapping[int, PlannedJob]) -> None:
        """Take up queued jobs. planned: by job id."""

    @abstractmethod
    def launch(self) -> int:
        """Begin what was started or resumed, after the transaction was committed; returns how many jobs that is."""

    @abstractmethod
    def settle(self) -> AbstractSet[Position]:
        """Write what has come back and place its candidates; returns the positions of the rungs that answered."""

    @abstractmethod
    def recall(self) -> None:
        """Queue again what has not begun, since nothing more is to be started."""

    @abstractmethod
    def abort(self) -> None:
        """Do not wait for running jobs any more."""

    def recount(self, connection: Connection) -> None:
        """The budget was read from the ledger again: what it counts now is not to be counted again."""
        return None

    @abstractmethod
    def amend(self, connection: Connection) -> None:
        """Go on with the session's amended campaign."""

    @abstractmethod
    def close(self) -> None: ...


def settling_of(
    candidate_id: int,
    position: Position,
    state: JobState,
    finding: Finding | None,
    kills: int,
    losses: int = 0,
    recorded: RecordedEvidence | None = None,
) -> Settling:
    """How a candidate is placed whose job is over. finding: None where its evidence is in the ledger."""
    if finding is None or state is JobState.CANCELLED:
        return Settling(candidate_id, position)
    gave_up = None
    if state is JobState.QUARANTINED:
        gave_up = given_up(finding.outcome, finding.reason, finding.detail, kills, losses)
    return Settling(candidate_id, position, finding, gave_up, recorded)
