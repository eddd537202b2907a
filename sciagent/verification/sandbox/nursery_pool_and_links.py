"""The driver's ends of the sockets to nurseries and zygotes: starts them, exchanges messages, cleans up after them.

A nursery is a process that has imported the modules of some verifiers. It forks zygotes, one for each worker, and a
zygote forks a process for each job.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from sciagent.domain.safe_text_and_durations import clean
from sciagent.inputs.engine_environments import without_python_variables
from sciagent.verification import verifier_registry
from sciagent.verification.sandbox.job_process import THREAD_VARIABLES
from sciagent.verification.sandbox.messages import dumps
from sciagent.verification.sandbox.process_trees import TEMPORARY, MarkedProcess, is_stopped, readable

TRIES = 3  # nurseries that are started for a zygote
POLL_SECONDS = 0.25  # time between two checks of whether a signal has stopped a process
LOG_END_BYTES = 1 << 16  # bytes at the end of a log that are read for its last lines
BURY_SECONDS = 5.0  # time for the nursery to report the end of a killed zygote; then the nursery itself is killed


def _environment(interpreter: Path | None, **more: str) -> dict[str, str]:
    """Returns the variables of this process, those that limit engines to a single thread, and `more`.

    interpreter: interpreter of another environment, which gets no variables of this Python; None for this one.

    OpenBLAS 0.3.3 in PySCF's wheel treats newer processors as a Barcelona of 2007 and then multiplies matrices at half
    the speed (15 instead of 28 GFLOP/s measured on an AMD EPYC), hence OPENBLAS_CORETYPE for those with AVX2 and FMA.
    """
    processor_text = Path("/proc/cpuinfo").read_text(errors="replace")
    _, _, after_flags = processor_text.partition("flags")
    flag_line, _, _ = after_flags.partition("\n")
    flags = flag_line.split()
    variables: dict[str, str] = {}
    if {"avx2", "fma"} <= set(flags):
        variables["OPENBLAS_CORETYPE"] = "Haswell"
    variables.update(without_python_variables(os.environ) if interpreter else os.environ)
    variables.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    variables.update(more)
    return variables


def last_lines(log: IO[bytes] | Path) -> str:
    """Returns the end of a log as a single line."""
    text = b""
    with contextlib.suppress(OSError):
        if isinstance(log, Path):
            text = log.read_bytes()
        else:
            size = os.fstat(log.fileno()).st_size
            text = os.pread(log.fileno(), LOG_END_BYTES, max(0, size - LOG_END_BYTES))
    lines = text.decode(errors="replace").split("\n")
    return clean(" ".join(lines[-4:]).strip(), 500)


class NurseryHandle(MarkedProcess):
    """A nursery that was started by this process or by one from which it was forked. It ends with its owner."""

    def __init__(self, names: frozenset[str], python: dict[str, str], interpreter: Path | None) -> None:
        """names: verifiers whose modules it imports. python: environment variables on which imports depend.
        interpreter: that of another environment, which then gets none of these variables."""
        self.names = names
        self.python = python
        self.interpreter = interpreter
        self.log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the nursery
        """The nursery's output."""
        self.requests, nursery_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with nursery_socket, os.fdopen(os.pidfd_open(os.getpid())) as owner:
            super().__init__(
                "zygote_nursery",
                fds=[nursery_socket.fileno(), owner.fileno()],
                names=sorted(names),
                environment=_environment(interpreter),
                output=self.log,
                interpreter=interpreter,
            )

    def end(self) -> None:
        self.requests.close()
        super().end()
        self.log.close()


