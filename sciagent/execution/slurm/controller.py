"""Submits the ledger's queued jobs to a cluster, and returns to the queue the jobs that the cluster did not run.

`SlurmController` does the work, step by step. `SubmitFailures` counts what goes wrong and warns campaigns. The
functions below them group jobs into elements and name the elements. A `Spool` is the folder of one array's files.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from sqlalchemy.engine import Connection

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.states_and_needs import JobState, parse_needs
from sciagent.errors import LedgerAwayError, NoPartitionError, SlurmError
from sciagent.execution.executor_wakes_workers import Executor
from sciagent.execution.slurm.array_element import LINGER_SECONDS, ElementTask, parse_task
from sciagent.execution.slurm.array_folders_submission_and_polling import (
    ElementState,
    ElementStatus,
    Slurm,
    Spool,
    spools,
)
from sciagent.execution.slurm.site_profile import ResourceRequest, SiteProfile, choose_partition, need_of
from sciagent.execution.worker import end_attempts
from sciagent.execution.worker.presence_and_leases import Presence
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.evidence_secret import FILE_VARIABLE
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import cluster_reservations, jobs, offers_claims_and_ended_jobs
from sciagent.store.job_queue.cluster_reservations import WaitingExternalJob
from sciagent.store.job_queue.workers_and_capacity import NewWorker

log = logging.getLogger(__name__)
LEDGER_VARIABLE = "SCIAGENT_LEDGER"
LEDGER_FILE_VARIABLE = "SCIAGENT_LEDGER_FILE"
DEFAULT_SLOTS = 16  # elements at a time, unless the profile sets max_running
FORGOTTEN_SECONDS = 60.0  # a reservation without an array is released after this time
FAILURES_TO_FAULT = 5  # failures in a row that become a fault
UNKNOWN_SECONDS = 600.0  # duration that is assumed for a job whose duration is unknown

JobGroup = tuple[int, ...]
"""Ids of jobs that one element runs in one call."""


class SlurmController(Executor):
    """Submits jobs to one site, in threads of the driver. Several controllers may share the site's spool folder."""

    def __init__(self, ledger: Ledger, site: SiteProfile, queues: Sequence[str]) -> None:
        self._ledger = ledger
        self._site = site
        self._queues = tuple(queues)
        self._slurm = Slurm(site, ledger_variables(ledger, site))
        self._slots = site.max_running or DEFAULT_SLOTS
        self._stop = threading.Event()
        self._wake_up = threading.Event()  # ends the pause between two steps
        host = socket.gethostname()
        name = f"slurm:{site.site}:{host}:{os.getpid()}"
        worker = NewWorker(
            name=name, host=host, pid=os.getpid(), executor="slurm", queues=self._queues, slots=self._slots
        )
        self._presence = Presence(worker)
        self._handled: set[str] = set()  # names of ended elements of unfinished arrays
        self._jobs_left_to_elements = False  # whether the last step left jobs to elements that already wait or run
        self._failures = SubmitFailures(ledger, site.site, self._queues)
        self._threads = [
            threading.Thread(target=self._repeat_steps, name="slurm", daemon=True),
            threading.Thread(target=self._presence.serve, args=(ledger, self._stop), name="presence", daemon=True),
        ]

    @property
    def fault(self) -> str | None:
        return self._failures.fault

    def wake(self, slots_by_queue: Mapping[str, int]) -> None:
        """Look for queued jobs at once. Raises SlurmError if this machine cannot submit jobs."""
        self._start()
        if slots_by_queue:
            self._wake_up.set()

    def listen(self, campaign_id: int, bell: threading.Event) -> None:
        self._start()

    def _start(self) -> None:
        """Register as a worker and start the threads, once."""
        if self._threads[0].ident is None:
            self._slurm.find("sbatch")  # raises SlurmError if it is missing
            self._slurm.passed_variables()  # raises SlurmError if one is not set
            self._presence.step(self._ledger)
            for thread in self._threads:
                thread.start()

    def close(self) -> None:
        """Stop the threads. Jobs in the cluster go on; the next controller of this site collects them."""
        self._stop.set()
        self._wake_up.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=60)

    def _repeat_steps(self) -> None:
        """Repeat the steps until the controller is closed."""
        while not self._stop.is_set():
            self._wake_up.clear()
            try:
                self.step()
            except (SlurmError, LedgerAwayError) as error:
                log.warning("Slurm: %s", str(error).split("\n", 1)[0][:500])
            pause_seconds = self._site.poll_seconds
            if self._jobs_left_to_elements:
                # an element ends when it has found no job for LINGER_SECONDS; jobs left to it then need another one
                pause_seconds = min(pause_seconds, 2 * LINGER_SECONDS)
            self._wake_up.wait(pause_seconds)

    def step(self) -> None:
        """Handle ended elements, release the jobs that they did not run, submit queued jobs."""
        arrays = spools(self._site.spool)
        alive = self._handle_ended(arrays)
        self._release_forgotten({array.token for array in arrays})
        if not self._presence.draining:
            self._submit(alive)

    def _handle_ended(self, arrays: Sequence[Spool]) -> list[ElementTask]:
        """Handle the elements that have ended, and return the tasks of those that still wait or run.

        An element that takes its jobs removes their reservations, so one that left reservations did not run them.
        """
        states = self._slurm.states(arrays)
        with self._ledger.read() as connection:
            reservations = cluster_reservations.reserved_jobs(connection, self._queues)
        reserved_elements = {name for name, _ in reservations.values()}
        alive = list[ElementTask]()
        for array, elements in states.items():
            for element, entry in zip(elements, array.tasks(), strict=True):
                task = parse_task(entry, array.elements)
                if not element.state.ended:
                    alive.append(task)
                elif task.name not in self._handled:
                    self._handled.add(task.name)
                    self._handle_ended_element(array, element, task.jobs, ran=task.name not in reserved_elements)
            if all(element.state.ended for element in elements):
                array.remove()
                self._handled -= {element_name(array, element.number) for element in elements}
        return alive

    def _handle_ended_element(self, array: Spool, element: ElementStatus, job_ids: Sequence[int], ran: bool) -> None:
        """Handle an element that has ended. ran: whether it took the jobs that it was submitted for."""
        if ran:
            self._failures.element_ran(job_ids)
            return
        log.info("Slurm: %d of %s: %s; its jobs were not run", element.number, array.name, element.state)
        with self._ledger.begin() as connection:
            self._release(connection, job_ids, lost=element.state is ElementState.LOST)
        if element.state is ElementState.FAILED:
            self._failures.element_never_started(job_ids, array.failure_text(element.number))

    def _release(self, connection: Connection, job_ids: Sequence[int], *, lost: bool) -> None:
        """Remove the reservations of these jobs; jobs that were lost too often are given up."""
        lost_too_often = cluster_reservations.free_reservations(connection, job_ids, lost=lost)
        for job_id in lost_too_often:
            detail = "its element in the cluster never ran it"
            end_attempts.give_up(connection, job_id, Outcome.LOST, Reason.LEASE_EXPIRED, detail)

    def _release_forgotten(self, spooled_tokens: set[str]) -> None:
        """Release jobs whose controller died before it submitted their array.

        spooled_tokens: tokens of the arrays in the spool.
        """
        with self._ledger.read() as connection:
            reserved = cluster_reservations.reserved_jobs(connection, self._queues)
        forgotten = [
            job_id
            for job_id, (name, seconds) in reserved.items()
            if seconds > FORGOTTEN_SECONDS and _token_of_array(name) not in spooled_tokens
        ]
        if forgotten:
            with self._ledger.begin() as connection:
                self._release(connection, forgotten, lost=True)

    def _submit(self, alive: Sequence[ElementTask]) -> None:
        """Submit one array for all queued jobs with the same request; jobs of a refused array wait for the next step.

        alive: tasks of the elements that wait or run. A job that fits into as many elements as there are slots is not
        submitted, since an element takes more jobs after its own.
        """
        with self._ledger.begin() as connection:
            arrays = self._reserve_arrays(connection, alive)
        unsubmitted = {array: tuple(chain.from_iterable(groups)) for array, (_, groups) in arrays.items()}
        accepted_ids = list[int]()
        refused = list[RefusedArray]()
        try:
            # if the process dies from here on, `_release_forgotten` of another controller releases the jobs
            for array, (request, groups) in arrays.items():
                refusal = self._submit_one(array, request, groups)
                if refusal is None:
                    accepted_ids += unsubmitted.pop(array)
                else:
                    refused.append(RefusedArray(request, unsubmitted[array], refusal))
        finally:
            if unsubmitted:
                with self._ledger.begin() as connection:
                    self._release(connection, list(chain.from_iterable(unsubmitted.values())), lost=False)
        self._failures.note_round(refused, accepted_ids, in_cluster=bool(alive))

    def _reserve_arrays(
        self, connection: Connection, alive: Sequence[ElementTask]
    ) -> dict[Spool, tuple[ResourceRequest, list[JobGroup]]]:
        """Reserve jobs, and return {new array: (its request, groups of job ids)}.

        An array has one element per group. Jobs that fit no partition are given up.
        """
        by_request: dict[ResourceRequest, list[JobGroup]] = {}
        elements = list(alive)
        self._jobs_left_to_elements = False
        waiting = cluster_reservations.waiting_jobs(connection, self._queues, limit=self._site.max_array)
        for group in grouped(waiting):
            n_fitting = sum(1 for element in elements if fits_element(group, element))
            if n_fitting >= self._slots:
                self._jobs_left_to_elements = True
                continue
            for job_ids, request in self._requests_of(connection, group):
                by_request.setdefault(request, []).append(job_ids)
                # the name is not known yet, and not needed for comparing further groups with the element
                elements.append(self._task("", job_ids, request))
        # each Spool is a new array with its own token
        arrays = {Spool(self._site.spool): (request, groups) for request, groups in by_request.items()}
        for array, (_, groups) in arrays.items():
            element_by_job = dict[int, str]()
            for number, job_ids in enumerate(groups):
                for job_id in job_ids:
                    element_by_job[job_id] = element_name(array, number)
            cluster_reservations.reserve_for(connection, element_by_job)
        return arrays

    def _requests_of(
        self, connection: Connection, group: Sequence[WaitingExternalJob]
    ) -> Iterator[tuple[JobGroup, ResourceRequest]]:
        """Yields (job ids, request) of a group. A group that fits no partition is halved; a job that fits none is
        given up."""
        try:
            seconds = sum(expected_seconds(job) for job in group)
            need = need_of(seconds, group[0].memory_mb, parse_needs(group[0].needs))
            request = choose_partition(self._site, need)
        except NoPartitionError as error:
            if len(group) == 1:
                reason = Reason.NO_PARTITION
                detail = str(error)
                end_attempts.give_up(connection, group[0].job_id, Outcome.BAD_ENVIRONMENT, reason, detail)
                return
            middle = len(group) // 2
            yield from self._requests_of(connection, group[:middle])
            yield from self._requests_of(connection, group[middle:])
        else:
            yield tuple(job.job_id for job in group), request

    def _task(self, name: str, job_ids: Sequence[int], request: ResourceRequest) -> ElementTask:
        """Returns the task of an element that gets what was requested.

        The element may use the requested time and memory without the margins that the site's profile adds.
        """
        wall = self._site.wall
        memory_mb = int(request.memory_mb / self._site.memory.margin + 1e-6)  # 1e-6, so that rounding costs no MB
        return ElementTask(
            name=name,
            jobs=list(job_ids),
            queues=list(self._queues),
            margin=wall.margin,
            seconds=60.0 * request.minutes - wall.warning_seconds,
            memory_mb=memory_mb,
        )

    def _submit_one(self, array: Spool, request: ResourceRequest, groups: Sequence[JobGroup]) -> str | None:
        """Submit one array. Returns Slurm's message if it refuses; raises SlurmError if it does not answer."""
        tasks = [self._task(element_name(array, n), group, request).model_dump() for n, group in enumerate(groups)]
        try:
            self._slurm.submit(array, request, tasks)
        except SlurmError as error:
            self._slurm.run("sinfo", "--noheader", "--format=%P")  # raises SlurmError if Slurm does not answer
            log.warning("Slurm: %s", str(error).split("\n", 1)[0][:500])
            return str(error)
        request_text = f"{request.minutes} minutes each on {request.partition.name}"
        log.info("Slurm: %s, %d elements, %s", array.name, len(tasks), request_text)
        return None


