"""Submits the ledger's queued jobs to a cluster, and returns to the queue those that the cluster did not run."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ValidationError
from sqlalchemy.engine import Connection

from sciagent.domain.jobs.needs import read
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.errors import LedgerAwayError, NoPartitionError, SlurmError
from sciagent.execution.executor import Executor
from sciagent.execution.slurm.client import Array, Slurm
from sciagent.execution.slurm.element import LINGER_SECONDS, ElementTask
from sciagent.execution.slurm.environment import variables
from sciagent.execution.slurm.partition_choice import ResourceRequest, choose_partition, need_of
from sciagent.execution.slurm.site import SiteProfile
from sciagent.execution.slurm.spool import new_token
from sciagent.execution.slurm.states import ElementState, ElementStatus
from sciagent.execution.slurm.submit_failures import RefusedArray, SubmitFailures
from sciagent.execution.worker import completing
from sciagent.execution.worker.registration import Presence
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import external_jobs
from sciagent.store.job_queue.external_jobs import WaitingExternalJob
from sciagent.store.job_queue.workers import NewWorker

log = logging.getLogger(__name__)
WORDS = ("-m", "sciagent", "worker", "--from")
SLOTS = 16  # elements at a time, unless the profile sets max_running
BUNDLE_SECONDS = 60.0  # short jobs share an element up to this total
MAX_BUNDLE = 32
FORGOTTEN_SECONDS = 60.0  # a reservation without an array is released after this time
UNKNOWN_SECONDS = 600.0  # assumed for a job whose duration is unknown
QUIET = (ElementState.COMPLETED, ElementState.CANCELLED, ElementState.TIMED_OUT)  # not the cluster's fault


@dataclass
class Bundle:
    """Jobs that one element runs one after the other."""

    request: ResourceRequest
    job_ids: list[int]
    seconds: float
    """Expected duration of all of them together."""


class Controller:
    """Runs in a thread of the driver, for one site. Several may share a spool: each job is reserved only once."""

    def __init__(self, ledger: Ledger, site: SiteProfile, queues: Sequence[str]) -> None:
        self._ledger, self._site, self._queues = ledger, site, tuple(queues)
        self._slurm = Slurm(site, variables(ledger, site))
        self._slots = site.max_running or SLOTS
        self._stop, self._now = threading.Event(), threading.Event()
        host = socket.gethostname()
        name = f"slurm:{site.site}:{host}:{os.getpid()}"
        self._presence = Presence(NewWorker(name, host, os.getpid(), "slurm", self._queues, self._slots))
        self._handled: set[tuple[str, int]] = set()  # ended elements of unfinished arrays, as (token, number)
        self._jobs_left_to_elements = False  # whether the last look left jobs to elements that wait or run already
        self._failures = SubmitFailures(ledger, site.site, self._queues)
        self._threads = [
            threading.Thread(target=self._follow, name="slurm", daemon=True),
            threading.Thread(
                target=self._presence.serve, args=(lambda: ledger, self._stop), name="presence", daemon=True
            ),
        ]

    @property
    def fault(self) -> str | None:
        """Why no job reaches the cluster until a person corrects something; None if all is well."""
        return self._failures.fault

    def start(self) -> None:
        """Register as a worker and start the threads. Raises SlurmError if this machine cannot submit jobs."""
        self._slurm.commands.find("sbatch")
        self._slurm.commands.passed()
        self._presence.step(self._ledger)
        for thread in self._threads:
            thread.start()

    def look_now(self) -> None:
        """Look for queued jobs at once. Called when jobs were offered."""
        self._now.set()

    def close(self) -> None:
        """Stop the threads. Jobs in the cluster go on; the next controller of this site collects them."""
        self._stop.set()
        self._now.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=60)

    def _follow(self) -> None:
        while not self._stop.is_set():
            self._now.clear()
            try:
                self.step()
            except (SlurmError, LedgerAwayError) as error:
                log.warning("Slurm: %s", str(error).split("\n", 1)[0][:500])
            most = self._site.poll_seconds
            self._now.wait(min(most, 2 * LINGER_SECONDS) if self._jobs_left_to_elements else most)

    def step(self) -> None:
        """Handle ended elements, release the jobs that they did not run, submit queued jobs."""
        arrays = self._slurm.arrays()
        alive = self._handle_ended(arrays)
        self._release_forgotten({array.token for array in arrays})
        if not self._presence.draining:
            self._submit(alive)

    def _handle_ended(self, arrays: Sequence[Array]) -> list[ElementTask]:
        """Handle the elements that have ended, and return the tasks of those that still wait or run."""
        states = self._slurm.states(arrays)
        with self._ledger.read() as connection:
            reserved = external_jobs.reserved(connection, self._queues)
        by_name: dict[str, list[int]] = {}
        for job_id, (name, _) in reserved.items():
            by_name.setdefault(name, []).append(job_id)
        alive = list[ElementTask]()
        for array, elements in states.items():
            entries = self._slurm.tasks_of(array)
            for element in elements:
                mine = parse_task(entries, element.number)
                if not element.state.ended:
                    alive += [mine] if mine is not None else []
                elif (array.token, element.number) not in self._handled:
                    self._handled.add((array.token, element.number))
                    left = by_name.get(element_name(array.token, element.number), [])
                    self._end(array, element, [] if mine is None else mine.jobs, left)
            if all(element.state.ended for element in elements):
                self._slurm.discard(array)
                self._handled -= {(array.token, element.number) for element in elements}
        return alive

    def _end(self, array: Array, element: ElementStatus, mine: Sequence[int], left: Sequence[int]) -> None:
        """Handle an element that has ended. mine: the jobs that it was submitted for; left: those it did not run."""
        if not left:
            self._failures.element_ran(mine)
            return
        log.info(
            "Slurm: element %d of %d: %s; %d jobs were not run", element.number, array.job_id, element.state, len(left)
        )
        never_started = element.state is ElementState.FAILED and set(left) >= set(mine)
        with self._ledger.begin() as connection:
            self._release(connection, left, lost=element.state not in QUIET and not never_started)
        if never_started:
            self._failures.element_never_started(left, self._slurm.failure_text(array, element))

    def _release(self, connection: Connection, job_ids: Sequence[int], *, lost: bool) -> None:
        """Free these jobs for anybody; those that were lost too often are given up."""
        for job_id in external_jobs.free(connection, job_ids, lost):
            detail = "its element in the cluster never ran it"
            completing.give_up(connection, job_id, Outcome.LOST, Reason.LEASE_EXPIRED, detail)

    def _release_forgotten(self, known: set[str]) -> None:
        """Release jobs whose reserver died before it submitted an array. known: tokens of the arrays in the spool."""
        with self._ledger.read() as connection:
            reserved = external_jobs.reserved(connection, self._queues)
        forgotten = [
            job_id
            for job_id, (name, seconds) in reserved.items()
            if seconds > FORGOTTEN_SECONDS and _token(name) not in known
        ]
        if forgotten:
            with self._ledger.begin() as connection:
                self._release(connection, forgotten, lost=True)

    def _submit(self, alive: Sequence[ElementTask]) -> None:
        """Submit one array for all queued jobs with the same request; jobs of a refused array wait for the next look.

        alive: tasks of the elements that wait or run. A job that fits into as many of them as there are slots is left
        to them, since an element takes more jobs when it has run its own.
        """
        with self._ledger.begin() as connection:
            arrays = self._reserve_arrays(connection, alive)
        left = {token: tuple(id_ for bundle in mine for id_ in bundle.job_ids) for token, mine in arrays.items()}
        taken, refused = list[int](), list[RefusedArray]()
        try:
            for token, mine in arrays.items():  # after a crash from here on, the reservations are released
                refusal = self._submit_one(token, mine)
                if refusal is None:
                    taken += left.pop(token)
                else:
                    refused.append(RefusedArray(mine[0].request, left[token], refusal))
        finally:
            self._free([id_ for ids in left.values() for id_ in ids])
        self._failures.note(refused, taken, in_cluster=bool(alive))

    def _reserve_arrays(self, connection: Connection, alive: Sequence[ElementTask]) -> dict[str, list[Bundle]]:
        """The elements of each new array by its token, their jobs reserved; jobs that fit no partition are given up."""
        waiting = external_jobs.waiting(connection, self._queues, self._site.max_array)
        alone = [job for job in waiting if sum(map(partial(fits_element, job), alive)) < self._slots]
        self._jobs_left_to_elements = len(alone) < len(waiting)
        bundles, unfit = self._bundle(alone)
        for job_id, why in unfit.items():
            completing.give_up(connection, job_id, Outcome.BAD_ENVIRONMENT, Reason.NO_PARTITION, why)
        by_request: dict[ResourceRequest, list[Bundle]] = {}
        for bundle in bundles:
            by_request.setdefault(bundle.request, []).append(bundle)
        arrays = {new_token(): elements for elements in by_request.values()}
        for token, elements in arrays.items():
            names = {id_: element_name(token, n) for n, bundle in enumerate(elements) for id_ in bundle.job_ids}
            external_jobs.reserve_for(connection, names)
        return arrays

    def _submit_one(self, token: str, mine: Sequence[Bundle]) -> str | None:
        """Submit one array. Returns Slurm's message if it refuses; raises SlurmError if it does not answer."""
        request, wall = mine[0].request, self._site.wall
        memory_mb = int(request.memory_mb / self._site.memory.margin + 1e-6)
        elements = [
            ElementTask(
                name=element_name(token, n),
                jobs=bundle.job_ids,
                queues=list(self._queues),
                margin=wall.margin,
                seconds=60.0 * request.minutes - wall.warning_seconds,
                memory_mb=memory_mb,
            )
            for n, bundle in enumerate(mine)
        ]
        try:
            array = self._slurm.submit(request, [element.model_dump() for element in elements], WORDS, token)
        except SlurmError as error:
            self._slurm.ping()  # tells a refusal from an outage
            log.warning("Slurm: %s", str(error).split("\n", 1)[0][:500])
            return str(error)
        log.info(
            "Slurm: array %d, %d elements, %d minutes each on %s",
            array.job_id,
            array.size,
            request.minutes,
            request.partition.name,
        )
        return None

    def _free(self, job_ids: Sequence[int]) -> None:
        if job_ids:
            with self._ledger.begin() as connection:
                self._release(connection, job_ids, lost=False)

    def _bundle(self, jobs: Sequence[WaitingExternalJob]) -> tuple[list[Bundle], dict[int, str]]:
        """The jobs grouped into elements; and by job id, why no partition can hold it."""
        bundles: list[Bundle] = []
        refused: dict[int, str] = {}
        open_: dict[tuple[int, int | None, str | None], Bundle] = {}
        for job in jobs:
            seconds = expected_seconds(job)
            place = (job.rung_id, job.memory_mb, job.needs)
            last = open_.get(place)
            shared = last is not None and last.seconds + seconds <= BUNDLE_SECONDS and len(last.job_ids) < MAX_BUNDLE
            try:
                total = seconds + (last.seconds if shared and last is not None else 0.0)
                request = choose_partition(self._site, need_of(total, job.memory_mb, read(job.needs)))
            except NoPartitionError as error:
                refused[job.job_id] = str(error)
                continue
            if shared and last is not None:
                last.job_ids.append(job.job_id)
                last.seconds, last.request = total, request
            else:
                open_[place] = Bundle(request, [job.job_id], seconds)
                bundles.append(open_[place])
        return bundles, refused