class Nurseries:
    """The nurseries of this process, and those inherited from the process from which it was forked."""

    def __init__(self) -> None:
        self._running: list[NurseryHandle] = []
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def start(self, names: Sequence[str], interpreter: Path | None = None) -> NurseryHandle:
        """Returns the nursery for these verifiers: the process that has imported their modules and forks zygotes.
        Starts one if none runs. interpreter: that of another environment."""
        python = {name: text for name, text in os.environ.items() if name.startswith("PYTHON")}
        if interpreter is not None:
            python = {}
        wanted_names = frozenset(names)
        with self._lock:
            for nursery in self._running:
                is_same_python = nursery.python == python and nursery.interpreter == interpreter
                if is_same_python and wanted_names <= nursery.names:
                    return nursery
            started = NurseryHandle(wanted_names, python, interpreter)
            self._running.append(started)
            return started

    def fork(self, names: Sequence[str], fds: Sequence[int], interpreter: Path | None = None) -> NurseryHandle:
        """Requests a zygote with these file descriptors from a nursery, and returns the nursery. Raises ConnectionError
        if every new nursery ends at once."""
        for _ in range(TRIES):
            nursery = self.start(names, interpreter)
            try:
                socket.send_fds(nursery.requests, [b"zygote"], fds)
                return nursery
            except ConnectionError:
                self.drop(nursery)
        raise ConnectionError(f"{TRIES} nurseries ended as soon as they were started")

    def drop(self, nursery: NurseryHandle) -> None:
        """Ends a nursery that has died or does not answer."""
        with self._lock:
            if nursery not in self._running:
                return
            self._running.remove(nursery)
        nursery.end()

    def pids(self) -> list[int]:
        """Returns the process ids of the nurseries."""
        return [nursery.pid for nursery in self._running]

    def close(self) -> None:
        """Ends the nurseries that this process started."""
        for nursery in list(self._running):
            if nursery.owner == os.getpid():
                self.drop(nursery)


nurseries = Nurseries()


class ZygoteDiedError(Exception):
    """The zygote has ended or has been silent for too long."""