class RefusedArray(NamedTuple):
    """An array that sbatch refused."""

    request: ResourceRequest
    job_ids: tuple[int, ...]
    why: str
    """sbatch's message."""


class SubmitFailures:
    """Counts submissions that the cluster refuses and elements that fail at their start, and decides when to give up.

    sbatch may refuse an array, or an element may fail before it has taken its job: a wrong partition or account, no
    interpreter on the node, no connection from the node to the ledger. The jobs are queued again and no loss is
    counted, since the jobs are not the cause. The cause may be temporary, such as a limit on queued jobs or a broken
    node, so each step submits again, with a warning for the campaigns concerned. Several failures in a row, while no
    element runs in the cluster, become a fault that a person has to correct.

    fault: message on what a person has to correct; None while retries may help.
    """

    def __init__(self, ledger: Ledger, site: str, queues: Sequence[str]) -> None:
        self._ledger = ledger
        self._site = site
        self._queues = tuple(queues)
        self._n_refused_rounds = 0  # in a row
        self._n_never_started = 0  # elements in a row
        self._failure_text = ""  # last line of output of the last element that never started
        self.fault: str | None = None

    def element_never_started(self, job_ids: Sequence[int], text: str) -> None:
        """Note an element that failed before it took its jobs. text: the last line that it printed."""
        self._n_never_started += 1
        self._failure_text = text
        self._warn([(job_ids, f"Slurm: elements fail on their node before they take a job: {text}")])

    def element_ran(self, job_ids: Sequence[int]) -> None:
        """Note an element that took its jobs."""
        if self._n_never_started:
            self._warn([(job_ids, None)])
        self._n_never_started = 0

    def note_round(self, refused: Sequence[RefusedArray], accepted_ids: Sequence[int], in_cluster: bool) -> None:
        """Note one round of submissions.

        accepted_ids: ids of jobs that Slurm accepted. in_cluster: whether an element of this site waited or ran in the
        cluster before the round.
        """
        if refused and not accepted_ids and not in_cluster:
            self._n_refused_rounds += 1
        else:
            self._n_refused_rounds = 0
        self.fault = None
        if self._n_refused_rounds >= FAILURES_TO_FAULT:
            self.fault = self._refusal_fault(refused[0])
        with self._ledger.read() as connection:
            a_job_runs = jobs.any_in_state(connection, JobState.RUNNING, queues=self._queues)
        if self._n_never_started >= FAILURES_TO_FAULT and not a_job_runs:
            self.fault = self._start_fault()
        # an accepted array clears the warning of its campaigns, unless elements still fail at their start
        warnings = list[tuple[Sequence[int], str | None]]()
        if not self._n_never_started:
            warnings.append((accepted_ids, None))
        for refusal in refused:
            partition = refusal.request.partition.name
            warnings.append((refusal.job_ids, f"Slurm refuses jobs of partition {partition}: {refusal.why}"))
        if accepted_ids or refused:
            self._warn(warnings)

    def _refusal_fault(self, refusal: RefusedArray) -> str:
        request = refusal.request
        return (
            f"Slurm refused {self._n_refused_rounds} times what was asked of partition {request.partition.name} "
            f"({request.minutes} minutes, {request.memory_mb} MB, {request.cores} cores): {refusal.why}; "
            f"correct the profile of {self._site}, or ask whoever runs the cluster; "
            "sciagent doctor --site PROFILE says more"
        )

    def _start_fault(self) -> str:
        return (
            f"{self._n_never_started} elements in a row failed on their node before they took a job: "
            f"{self._failure_text}; correct the profile of {self._site}, or what it names: python, modules, "
            "environment"
        )

    def _warn(self, warnings: Iterable[tuple[Sequence[int], str | None]]) -> None:
        """Record the warnings for the campaigns of the jobs.

        warnings: (job ids, warning); a warning of None clears the campaign's warning. The last entry of a campaign
        counts.
        """
        with self._ledger.begin() as connection:
            by_campaign = dict[int, str | None]()
            for job_ids, warning in warnings:
                for campaign_id in offers_claims_and_ended_jobs.campaigns_by_rung(connection, job_ids).values():
                    by_campaign[campaign_id] = warning
            for campaign_id, warning in by_campaign.items():
                campaigns.set_slurm_warning(connection, campaign_id, warning)


