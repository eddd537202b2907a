"""Keeps a cluster's queue filled with the jobs of the ledger, and hears what became of them."""

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

from sciagent.domain.needs import read
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.errors import LedgerAwayError, NoPartitionError, SlurmError
from sciagent.execution.slurm.client import Array, Slurm
from sciagent.execution.slurm.element import LINGER_SECONDS
from sciagent.execution.slurm.element import Element as OwnElement
from sciagent.execution.slurm.environment import variables
from sciagent.execution.slurm.partition_choice import Request, fit, need_of
from sciagent.execution.slurm.site import Site
from sciagent.execution.slurm.spool import new_token
from sciagent.execution.slurm.states import Element, ElementState
from sciagent.execution.slurm.submit_failures import Refusals, Refused
from sciagent.execution.worker import completing
from sciagent.execution.worker.registration import Presence
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import external_jobs
from sciagent.store.job_queue.external_jobs import Waiting
from sciagent.store.job_queue.workers import NewWorker

log = logging.getLogger(__name__)
WORDS = ("-m", "sciagent", "worker", "--from")
SLOTS = 16  # jobs at once where the profile does not say
BUNDLE_SECONDS = 60.0  # short jobs share an element until they take so long
MAX_BUNDLE = 32
FORGOTTEN_SECONDS = 60.0  # a reservation whose array nobody knows
UNKNOWN_SECONDS = 600.0  # what is reckoned with for a job of which nobody knows how long it takes
QUIET = (ElementState.COMPLETED, ElementState.CANCELLED, ElementState.TIMED_OUT)  # no fault of the cluster


@dataclass
class Bundle:
    """Jobs of one element, one after the other."""

    request: Request
    job_ids: list[int]
    seconds: float


