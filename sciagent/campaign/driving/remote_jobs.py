"""The crew of remote workers: offers jobs, limits how many are offered, and settles finished jobs.

A crew is the part of a driver that has jobs run. `offered_jobs` and `settle_ended` also serve the crew of people.
"""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.campaign.core.record_results_and_place import Settling, is_verdict_due, settle, settling_of
from sciagent.campaign.driving.driver_state_and_heartbeat import Crew, DriverSession
from sciagent.campaign.driving.job_slots import Pace, PlannedJob, Quota
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import Finding
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.states_and_needs import CORES, JobState, Standing, needs_text
from sciagent.execution.executor_wakes_workers import Executor
from sciagent.store.campaign_state import campaigns, candidate_standings
from sciagent.store.job_queue import jobs, offers_claims_and_ended_jobs, reservations_and_bookings, workers_and_capacity
from sciagent.store.job_queue.jobs import Offer
from sciagent.store.job_queue.offers_claims_and_ended_jobs import EndedJob, OutstandingJob
from sciagent.store.job_queue.workers_and_capacity import capacity, impossible_request_text


@dataclass(frozen=True)
class OfferedJob:
    """A job that was offered and is not settled yet."""

    out: OutstandingJob
    position: Position
    """Position of its rung."""
    declared: Cost | None
    """Cost that the verifier declares; None if it declares none, or if the job was read from the ledger."""
    reservation: Cost
    """Cost reserved in the budget."""


def offered_jobs(connection: Connection, built: Built, rungs: Sequence[BuiltRung]) -> dict[int, OfferedJob]:
    """Returns the jobs of these rungs that are offered or running, by id."""
    positions = {rung.id: rung.rules.position for rung in rungs}
    held = reservations_and_bookings.reserved_by_job(connection, built.row.id)
    offered = {}
    for out in offers_claims_and_ended_jobs.outstanding(connection, built.row.id):
        if out.rung_id in positions:
            reservation = Cost(held.get(out.job_id))
            offered[out.job_id] = OfferedJob(out, positions[out.rung_id], declared=None, reservation=reservation)
    return offered


def settle_ended(session: DriverSession, out: Mapping[int, OfferedJob]) -> list[EndedJob]:
    """Places the candidates of the offered jobs that have ended; returns the ended jobs. out: offered jobs, by id."""
    if not out:
        return []
    with session.built.ledger.read() as connection:
        ended = offers_claims_and_ended_jobs.ended_jobs(connection, {id_: job.out for id_, job in out.items()})
    if ended:
        with session.begin() as connection:
            settlings = []
            for end in ended:
                job = out[end.job_id]
                if end.state is JobState.CANCELLED and not _waits(connection, session, job):
                    continue
                # of a rung with replicates, enough have to be answered
                if is_verdict_due(connection, session.built.all_rungs[job.position], job.out.candidate_id):
                    settlings.append(_settling(end, job))
            settle(connection, session.built, settlings)
    return ended


def _waits(connection: Connection, session: DriverSession, job: OfferedJob) -> bool:
    """Whether the candidate still waits for this rung; a person who cancelled its job may have moved it."""
    row = candidate_standings.get(connection, session.built.row.id, job.out.candidate_id)
    return bool(row["standing"] == Standing.PENDING and row["position"] == job.position)


def _settling(end: EndedJob, job: OfferedJob) -> Settling:
    candidate_id = job.out.candidate_id
    finding = None  # the evidence of a job that is done is in the ledger
    if end.state is not JobState.DONE and end.outcome is not None:
        finding = Finding(str(candidate_id), end.outcome, reason=end.reason, detail=end.detail)
    return settling_of(candidate_id, job.position, end.state, finding, kills=end.kills, losses=end.losses)


log = logging.getLogger(__name__)

LONG_SECONDS = 10.0  # jobs this long are offered one per slot, shorter jobs two per slot
WORKERS_SECONDS = 2.0  # interval between looks for registered workers
ROUNDING = 1e-9  # error of a sum of shares of slots that does not count as a further slot
MIN_SLOTS = 1  # slots assumed for a queue without workers, so that a job is ready when a worker comes