def expected_seconds(job: WaitingExternalJob) -> float:
    """Returns the seconds to request, doubled after each unfinished attempt, at most the job's limit."""
    first_seconds = job.seconds or min(UNKNOWN_SECONDS, job.limit)
    return min(first_seconds * 2.0**job.tries, job.limit)


def grouped(waiting: Sequence[WaitingExternalJob]) -> list[list[WaitingExternalJob]]:
    """Returns the jobs in groups that one call may run. A group stands at the place of its most urgent job.

    waiting: jobs in order of urgency. `together` of a job is the largest number of jobs in its call.
    """
    groups: list[list[WaitingExternalJob]] = []
    open_groups: dict[tuple[object, ...], list[WaitingExternalJob]] = {}
    for job in waiting:
        shared = (job.rung_id, job.needs, job.memory_mb, job.together)  # the same for all jobs of a call
        group = open_groups.get(shared)
        if group is None or len(group) >= job.together:
            group = []
            open_groups[shared] = group
            groups.append(group)
        group.append(job)
    return groups


def fits_element(group: Sequence[WaitingExternalJob], element: ElementTask) -> bool:
    """Whether the group fits into this element's whole time and memory. Jobs with needs get an element of their own."""
    if group[0].needs is not None or any(job.seconds is None for job in group):
        return False
    seconds = sum(job.seconds or 0.0 for job in group) * element.margin
    memory_mb = group[0].memory_mb or 0
    return seconds <= element.seconds and memory_mb <= element.memory_mb


