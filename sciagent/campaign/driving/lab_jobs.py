"""The crew of people: puts jobs on the lab's list, limits how many are on it, and settles what was answered.

Nobody waits for people: a driver with nothing else to do ends, and its campaign is `waiting`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy.engine import Connection

from sciagent.campaign.driving.crew import Crew, Pace, PlannedJob, Quota
from sciagent.campaign.driving.offered_jobs import OfferedJob, offered_jobs, settle_ended
from sciagent.campaign.driving.people_out import needed
from sciagent.campaign.driving.session import DriverSession
from sciagent.domain.lab import QUEUE
from sciagent.domain.ladder import Position
from sciagent.store.job_queue import jobs, offers, spend
from sciagent.store.job_queue.jobs import Offer
from sciagent.store.lab import tasks

OFFER = Offer(QUEUE, None, None)


class WorldJobs(Crew):
    """The crew of people. Tasks that are out do not count as running."""

    running = 0

    def __init__(self, session: DriverSession, pace: Pace, connection: Connection) -> None:
        super().__init__(session, pace)
        self._out: dict[int, OfferedJob] = {}
        self._new = 0  # number of tasks put on the list since the last launch
        self.amend(connection)

    def amend(self, connection: Connection) -> None:
        """Loads the tasks that are out."""
        self._out = offered_jobs(connection, self.session.built, self.session.built.asked)

    def places(self, connection: Connection) -> Quota:
        """Returns how many more tasks of each rung may be put on the list."""
        built = self.session.built
        out = tasks.open_by_rung(connection, built.row.id)
        quota = {}
        for rung in built.asked:
            each = 1 if rung.spec.lab is None else rung.spec.lab.replicates
            free = -(-out.get(rung.id, (0, 0))[0] // each)  # candidates, not tasks
            room = rung.spec.list_length(built.spec.budget.rates().get("lab_slots")) // each - free
            if rung.rules.is_terminal and room > 0:
                out_here = len(tasks.open_candidates(connection, rung.id))
                room = int(min(room, needed(connection, self.session, out_here)))
            quota[rung.rules.position] = max(0, room)
        return Quota(quota)

    def start(self, connection: Connection, planned: Sequence[PlannedJob]) -> list[int]:
        ids = jobs.create_many(connection, [job.row(self.session.built.row.id, OFFER) for job in planned])
        self._add(connection, dict(zip(ids, planned, strict=True)))
        self._replicate(connection, planned)
        return ids

    def _replicate(self, connection: Connection, planned: Sequence[PlannedJob]) -> None:
        """Puts the further measurements of each candidate on the list."""
        campaign_id = self.session.built.row.id
        further = [
            (job, replace(job.row(campaign_id, OFFER), replicate=n, evidence_key=replace(job.key, replicate=n).hash))
            for job in planned
            if job.rung.spec.lab is not None
            for n in range(1, job.rung.spec.lab.replicates)
        ]
        if further:
            ids = jobs.create_many(connection, [row for _, row in further])
            spend.reserve_many(
                connection, campaign_id, {i: job.reservation for i, (job, _) in zip(ids, further, strict=True)}
            )
            self._add(connection, {id_: job for id_, (job, _) in zip(ids, further, strict=True)})

    def resume(self, connection: Connection, planned: Mapping[int, PlannedJob]) -> None:
        offers.offer_many(connection, dict.fromkeys(planned, OFFER))
        self._add(connection, planned)

    def _add(self, connection: Connection, planned: Mapping[int, PlannedJob]) -> None:
        due = {id_: job.rung.spec.lab.due_days for id_, job in planned.items() if job.rung.spec.lab is not None}
        tasks.enter(connection, list(due), due)
        self._new += len(planned)
        for id_, job in planned.items():
            out = offers.Out(id_, job.candidate_id, job.rung.id)
            self._out[id_] = OfferedJob(out, job.position, job.declared, job.reservation)

    def launch(self) -> int:
        """Returns the number of tasks that are new on the list; there may be more to come."""
        new, self._new = self._new, 0
        return new

    def settle(self) -> set[Position]:
        """Places the candidates of answered tasks. What they cost was booked when they were claimed."""
        ended = settle_ended(self.session, self._out)
        if not ended:
            return set()
        done = [self._out.pop(end.job_id) for end in ended]
        with self.session.built.ledger.read() as connection:
            self.session.recount(connection)
        self.session.purchasing.pool.touch(job.out.candidate_id for job in done)
        return {job.position for job in done}

    def recall(self) -> None:
        """Does nothing: tasks stay on the list, which shows those of a resting campaign to nobody."""

    def abort(self) -> None:
        """Does nothing: no process waits for people."""

    def close(self) -> None:
        return None