class ZygoteLink:
    """A zygote process. Any thread may call `send` and `kill`; only one thread at a time the other methods."""

    def __init__(self, folder: Path, preload: Sequence[str], interpreter: Path | None = None) -> None:
        """folder: folder for the zygote's files, removed when it ends. preload: verifiers whose modules are imported
        before the first job. interpreter: interpreter of another environment; None for this one."""
        self._folder = folder
        self._writing = threading.Lock()
        self._buffer = b""
        self._events: deque[Mapping[str, Any]] = deque()
        self._pid = -1  # of the zygote; -1 before it has sent its first event
        self._pidfd = -1
        self._status: int | None = None
        """Exit status of the zygote; None before the nursery has reported its end."""
        self._spoke = False
        """Whether the zygote has sent an event on a job."""
        self._ended = False
        """Whether the zygote's end was reported, or the socket is closed at the other end."""
        (folder / TEMPORARY).mkdir(parents=True, exist_ok=True)
        verifier_registry.send(folder)  # pickles of the verifiers that this process has defined
        # verifiers that this process has defined are in no module that a nursery could import
        installed = [name for name in preload if name not in verifier_registry.defined()]
        self._socket, zygote_socket = socket.socketpair()
        with zygote_socket, os.fdopen(os.pidfd_open(os.getpid())) as driver:
            self._nursery = nurseries.fork(installed, [zygote_socket.fileno(), driver.fileno()], interpreter)
        variables = _environment(interpreter, TMPDIR=str(folder / TEMPORARY))
        self.send({"folder": str(folder), "cwd": str(Path.cwd()), "environment": variables})

    @property
    def pid(self) -> int:
        """The process id of the zygote. The property waits until the zygote has been forked."""
        while self._pid < 0 and not self._ended:
            self._read(None)
        return self._pid

    @property
    def alive(self) -> bool:
        """Whether the zygote runs or has yet to be forked."""
        if self.wait(0):
            return False
        has_just_ended = self._pidfd >= 0 and bool(readable([self._pidfd], 0))  # and is not yet reported
        return not has_just_ended

    def send(self, message: Mapping[str, Any], patience: float = -1) -> bool:
        """Sends a message. Returns False if another thread did not release the socket in time; patience: s, -1 for no
        limit. The end of the zygote is noticed by `receive`."""
        if not self._writing.acquire(timeout=patience):
            return False
        try:
            with contextlib.suppress(OSError):
                self._socket.sendall(dumps(message))
        finally:
            self._writing.release()
        return True

    def receive(self, deadline: float, hurry: threading.Event, hurry_seconds: float) -> Mapping[str, Any]:
        """Returns the next event. Raises ZygoteDiedError at the zygote's end, at the deadline (monotonic clock), and
        `hurry_seconds` after `hurry` was set."""
        while not self._events:
            if hurry.is_set():
                deadline = min(deadline, time.monotonic() + hurry_seconds)
                hurry_seconds = float("inf")  # the deadline is shortened once
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0:
                raise ZygoteDiedError("it fell silent")
            if self._ended:
                raise ZygoteDiedError(self._last_words())
            if self._read(min(seconds_left, POLL_SECONDS)):
                continue
            for pid in (self._pid, self._nursery.pid):
                if pid > 0 and is_stopped(pid):
                    raise ZygoteDiedError("a signal stopped it")  # a verifier can send one to its parent
        return self._events.popleft()

    def _read(self, seconds: float | None) -> bool:
        """Reads what arrives within that time; None for no limit. Returns whether anything arrived."""
        chunk = b""
        with contextlib.suppress(OSError, ValueError):  # the socket was closed meanwhile
            if not readable([self._socket.fileno()], seconds):
                return False
            chunk = self._socket.recv(1 << 16)
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):  # a line truncated by the zygote's death
                self._take(json.loads(line))
        if not chunk:
            self._ended = True
        return True

    def _take(self, event: Mapping[str, Any]) -> None:
        """Notes the start or the end of the zygote; keeps any other event for `receive`."""
        if event["event"] == "born":
            self._pid = event["pid"]
            with contextlib.suppress(OSError):
                self._pidfd = os.pidfd_open(self._pid)
        elif event["event"] == "dead":  # from the nursery
            self._status = event["status"]
            self._ended = True
        else:
            self._events.append(event)
            self._spoke = True

    def wait(self, seconds: float) -> bool:
        """Returns whether the zygote and its descendants ended within that time."""
        deadline = time.monotonic() + seconds
        while not self._ended and self._read(max(0.0, deadline - time.monotonic())):
            pass
        return self._ended

    def _last_words(self) -> str:
        """Returns how the zygote ended and its last output."""
        if self._pid < 0:
            return f"the nursery ended: {last_lines(self._nursery.log)}"
        if self._status is None:
            how = "it closed its socket"
        elif self._status < 0:
            number = -self._status
            name = signal.Signals(number).name if number in set(signal.Signals) else "real-time"
            how = f"signal {number} ({name})"
        else:
            how = f"exit status {self._status}"
        return f"{how} {last_lines(self._folder / 'zygote.log')}".strip()

    def kill(self) -> None:
        """Kills the zygote; one that is not yet forked will find its socket closed and end."""
        with contextlib.suppress(OSError):  # the zygote or the nursery has ended
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            else:
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self, patience: float = 20.0) -> None:
        """Closes the socket: the zygote then kills its descendants, removes the folder and ends. A zygote that has sent
        no event has started nothing, and is killed."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        if self._spoke:
            self.wait(patience)
        self.bury()

    def bury(self) -> None:
        """Kills the zygote and its descendants and removes its temporary files; spooled artifacts stay."""
        self.wait(0)
        self.kill()
        has_ended = self.wait(BURY_SECONDS)
        was_forked = self._pid >= 0
        # only the nursery knows the zygote's state; one that does not report it in time is ended, too
        if not has_ended or (was_forked and self._status is None):
            nurseries.drop(self._nursery)
        self._socket.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        for temporary in (*self._folder.glob("job-*"), self._folder / TEMPORARY):
            shutil.rmtree(temporary, ignore_errors=True)
