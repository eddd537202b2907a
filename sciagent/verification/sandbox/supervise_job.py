"""The zygote's socket to its driver, and its supervision of one child: wall time, memory, messages and exit status.

The driver is the process that wants findings. The zygote is a warm process that forks a child for each job.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import shutil
import signal
import socket
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sciagent.domain.evidence_keys_and_pooled_replicates import Finding
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.safe_text_and_durations import clean
from sciagent.verification.sandbox import job_process, process_trees
from sciagent.verification.sandbox.messages import (
    MAX_ARTIFACT_BYTES,
    MAX_LINE,
    Job,
    WireError,
    dumps,
    finding_from_wire,
    finding_to_wire,
    loads,
    progress_from_wire,
)
from sciagent.verification.verifier_contract import Verifier

POLL_SECONDS = 0.08  # time between two checks of the limits
NAP_SECONDS = 0.02  # findings of a batch are read together, since one wake-up costs as much as a fast verification
ENVELOPE = frozenset({"finding", "cpu", "took", "waits", "stop"})  # the keys of a message with a finding
FAREWELL_SECONDS = 5.0  # time between the last finding and `done`
LEAVE_SECONDS = 0.05  # time between `done` and the end of the process, after which it is killed
MAX_OUTPUT = 16 << 20  # bytes of stdout and stderr; a larger file is emptied
TAIL_BYTES = 4000  # end of the output that a failure's diagnostics hold
READ_BYTES = 1 << 16  # largest piece that is read from the driver at once
COPY_BYTES = 1 << 20  # largest piece that is read from a child or a file at once
FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT})  # errors of a write to a full disk, or beyond a quota
FULL_DISK_PAUSE = 1.0  # seconds before a file is stored again after the disk was full
MAX_CLAIMED_SECONDS = 1e9  # a larger time that a child claims is invalid


class Cancelled(Exception):
    """The driver has cancelled the job."""


class FullDiskError(Exception):
    """The disk of the spool folder is full."""


class DriverGoneError(BaseException):
    """The driver has ended."""


class Control:
    """The socket to the driver: each line in is a job or `{"cancel": number}`, each line out is an event."""

    def __init__(self, connection: socket.socket, driver: int) -> None:
        self.driver = driver
        """A pidfd that becomes readable when the driver has ended."""
        self.fd = connection.fileno()
        self._socket = connection
        self._buffer = b""
        self.cancelled: set[int] = set()

    def first(self) -> Mapping[str, Any]:
        """Returns the first line, with the worker's folder, working directory and environment."""
        while b"\n" not in self._buffer:
            chunk = self._socket.recv(READ_BYTES)
            if not chunk:
                raise DriverGoneError
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        request: Mapping[str, Any] = json.loads(line)
        return request

    def read(self) -> list[Job]:
        """Returns the received jobs. Cancellations are kept in `cancelled`, since they may arrive before their job.

        Raises DriverGoneError at the end of file.
        """
        with contextlib.suppress(BlockingIOError):
            try:
                while chunk := self._socket.recv(READ_BYTES, socket.MSG_DONTWAIT):
                    self._buffer += chunk
            except ConnectionResetError as error:
                raise DriverGoneError from error
            raise DriverGoneError  # the other end of the socket is closed
        *lines, self._buffer = self._buffer.split(b"\n")
        jobs = []
        for line in lines:
            message = json.loads(line)
            if "cancel" in message:
                self.cancelled.add(message["cancel"])
            else:
                jobs.append(Job.from_wire(message))
        return jobs

    def check(self) -> None:
        """Raises DriverGoneError if the driver has ended; a fork of it may still hold the socket open."""
        if process_trees.readable([self.driver], 0):
            raise DriverGoneError

    def say(self, event: str, **more: Any) -> None:
        """Sends an event to the driver. more: its further fields."""
        self._write(dumps({"event": event, **more}))

    def pass_on(self, findings: Sequence[tuple[bytes, Mapping[str, Any]]]) -> None:
        """Sends checked findings to the driver as the child wrote them, each with its event's further fields."""
        events = []
        for line, more in findings:
            # the line is JSON already, and is put into the event as it is
            open_object = dumps({"event": "finding", **more}).removesuffix(b"}\n")
            events.append(open_object + b',"sent":' + line + b"}\n")
        self._write(b"".join(events))

    def _write(self, line: bytes) -> None:
        try:
            self._socket.sendall(line)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise DriverGoneError from error

    def close(self) -> None:
        self._socket.close()
        os.close(self.driver)


def failure(key: str, outcome: Outcome, reason: Reason, detail: str, **diagnostics: Any) -> Mapping[str, Any]:
    """Returns the finding of a failure in wire form."""
    return finding_to_wire(Finding(key, outcome, reason=reason, detail=clean(detail), diagnostics=diagnostics))


