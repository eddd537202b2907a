"""Two crews as one: computers run some rungs of a campaign, and people do the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy.engine import Connection

from sciagent.campaign.driving.crew import Crew, Places, PlannedJob, Quota
from sciagent.campaign.driving.lab_jobs import WorldJobs
from sciagent.domain.ladder import Position


class JointPlaces:
    """The places of one dispatch, of computers and of people. Neither takes those of the other."""

    def __init__(self, computers: Places, people: Quota, of_people: frozenset[Position]) -> None:
        self._computers, self._people, self._of_people = computers, people, of_people
        self._is_closed = False  # whether no less urgent job may overtake one that the computers had no place for

    @property
    def open(self) -> frozenset[Position]:
        return self._computers.open | self._people.open

    @property
    def wanted(self) -> int:
        return self._computers.wanted + self._people.wanted

    @property
    def has_free(self) -> bool:
        return self._computers.has_free or self._people.has_free

    @property
    def is_full(self) -> bool:
        return self._is_closed and self._people.is_full

    def take(self, position: Position, ample: bool) -> int | None:
        if position in self._of_people:
            return self._people.take(position, ample)
        call = None if self._is_closed else self._computers.take(position, ample)
        self._is_closed = self._is_closed or (call is None and self._computers.is_full)
        return call


class JointCrew(Crew):
    """The crew of computers together with that of people."""

    def __init__(self, computers: Crew, people: WorldJobs) -> None:
        super().__init__(computers.session, computers.pace)
        self._computers, self._people = computers, people

    @property
    def fault(self) -> str | None:  # type: ignore[override]
        return self._computers.fault

    @property
    def running(self) -> int:
        return self._computers.running

    def places(self, connection: Connection) -> Places:
        of_people = frozenset(rung.rules.position for rung in self.session.built.asked)
        return JointPlaces(self._computers.places(connection), self._people.places(connection), of_people)

    def start(self, connection: Connection, planned: Sequence[PlannedJob]) -> list[int]:
        theirs = [job for job in planned if job.rung.spec.is_world]
        others = [job for job in planned if not job.rung.spec.is_world]
        people = iter(self._people.start(connection, theirs) if theirs else [])
        computers = iter(self._computers.start(connection, others) if others else [])
        return [next(people if job.rung.spec.is_world else computers) for job in planned]

    def resume(self, connection: Connection, planned: Mapping[int, PlannedJob]) -> None:
        for crew, is_world in ((self._people, True), (self._computers, False)):
            if own := {id_: job for id_, job in planned.items() if job.rung.spec.is_world is is_world}:
                crew.resume(connection, own)

    def launch(self) -> int:
        return self._computers.launch() + self._people.launch()

    def settle(self) -> set[Position]:
        return {*self._computers.settle(), *self._people.settle()}

    def recall(self) -> None:
        self._computers.recall()

    def abort(self) -> None:
        self._computers.abort()

    def recount(self, connection: Connection) -> None:
        self._computers.recount(connection)

    def amend(self, connection: Connection) -> None:
        self._computers.amend(connection)
        self._people.amend(connection)

    def close(self) -> None:
        self._computers.close()