def element_name(array: Spool, number: int) -> str:
    return f"slurm {array.token}_{number}"


def _token_of_array(name: str) -> str:
    """Returns the token of the array to which the element of this name belongs."""
    return name.removeprefix("slurm ").partition("_")[0]


def ledger_variables(ledger: Ledger, site: SiteProfile) -> dict[str, str]:
    """The ledger's address and the artifact folder, except for variables that the profile sets itself.

    Raises SlurmError if the address holds a password, since Slurm stores the environment of jobs in files.
    """
    set_by_profile = {*site.environment, *site.pass_environment}
    values = {"SCIAGENT_ARTIFACTS": str(ledger.artifacts.root.resolve())}
    if os.environ.get(FILE_VARIABLE):
        values[FILE_VARIABLE] = str(ledger.secret.path.resolve())
    lease_seconds = os.environ.get("SCIAGENT_LEASE_SECONDS")
    if lease_seconds:  # must be the same in all processes of a ledger
        values["SCIAGENT_LEASE_SECONDS"] = lease_seconds
    if not set_by_profile & {LEDGER_VARIABLE, LEDGER_FILE_VARIABLE}:
        file_with_url = os.environ.get(LEDGER_FILE_VARIABLE)
        if ledger.url.password is None:
            values[LEDGER_VARIABLE] = ledger.url.render_as_string(hide_password=False)
        elif file_with_url:
            values[LEDGER_FILE_VARIABLE] = str(Path(file_with_url).expanduser().resolve())
        else:
            raise SlurmError(
                "the URL of the ledger holds a password, and Slurm keeps what it is given in files: write the URL into "
                f"a file of mode 600 that the nodes see, and set {LEDGER_FILE_VARIABLE} to it instead of "
                f"{LEDGER_VARIABLE}; or leave the password to ~/.pgpass; or, if you want it so, name {LEDGER_VARIABLE} "
                f"in pass_environment of {site.site}"
            )
    return {name: value for name, value in values.items() if name not in set_by_profile}