class Watch:
    """The supervision of one child from its start to its end."""

    def __init__(self, job: Job, folder: Path, driver: Control) -> None:
        self.index = 0
        """Index of the current candidate."""
        self.failure: Mapping[str, Any] | None = None
        """The failure of the current candidate, in wire form."""
        self.wall = 0.0
        """Seconds since the current candidate's turn began."""
        self._job = job
        self._driver = driver
        self._home = folder / f"job-{job.number}"
        self._spool = folder / "spool" / str(job.number)
        self._temporary = folder / process_trees.TEMPORARY
        self._work = self._home / "work"
        self._output = self._home / "output"
        self._socket, self._child_socket = socket.socketpair()
        self._pid = -1  # of the child; -1 before it starts
        self._pidfd = -1
        self._buffer = b""
        self._unsent: list[tuple[bytes, dict[str, Any]]] = []
        """The lines with findings that the driver has not got yet, each with its event's further fields."""
        self._nap_end = 0.0
        """Time until which the child's messages are left unread, so that several are read together."""
        self._is_socket_at_end = False
        self._is_finished = False
        """Whether the job has ended, by `done`, by a failure or by a finding that is the child's last."""
        self._has_sent_done = False
        """Whether the child itself has said that the batch is done."""
        self._turn_began = time.monotonic()
        """Time at which the current candidate's turn began."""
        self._heard_at = self._turn_began
        """Time at which the current candidate's turn began, or of its last report of progress."""
        self._limits_checked = self._turn_began
        """Time at which memory and output were last checked."""

    def run(self, kind: type[Verifier[Any]]) -> Mapping[str, Any]:
        """Verifies the job in a child and kills all its descendants. Returns `failure`, `index`, `wall`, and `cpu`, the
        CPU seconds of the child and its descendants."""
        before = process_trees.reaped_cpu()
        for new in (self._home, self._work):
            new.mkdir(mode=0o700)
        self._temporary.mkdir(exist_ok=True)
        try:
            self._start(kind)
            self._supervise()
            if self._has_sent_done:  # waiting for the child to end takes less time than to find and kill it
                process_trees.readable([self._pidfd], LEAVE_SECONDS)
        except Cancelled:
            self._fail(Outcome.LOST, Reason.WORKER_DIED, "cancelled")
        finally:
            process_trees.kill_descendants()
            self._socket.close()
            os.close(self._pidfd)
        cpu = process_trees.reaped_cpu() - before
        output_tail = self._tail() if self.failure else ""
        if self.failure and output_tail:
            self.failure["diagnostics"]["output_tail"] = output_tail
        for old in (self._home, self._temporary):
            shutil.rmtree(old, ignore_errors=True)
        return {"failure": self.failure, "index": self.index, "wall": self.wall, "cpu": cpu}

    def _start(self, kind: type[Verifier[Any]]) -> None:
        zygote = os.getpid()
        base_size = process_trees.virtual_size()

        def work() -> None:
            process_trees.die_with(zygote)
            self._driver.close()
            self._socket.close()
            job_process.run(self._job, kind, self._child_socket, self._work, self._output, base_size)

        self._pid = os.fork()
        if not self._pid:
            process_trees.run_and_exit(work)
        self._child_socket.close()
        self._pidfd = os.pidfd_open(self._pid)

    def _supervise(self) -> None:
        """Reads messages and checks limits until the batch is done or fails. Raises Cancelled and DriverGoneError."""
        while not self._is_finished:
            seconds_left = min(self._wall_end(), self._stall_end()) - time.monotonic()
            nap_seconds = self._nap_end - time.monotonic()
            is_napping = 0 < nap_seconds < seconds_left
            fds = [self._driver.fd, self._pidfd]
            if not (self._is_socket_at_end or is_napping):
                fds.append(self._socket.fileno())
            wait_seconds = nap_seconds if is_napping else max(0.0, min(seconds_left, POLL_SECONDS))
            ready = process_trees.readable(fds, wait_seconds)
            self.wall = time.monotonic() - self._turn_began
            if self._driver.fd in ready:
                self._driver.read()
            if self._job.number in self._driver.cancelled:
                raise Cancelled
            if self._socket.fileno() in ready:
                self._listen()
            elif self._pidfd in ready and is_napping:  # the child has ended; its last messages are read first
                self._nap_end = 0.0
            elif self._pidfd in ready:
                self._ended()
            elif seconds_left <= 0:
                self._out_of_time()
            # Not during a nap: findings sent meanwhile are unread, so the wrong candidate would be blamed.
            is_check_due = time.monotonic() - self._limits_checked >= POLL_SECONDS
            if is_check_due and not (is_napping or self._is_finished):
                self._check_limits()

    def _wall_end(self) -> float:
        """Returns the time at which the limit for the child's next message ends."""
        return self._turn_began + self._limit()

    def _stall_end(self) -> float:
        """Returns the time until which the child has to report progress."""
        return self._heard_at + (self._job.limits.stall_seconds or math.inf)

    def _out_of_time(self) -> None:
        """Ends the job with a failure at the limit that ended first."""
        if self._stall_end() < self._wall_end():
            detail = f"no progress was reported for {self._job.limits.stall_seconds:g} s"
            self._fail(Outcome.TIMEOUT, Reason.STALLED, detail)
        else:
            self._fail(Outcome.TIMEOUT, Reason.WALL_LIMIT, f"more than {self._limit():g} s")

    def _limit(self) -> float:
        """Returns the time limit for the child's next message, s."""
        if self.index >= len(self._job.candidates):
            return FAREWELL_SECONDS
        # in a job that runs them together, the first finding may take the time of all candidates
        n_verified = len(self._job.candidates) if self._job.together and self.index == 0 else 1
        return self._job.limits.wall_seconds * n_verified

    def _fail(self, outcome: Outcome, reason: Reason, detail: str) -> None:
        """Ends the job with a failure of the current candidate; after the last finding there is no failure."""
        self._is_finished = True
        if self.index < len(self._job.candidates):
            self.failure = failure(self._job.candidates[self.index].key, outcome, reason, detail)

    def _check_limits(self) -> None:
        """Checks the driver, the memory of the processes and the size of the output. Raises DriverGoneError."""
        self._driver.check()
        limit = self._job.limits.memory_mb
        used_bytes = process_trees.memory_exceeds(process_trees.descendants(os.getpid()), limit << 20)
        if used_bytes:
            self._fail(Outcome.OUT_OF_MEMORY, Reason.MEMORY_LIMIT, f"{used_bytes >> 20} MB; the limit is {limit} MB")
        with contextlib.suppress(OSError):
            if self._output.stat().st_size > MAX_OUTPUT:
                os.truncate(self._output, 0)
        self._limits_checked = time.monotonic()

    def _ended(self) -> None:
        """Reaps the child, which ended without its last messages, and ends the job with a failure."""
        _, wait_status = os.waitpid(self._pid, 0)
        status = os.waitstatus_to_exitcode(wait_status)
        if status < 0:  # ended by the signal -status
            self._ended_by_signal(-status)
        elif status:
            self._fail(Outcome.CRASHED, Reason.EXCEPTION, f"exit status {status} without a finding")
        else:
            self._fail(Outcome.CRASHED, Reason.NO_RESULT, "exit status 0 without a finding")

    def _ended_by_signal(self, number: int) -> None:
        """Ends the job with the failure of a child that a signal ended."""
        tail = self._tail()
        names_memory = (
            "bad_alloc" in tail or "annot allocate memory" in tail
        )  # texts of C++ and, with C or c, of the system
        if number == signal.SIGABRT and names_memory:
            self._fail(Outcome.OUT_OF_MEMORY, Reason.MEMORY_LIMIT, "aborted for want of memory")
            return
        name = signal.Signals(number).name if number in set(signal.Signals) else "real-time"
        self._fail(Outcome.CRASHED, Reason.SIGNAL, f"signal {number} ({name})")

    def _listen(self) -> None:
        """Reads the child's messages and sends the findings among them to the driver."""
        try:
            chunk = self._socket.recv(COPY_BYTES)
        except ConnectionError:  # the child ended without reading an acknowledgement
            chunk = b""
        self._is_socket_at_end = not chunk
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        try:
            for line in lines:
                if not self._is_finished:
                    self._handle(line)
            if len(self._buffer) > MAX_LINE:
                raise WireError(f"a message of more than {MAX_LINE} bytes")
        except WireError as error:
            # an invalid message after the last finding is the last candidate's failure
            self.index = min(self.index, len(self._job.candidates) - 1)
            self._fail(Outcome.CRASHED, Reason.BAD_RESULT, str(error))
        finally:
            self._pass_on()

    def _handle(self, line: bytes) -> None:
        """Handles one message of the child. Raises WireError for an invalid or unexpected message."""
        message = loads(line)
        is_after_last = self.index == len(self._job.candidates)
        if is_after_last and message == {"done": True}:
            self._is_finished = True
            self._has_sent_done = True
        elif is_after_last:
            raise WireError("more findings than candidates")
        elif set(message) == {"progress"}:
            progress = progress_from_wire(message["progress"])
            self._heard_at = time.monotonic()
            self._driver.say("progress", index=self.index, done=progress.done, of=progress.of, text=progress.text)
        else:
            _check_envelope(message)
            finding_from_wire(message["finding"], self._job.candidates[self.index].key)
            files = self._stored(message["finding"]["artifacts"])
            took = _seconds(message.get("took"))
            cpu = _seconds(message.get("cpu"))
            self._unsent.append((line, {"files": files, "took": took, "cpu": cpu}))
            self.index += 1
            self._is_finished = message.get("stop") is True
            if message.get("waits") is True:
                self._pass_on()
                with contextlib.suppress(OSError):
                    self._socket.send(b"\n")  # the acknowledgement

    def _stored(self, artifacts: Sequence[dict[str, str]]) -> list[dict[str, Any]]:
        """Stores the artifacts of the current candidate; waits while the disk is full, since the finding is good.

        The wait does not count as time of the job. Raises WireError as `store`, Cancelled and DriverGoneError.
        """
        while True:
            try:
                return store(artifacts, self._work, self._spool / str(self.index))
            except FullDiskError:
                time.sleep(FULL_DISK_PAUSE)
                self._turn_began += FULL_DISK_PAUSE
                self._heard_at += FULL_DISK_PAUSE
                self._driver.check()
                self._driver.read()
                if self._job.number in self._driver.cancelled:
                    raise Cancelled from None

    def _pass_on(self) -> None:
        """Sends the received findings to the driver. They share the time since the turn began, in the ratio that the
        child claims."""
        if not self._unsent:
            return
        now = time.monotonic()
        wall = now - self._turn_began
        claimed_seconds = sum(fields["took"] for _, fields in self._unsent)
        for _, fields in self._unsent:
            if claimed_seconds:
                fields["wall"] = wall * fields["took"] / claimed_seconds
            else:
                fields["wall"] = wall / len(self._unsent)
            # a claim of 0 stands for the whole wall time, and no claim may exceed it
            fields["took"] = min(fields["took"] or fields["wall"], fields["wall"])
        self._driver.pass_on(self._unsent)
        # a single candidate has no further finding for which a nap could be of use
        self._nap_end = 0.0 if len(self._job.candidates) == 1 else now + NAP_SECONDS
        self._unsent = []
        self._turn_began = now
        self._heard_at = now
        self.wall = 0.0

    def _tail(self) -> str:
        """Returns the end of the child's output; empty if there is none."""
        with contextlib.suppress(OSError), self._output.open("rb") as file:
            file.seek(max(0, self._output.stat().st_size - TAIL_BYTES))
            return clean(file.read().decode(errors="replace"))
        return ""