class RemoteJobs(Crew):
    """The crew of remote workers; a new driver of the campaign reads the offered jobs from the ledger.

    takes_new: whether new jobs are offered; False: only jobs that workers already run are settled.
    """

    def __init__(
        self, session: DriverSession, pace: Pace, executor: Executor, takes_new: bool, connection: Connection
    ) -> None:
        super().__init__(session, pace)
        self._executor = executor
        self._takes_new = takes_new
        self._newly_offered: list[OfferedJob] = []  # jobs offered since the last launch
        self._jobs_out: dict[int, OfferedJob] = {}
        self._slots: dict[str, int] = {}  # number of slots by queue
        self._n_at_once: dict[Position, int] = {}  # number of jobs of each rung that could run at once
        self.unheld: dict[str, str] = {}
        """Reason why no registered worker can run a rung's jobs, by rung label."""
        self._looked_at = -WORKERS_SECONDS  # so that the first dispatch looks for workers
        self.amend(connection)

    @property
    def fault(self) -> str | None:  # type: ignore[override]
        return self._executor.fault

    @property
    def running(self) -> int:
        return len(self._jobs_out)

    def amend(self, connection: Connection) -> None:
        """Writes the rungs' settings for workers to the ledger, and loads the jobs that are offered or running."""
        built = self.session.built
        campaigns.write_requests(connection, {rung.id: request_for_workers(rung) for rung in built.computed})
        if self._takes_new:
            offers_claims_and_ended_jobs.restate_needs(
                connection, {rung.id: needs_text(rung.holds) for rung in built.computed}
            )
        else:
            offers_claims_and_ended_jobs.withdraw(connection, built.row.id)
        self._jobs_out = offered_jobs(connection, built, built.computed)

    def start(self, connection: Connection, planned: Sequence[PlannedJob]) -> list[int]:
        ids = jobs.create_many(connection, [job.row(self.session.built.row.id, offer_of(job)) for job in planned])
        self._add(dict(zip(ids, planned, strict=True)), last_attempts={})
        return ids

    def resume(self, connection: Connection, planned: Mapping[int, PlannedJob]) -> None:
        offers_claims_and_ended_jobs.offer_many(connection, {job_id: offer_of(job) for job_id, job in planned.items()})
        self._add(planned, offers_claims_and_ended_jobs.last_attempts(connection, list(planned)))

    def _add(self, planned: Mapping[int, PlannedJob], last_attempts: Mapping[int, int]) -> None:
        """last_attempts: ids of the latest attempts of jobs that were tried before. Their cost is in the budget."""
        for id_, job in planned.items():
            last_counted = last_attempts.get(id_, 0)
            out = OutstandingJob(id_, job.candidate_id, job.rung.id, last_counted=last_counted)
            self._newly_offered.append(OfferedJob(out, job.position, job.declared, job.reservation))

    def launch(self) -> int:
        """Wakes worker slots for the offered jobs, one slot per group of jobs that share a call."""
        offered = self._newly_offered
        self._newly_offered = []
        self._jobs_out.update({job.out.job_id: job for job in offered})
        slots: defaultdict[str, float] = defaultdict(float)
        for job in offered:
            queue = queue_of(self.session.built.all_rungs[job.position])
            slots[queue] += 1 / self.pace.group(job.position)
        self._executor.wake({queue: math.ceil(n - ROUNDING) for queue, n in slots.items()})
        return len(offered)

    def slots(self, connection: Connection) -> Quota:
        """Returns how many more jobs of each rung may be offered: one call per slot for long jobs, so that each is
        chosen when a slot is free, and two calls per slot for shorter jobs."""
        if time.monotonic() - self._looked_at > WORKERS_SECONDS:
            self._look_for_workers(connection)
        built = self.session.built
        slots_by_queue: defaultdict[str, float] = defaultdict(float)  # occupied slots
        slots_by_rung: defaultdict[Position, float] = defaultdict(float)  # occupied slots
        for job in self._jobs_out.values():
            slot = 1 / self._jobs_a_slot(job.position)
            slots_by_rung[job.position] += slot
            if self._n_at_once[job.position] != 0:  # a job that no worker can run occupies no slot
                slots_by_queue[queue_of(built.all_rungs[job.position])] += slot
        further_jobs = {}
        for rung in built.computed:
            position = rung.rules.position
            queue = queue_of(rung)
            free_in_queue = max(self._slots.get(queue, 0), MIN_SLOTS) - slots_by_queue[queue]
            free_for_rung = max(self._n_at_once[position], MIN_SLOTS) - slots_by_rung[position]
            free_slots = min(free_in_queue, free_for_rung)
            further_jobs[position] = max(0, round(free_slots * self._jobs_a_slot(position)))
        return Quota(further_jobs)

    def _jobs_a_slot(self, position: Position) -> int:
        """Number of jobs of a rung that keep one slot busy until the next dispatch: one call of long jobs, or two calls
        of short ones. With one call, empty jobs took 1.5 times as long on workers that poll the ledger."""
        calls = 2 if self.pace.is_short(position, below=LONG_SECONDS) else 1
        return calls * self.pace.group(position)

    def _look_for_workers(self, connection: Connection) -> None:
        """Counts slots by queue and, for each rung, the jobs that could run at once. Reports once a rung that no worker
        can run."""
        alive = workers_and_capacity.alive(connection)
        self._looked_at = time.monotonic()
        before = self.unheld
        self.unheld = {}
        self._slots = workers_and_capacity.slots_of(alive)
        self._n_at_once = {}
        for rung in self.session.built.computed:
            label = rung.spec.rung
            possible = capacity(alive, queue_of(rung), rung.holds, rung.limits.memory_mb)
            self._n_at_once[rung.rules.position] = possible.most
            if possible.missing:
                why = f'rung "{label}": {impossible_request_text(queue_of(rung), rung.holds, possible)}'
                self.unheld[label] = why
                if before.get(label) != why:
                    log.warning("%s", why, extra={"about": {"event": "no_worker_can_hold", "rung": label}})
                    self.session.log(connection, "no_worker_can_hold", rung=label, why=why)

    def settle(self) -> set[Position]:
        if not self._jobs_out:
            return set()
        session = self.session
        ledger = self.session.built.ledger
        ended = settle_ended(session, self._jobs_out)
        if not ended:
            return set()
        settled = [self._account(end) for end in ended]
        if any(end.state is JobState.CANCELLED for end in ended):  # which frees their slots and reservations
            with ledger.read() as connection:
                session.recount(connection)
        # the scheduler reads these candidates again
        session.purchasing.pool.mark_changed(job.out.candidate_id for job in settled)
        return {job.position for job in settled}

    def _account(self, end: EndedJob) -> OfferedJob:
        """Updates budget, cost model and pace after a job is settled."""
        job = self._jobs_out.pop(end.job_id)
        budget = self.session.budget
        budget.spend(end.cost)
        budget.release(job.reservation)
        if end.state is JobState.DONE:
            if end.wall_seconds is not None:
                self.pace.observe(job.position, end.wall_seconds)
            if job.declared is not None and end.outcome is not None and end.outcome.rule.teaches_cost:
                rung = self.session.built.all_rungs[job.position]
                rung.cost_model.observe(job.declared, end.cost, end.wall_seconds)
        return job

    def recall(self) -> None:
        if self._takes_new and self._jobs_out:
            with self.session.begin() as connection:
                withdrawn = offers_claims_and_ended_jobs.withdraw(connection, self.session.built.row.id)
            for job_id in withdrawn:
                self._jobs_out.pop(job_id, None)

    def abort(self) -> None:
        """Forgets the remote jobs. They go on, and the campaign's next driver settles their results."""
        self._jobs_out.clear()

    def recount(self, connection: Connection) -> None:
        if not self._jobs_out:
            return
        last_attempts = offers_claims_and_ended_jobs.last_attempts(connection, list(self._jobs_out))
        held = reservations_and_bookings.reserved_by_job(connection, self.session.built.row.id)
        for id_, job in self._jobs_out.items():
            # the budget counts the attempts so far, so their cost is not booked again when the job has ended
            last_counted = last_attempts.get(id_, job.out.last_counted)
            out = job.out._replace(last_counted=last_counted)
            self._jobs_out[id_] = replace(job, out=out, reservation=Cost(held.get(id_)))

    def close(self) -> None:
        self._executor.close()


def queue_of(rung: BuiltRung) -> str:
    """Returns the name of the queue for jobs of this rung."""
    return str(rung.verifier.tier)


def offer_of(job: PlannedJob) -> Offer:
    """Returns the offer of a job, with its expected wall time by the rung's cost model."""
    rung = job.rung
    core_seconds = None if job.declared is None else rung.cost_model.expected(job.declared).get("core_seconds")
    wall_seconds = None if core_seconds is None else core_seconds / rung.holds[CORES]
    return Offer(queue_of(rung), wall_seconds, rung.limits.memory_mb, needs_text(rung.holds))


def request_for_workers(rung: BuiltRung) -> dict[str, object]:
    """Returns the settings, limits and resources of a rung, as workers read them from its row."""
    verifier = rung.verifier
    request: dict[str, object] = {
        "settings": verifier.request_settings,
        "limits": asdict(rung.limits),
        "resources": rung.holds,
    }
    if verifier.together > 1:
        request["together"] = verifier.together
    return request