def expected_seconds(job: WaitingExternalJob) -> float:
    """Seconds to request: doubled after each unfinished try, at most the job's limit."""
    return min((job.seconds or min(UNKNOWN_SECONDS, job.limit)) * 2.0**job.tries, job.limit)


def fits_element(job: WaitingExternalJob, element: ElementTask) -> bool:
    """Whether the job fits into this element's whole time and memory. A job with needs gets an element of its own."""
    fits = job.needs is None and job.seconds is not None and job.seconds * element.margin <= element.seconds
    return fits and (job.memory_mb or 0) <= element.memory_mb


def parse_task(entries: Sequence[Any], number: int) -> ElementTask | None:
    """The task of one element; None if its entry is missing, incomplete or from an older version."""
    try:
        return ElementTask.model_validate(entries[number])
    except (LookupError, ValidationError):
        return None


def element_name(token: str, number: int) -> str:
    return f"slurm {token}_{number}"


def _token(name: str) -> str:
    return name.removeprefix("slurm ").partition("_")[0]


class SlurmExecutor(Executor):
    """Executor for a cluster: jobs are offered in the ledger, and a controller submits them to Slurm."""

    def __init__(self, ledger: Ledger, site: SiteProfile, queues: Sequence[str]) -> None:
        self._controller = Controller(ledger, site, queues)
        self._started = False

    @property
    def fault(self) -> str | None:
        return self._controller.fault

    def wake(self, slots_by_queue: Mapping[str, int]) -> None:
        self._start()
        if slots_by_queue:
            self._controller.look_now()

    def listen(self, campaign_id: int, bell: threading.Event) -> None:
        self._start()

    def close(self) -> None:
        if self._started:
            self._controller.close()

    def _start(self) -> None:
        if not self._started:
            self._controller.start()
            self._started = True