def _check_envelope(message: Mapping[str, Any]) -> None:
    """Raises WireError for unknown or ill-typed keys, since the line is sent to the driver unchanged."""
    if "finding" not in message or not set(message) <= ENVELOPE:
        raise WireError(f"a message is a finding with, at most, {', '.join(sorted(ENVELOPE - {'finding'}))}")
    if any(isinstance(value, dict | list | str) for name, value in message.items() if name != "finding"):
        raise WireError("what goes with a finding is a number or yes or no")


def _seconds(claimed: object) -> float:
    """Returns the claimed time, s; 0 if it is invalid."""
    if isinstance(claimed, int | float) and 0 <= claimed < MAX_CLAIMED_SECONDS:
        return float(claimed)
    return 0.0


def store(artifacts: Sequence[dict[str, str]], work: Path, spool: Path) -> list[dict[str, Any]]:
    """Copies the artifacts of a checked finding to the spool folder, and returns them with path, hash and size. Raises
    WireError if one is no regular file inside `work`, and FullDiskError."""
    stored: list[dict[str, Any]] = []
    for artifact in artifacts:
        try:
            digest, size = _copy(artifact["path"], work.resolve(), spool / artifact["name"])
        except (OSError, ValueError, RuntimeError) as error:
            if isinstance(error, OSError) and error.errno in FULL_DISK:
                raise FullDiskError from error
            raise WireError(f"artifact {artifact['name']}: {error}") from error
        stored.append({**artifact, "path": str(spool / artifact["name"]), "sha256": digest, "size": size})
    return stored


def _copy(path: str, inside: Path, target: Path) -> tuple[str, int]:
    """Copies a file; returns SHA-256 and size. Checks the open file, since the child may still replace it by name."""
    # a pipe or a terminal in place of the file neither blocks the zygote nor becomes its terminal
    source = os.open(inside / path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        real = Path(f"/proc/self/fd/{source}").readlink()
        if not real.is_relative_to(inside) or not stat.S_ISREG(os.fstat(source).st_mode):
            raise ValueError("no regular file inside the scratch folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        size = 0
        with target.open("wb") as copy:
            while chunk := os.read(source, COPY_BYTES):
                size += len(chunk)
                if size > MAX_ARTIFACT_BYTES:
                    raise ValueError(f"larger than {MAX_ARTIFACT_BYTES >> 20} MB")
                digest.update(chunk)
                copy.write(chunk)
    finally:
        os.close(source)
    return digest.hexdigest(), size