class Follower:
    """Of one site, in a thread of whoever drives. Several may follow one spool: each job is reserved once."""

    def __init__(self, ledger: Ledger, site: Site, queues: Sequence[str]) -> None:
        self._ledger, self._site, self._queues = ledger, site, tuple(queues)
        self._slurm = Slurm(site, variables(ledger, site))
        self._slots = site.max_running or SLOTS
        self._stop, self._now = threading.Event(), threading.Event()
        host = socket.gethostname()
        name = f"slurm:{site.site}:{host}:{os.getpid()}"
        self._presence = Presence(NewWorker(name, host, os.getpid(), "slurm", self._queues, self._slots))
        self._heard: set[tuple[str, int]] = set()  # elements of arrays that are not over, which have ended
        self._trusting = False  # whether jobs were left to elements that are there
        self._refusals = Refusals(ledger, site.site, self._queues)
        self._threads = [
            threading.Thread(target=self._follow, name="slurm", daemon=True),
            threading.Thread(
                target=self._presence.serve, args=(lambda: ledger, self._stop), name="presence", daemon=True
            ),
        ]

    @property
    def fault(self) -> str | None:
        """Why nothing gets to the cluster any more until a person mends it."""
        return self._refusals.fault

    def start(self) -> None:
        """Say that jobs may be offered, and begin. Raises SlurmError where nothing could be submitted from here."""
        self._slurm.commands.find("sbatch")
        self._slurm.commands.passed()
        self._presence.step(self._ledger)
        for one in self._threads:
            one.start()

    def hurry(self) -> None:
        """Jobs were offered: look now."""
        self._now.set()

    def close(self) -> None:
        """What waits and runs there goes on; whoever follows next hears of it."""
        self._stop.set()
        self._now.set()
        for one in self._threads:
            if one.is_alive():
                one.join(timeout=60)

    def _follow(self) -> None:
        while not self._stop.is_set():
            self._now.clear()
            try:
                self.step()
            except (SlurmError, LedgerAwayError) as error:
                log.warning("Slurm: %s", str(error).split("\n", 1)[0][:500])
            most = self._site.poll_seconds
            self._now.wait(min(most, 2 * LINGER_SECONDS) if self._trusting else most)

    def step(self) -> None:
        """Hear what became of elements, take back what they did not run, submit what waits."""
        arrays = self._slurm.arrays()
        alive = self._hear(arrays)
        self._take_back_forgotten({one.token for one in arrays})
        if not self._presence.draining:
            self._submit(alive)

    def _hear(self, arrays: Sequence[Array]) -> list[OwnElement]:
        """What waits or runs there still."""
        states = self._slurm.states(arrays)
        with self._ledger.read() as connection:
            reserved = external_jobs.reserved(connection, self._queues)
        by_name: dict[str, list[int]] = {}
        for job_id, (name, _) in reserved.items():
            by_name.setdefault(name, []).append(job_id)
        alive = list[OwnElement]()
        for array, elements in states.items():
            told = self._slurm.told(array)
            for one in elements:
                mine = parsed(told, one.number)
                if not one.state.ended:
                    alive += [mine] if mine is not None else []
                elif (array.token, one.number) not in self._heard:
                    self._heard.add((array.token, one.number))
                    left = by_name.get(element_name(array.token, one.number), [])
                    self._end(array, one, [] if mine is None else mine.jobs, left)
            if all(one.state.ended for one in elements):
                self._slurm.discard(array)
                self._heard -= {(array.token, one.number) for one in elements}
        return alive

    def _end(self, array: Array, one: Element, mine: Sequence[int], left: Sequence[int]) -> None:
        """An element has ended. mine: jobs that it was made for; left: those that it has not taken."""
        if not left:
            self._refusals.worked(mine)
            return
        log.info("Slurm: element %d of %d: %s; %d jobs were not run", one.number, array.job_id, one.state, len(left))
        stillborn = one.state is ElementState.FAILED and set(left) >= set(mine)
        with self._ledger.begin() as connection:
            self._release(connection, left, lost=one.state not in QUIET and not stillborn)
        if stillborn:
            self._refusals.stillborn(left, self._slurm.last_words(array, one))

    def _release(self, connection: Connection, job_ids: Sequence[int], *, lost: bool) -> None:
        """These wait for anybody again, or were lost too often."""
        for job_id in external_jobs.free(connection, job_ids, lost):
            why = "its element in the cluster never ran it"
            completing.give_up(connection, job_id, Outcome.LOST, Reason.LEASE_EXPIRED, why)

    def _take_back_forgotten(self, known: set[str]) -> None:
        """Reserved by who died before it came to submit."""
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

    def _submit(self, alive: Sequence[OwnElement]) -> None:
        """An array for all jobs that ask the same of the cluster; what is refused of one waits for the next look.
        alive: elements that wait or run there: as long as these are as many as slots, they take what fits into them."""
        with self._ledger.begin() as connection:
            found = external_jobs.waiting(connection, self._queues, self._site.max_array)
            alone = [one for one in found if sum(map(partial(takes, one), alive)) < self._slots]
            self._trusting = len(alone) < len(found)
            bundles, unfit = self._bundle(alone)
            for job_id, why in unfit.items():
                completing.give_up(connection, job_id, Outcome.BAD_ENVIRONMENT, Reason.NO_PARTITION, why)
            by_request: dict[Request, list[Bundle]] = {}
            for one in bundles:
                by_request.setdefault(one.request, []).append(one)
            arrays = {new_token(): mine for mine in by_request.values()}
            for token, mine in arrays.items():
                names = {id_: element_name(token, n) for n, one in enumerate(mine) for id_ in one.job_ids}
                external_jobs.reserve_for(connection, names)
        left = {token: tuple(id_ for one in mine for id_ in one.job_ids) for token, mine in arrays.items()}
        taken, refused = list[int](), list[Refused]()
        try:
            for token, mine in arrays.items():  # a crash from here on leaves reservations that are taken back
                said = self._submit_one(token, mine)
                if said is None:
                    taken += left.pop(token)
                else:
                    refused.append(Refused(mine[0].request, left[token], said))
        finally:
            self._free([id_ for ids in left.values() for id_ in ids])
        self._refusals.note(refused, taken, in_cluster=bool(alive))

    def _submit_one(self, token: str, mine: Sequence[Bundle]) -> str | None:
        """Slurm's words, if it refuses. Raises SlurmError if it does not answer."""
        request, wall = mine[0].request, self._site.wall
        memory_mb = int(request.memory_mb / self._site.memory.margin + 1e-6)
        elements = [
            OwnElement(
                name=element_name(token, n),
                jobs=one.job_ids,
                queues=list(self._queues),
                margin=wall.margin,
                seconds=60.0 * request.minutes - wall.warning_seconds,
                memory_mb=memory_mb,
            )
            for n, one in enumerate(mine)
        ]
        try:
            array = self._slurm.submit(request, [one.model_dump() for one in elements], WORDS, token)
        except SlurmError as error:
            self._slurm.answer()
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

    def _bundle(self, found: Sequence[Waiting]) -> tuple[list[Bundle], dict[int, str]]:
        """Elements of the arrays, and what no partition holds, with the reason."""
        bundles: list[Bundle] = []
        refused: dict[int, str] = {}
        open_: dict[tuple[int, int | None, str | None], Bundle] = {}
        for one in found:
            seconds = expected(one)
            place = (one.rung_id, one.memory_mb, one.needs)
            last = open_.get(place)
            shared = last is not None and last.seconds + seconds <= BUNDLE_SECONDS and len(last.job_ids) < MAX_BUNDLE
            try:
                total = seconds + (last.seconds if shared and last is not None else 0.0)
                request = fit(self._site, need_of(total, one.memory_mb, read(one.needs)))
            except NoPartitionError as error:
                refused[one.job_id] = str(error)
                continue
            if shared and last is not None:
                last.job_ids.append(one.job_id)
                last.seconds, last.request = total, request
            else:
                open_[place] = Bundle(request, [one.job_id], seconds)
                bundles.append(open_[place])
        return bundles, refused


