"""The nursery: `python -m sciagent.verification.sandbox.nursery SOCKET OWNER VERIFIER...`; both are file descriptors.

It imports once what the verifiers need and then forks a zygote for every worker that asks for one, so that importing
costs the time and the memory of one process, however many workers there are. It forks from its only thread, hence a
zygote hears of its death by a signal. It is the subreaper of its zygotes: what one leaves behind when it is killed is
killed here before the driver learns of it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from sciagent.verification.sandbox import processes, zygote

FDS = 6  # of a request: standard input, output and error, the driver's pidfd, the reply socket, the request itself
LOOK_SECONDS = 0.05  # of CPU time, between two looks for the owner while importing
END_SECONDS = 10.0  # for the zygotes to end when the owner is gone


@dataclass(frozen=True)
class Born:
    """A zygote that runs."""

    pidfd: int
    """Becomes readable when the zygote has ended."""
    reply: socket.socket
    """Tells the driver the exit status."""


class Nursery:
    """Forks zygotes on request and reaps them."""

    def __init__(self, requests: socket.socket, owner: int) -> None:
        self._requests, self._owner = requests, owner
        self._zygotes: dict[int, Born] = {}
        processes.become_subreaper()

    def load(self, names: list[str]) -> None:
        """Import what the verifiers need. One that cannot be imported is reported by the job that wants it."""
        with self._looking():
            for name in names:
                with contextlib.suppress(Exception):
                    zygote.load(name)
        gc.collect()
        gc.freeze()

    @contextlib.contextmanager
    def _looking(self) -> Iterator[None]:
        """Look for the owner while importing: imports take seconds, and may be for nobody any more."""
        signal.signal(signal.SIGVTALRM, lambda number, frame: self._check_owner())
        signal.setitimer(signal.ITIMER_VIRTUAL, LOOK_SECONDS, LOOK_SECONDS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, signal.SIG_DFL)

    def _check_owner(self) -> None:
        if processes.readable([self._owner], 0):
            raise zygote.DriverGoneError

    def serve(self) -> None:
        """Until the owner is gone."""
        while True:
            ends = {born.pidfd: pid for pid, born in self._zygotes.items()}
            requests = self._requests.fileno()
            ready = processes.readable([requests, self._owner, *ends])
            if self._owner in ready:
                return
            for fd in ready & set(ends):
                self._bury(ends[fd])
            if requests in ready:
                data, fds, _, _ = socket.recv_fds(self._requests, 16, FDS)
                if not data:
                    return
                self._fork(*fds)

    def _fork(self, stdin: int, stdout: int, stderr: int, driver: int, reply: int, request: int) -> None:
        answers = socket.socket(fileno=reply)
        if processes.readable([answers.fileno()], 0):  # hung up: the worker was closed before its turn came
            pid = 0
        elif not (pid := os.fork()):
            self._close()
            answers.close()
            _become_zygote(stdin, stdout, stderr, driver, request)
        for fd in (stdin, stdout, stderr, driver, request):
            os.close(fd)
        if not pid:
            answers.close()
            return
        born = self._zygotes[pid] = Born(os.pidfd_open(pid), answers)
        with contextlib.suppress(OSError):
            socket.send_fds(answers, [f"{pid}\n".encode()], [born.pidfd])

    def _bury(self, pid: int) -> None:
        """Reap a zygote, kill what it left behind, and tell the driver its exit status."""
        born = self._zygotes.pop(pid)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(TimeoutError):
            processes.kill_orphans(self._zygotes)
        with contextlib.suppress(OSError):
            born.reply.sendall(f"{status}\n".encode())
        born.reply.close()
        os.close(born.pidfd)

    def _close(self) -> None:
        """In the child: let go of everything that is the nursery's."""
        self._requests.close()
        os.close(self._owner)
        for born in self._zygotes.values():
            born.reply.close()
            os.close(born.pidfd)

    def end(self) -> None:
        """End the zygotes, which clean up after themselves, and whatever is left."""
        for pid in self._zygotes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        for pid, born in list(self._zygotes.items()):
            if processes.readable([born.pidfd], END_SECONDS):
                self._bury(pid)
        processes.kill_descendants()
        with contextlib.suppress(BlockingIOError):  # the folders of workers whose turn has not come
            while fds := socket.recv_fds(self._requests, 16, FDS, socket.MSG_DONTWAIT)[1]:
                shutil.rmtree(_read_request(fds[-1])[0], ignore_errors=True)


def _read_request(fd: int) -> tuple[Path, str, dict[str, str]]:
    """The worker's folder, the working directory and the environment that are asked for."""
    with os.fdopen(fd, "rb") as file:
        asked = json.load(file)
    return Path(asked["folder"]), asked["cwd"], asked["environment"]


def _become_zygote(stdin: int, stdout: int, stderr: int, driver: int, request: int) -> NoReturn:
    """In the child: take over session, streams, environment and folder that the driver has chosen."""
    status = 1
    try:
        nursery, marker = os.getppid(), os.environ[processes.MARKER]
        os.setsid()
        for number, fd in enumerate((stdin, stdout, stderr)):
            os.dup2(fd, number)
            os.close(fd)
        folder, cwd, environment = _read_request(request)
        os.environ.clear()
        os.environ.update(environment, **{processes.MARKER: marker})
        os.chdir(cwd)
        zygote.main(folder, driver, nursery)
        status = 0
    except BaseException:  # noqa: BLE001  the last stop before the fork's copy of the nursery would go on
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def main(fd: int, owner: int, names: list[str]) -> None:
    """Serve the requests that come through this socket until the owner, behind this pidfd, is gone."""
    nursery = Nursery(socket.socket(fileno=fd), owner)
    try:
        nursery.load(names)
        nursery.serve()
    except zygote.DriverGoneError:
        pass
    finally:
        nursery.end()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