def expected(one: Waiting) -> float:
    """Seconds to ask for: twice as many after each try that did not come to an end, never more than its limit."""
    return min((one.seconds or min(UNKNOWN_SECONDS, one.limit)) * 2.0**one.tries, one.limit)


def takes(one: Waiting, element: OwnElement) -> bool:
    """Whether the job fits into an element that is there, as it was when it began. What holds more than a core has one
    of its own."""
    fits = one.needs is None and one.seconds is not None and one.seconds * element.margin <= element.seconds
    return fits and (one.memory_mb or 0) <= element.memory_mb


def parsed(told: Sequence[Any], number: int) -> OwnElement | None:
    """What the folder of an array says of an element; None where it is not whole, or older than we are."""
    try:
        return OwnElement.model_validate(told[number])
    except (LookupError, ValidationError):
        return None


def element_name(token: str, number: int) -> str:
    return f"slurm {token}_{number}"


def _token(name: str) -> str:
    return name.removeprefix("slurm ").partition("_")[0]


class SlurmExecutor:
    """Jobs are offered in the ledger, and a follower brings them to the cluster."""

    name = "slurm"

    def __init__(self, ledger: Ledger, site: Site, queues: Sequence[str]) -> None:
        self._follower = Follower(ledger, site, queues)
        self._started = False

    @property
    def fault(self) -> str | None:
        return self._follower.fault

    def wake(self, jobs_by_queue: Mapping[str, int]) -> None:
        self._start()
        if jobs_by_queue:
            self._follower.hurry()

    def listen(self, campaign_id: int, bell: threading.Event) -> None:
        self._start()

    def close(self) -> None:
        if self._started:
            self._follower.close()

    def _start(self) -> None:
        if not self._started:
            self._follower.start()
            self._started = True
