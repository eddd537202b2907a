"""The nursery: `python -m sciagent.verification.sandbox.zygote_nursery SOCKET OWNER VERIFIER...`.

SOCKET is the file descriptor of the socket with the requests; OWNER is a pidfd of the process that owns the nursery.

The nursery imports the verifiers' modules once and then forks a zygote for every worker. Imports therefore cost the
time and memory of a single process for any number of workers. The nursery forks from its only thread, so that a zygote
gets a signal when the nursery dies. The nursery is the subreaper of its zygotes: it kills the descendants of a dead
zygote before it reports the death to the driver.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
from dataclasses import dataclass

from sciagent.verification.sandbox import process_trees, zygote
from sciagent.verification.sandbox.messages import dumps
from sciagent.verification.sandbox.supervise_job import DriverGoneError

REQUEST_FDS = 2  # file descriptors of a request: the socket to the driver, and the driver's pidfd
REQUEST_BYTES = 16  # more than the data of a request, which carries file descriptors only
LOOK_SECONDS = 0.05  # CPU time between two checks of the owner during imports
REPORT_SECONDS = 5.0  # time for the driver to read the last messages of a dead zygote
END_SECONDS = 10.0  # time for the zygotes to end when the owner is gone


@dataclass(frozen=True)
class Born:
    """A running zygote."""

    pidfd: int
    """A file descriptor that becomes readable when the zygote has ended."""
    driver: socket.socket
    """The zygote's socket to the driver, on which its end is reported."""

    def close(self) -> None:
        os.close(self.pidfd)
        self.driver.close()


class Nursery:
    """The process that forks zygotes on request and reaps them."""

    def __init__(self, requests: socket.socket, owner: int) -> None:
        self._requests = requests
        self._owner = owner
        self._zygotes: dict[int, Born] = {}  # by process id
        process_trees.become_subreaper()

    def load(self, names: list[str]) -> None:
        """Imports the modules of the verifiers. A job reports the error of a verifier that cannot be imported.

        Imports take seconds, so a timer checks meanwhile whether the owner still exists.
        """
        signal.signal(signal.SIGVTALRM, self._check_owner)
        signal.setitimer(signal.ITIMER_VIRTUAL, LOOK_SECONDS, LOOK_SECONDS)
        try:
            for name in names:
                with contextlib.suppress(Exception):
                    zygote.load(name)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
        gc.collect()
        gc.freeze()  # keeps garbage collection in a zygote from copying shared memory pages

    def _check_owner(self, number: int, frame: object) -> None:
        """Raises DriverGoneError if the owner has ended; a signal handler."""
        if process_trees.readable([self._owner], 0):
            raise DriverGoneError

    def serve(self) -> None:
        """Forks and reaps zygotes until the owner is gone."""
        while True:
            pid_by_pidfd = {born.pidfd: pid for pid, born in self._zygotes.items()}
            requests = self._requests.fileno()
            ready = process_trees.readable([requests, self._owner, *pid_by_pidfd])
            if self._owner in ready:
                return
            for fd in ready & set(pid_by_pidfd):
                self._bury(pid_by_pidfd[fd])
            if requests in ready:
                data, fds, _, _ = socket.recv_fds(self._requests, REQUEST_BYTES, REQUEST_FDS)
                if not data:
                    return
                self._fork(*fds)

    def _fork(self, connection: int, driver: int) -> None:
        """Forks a zygote. connection: file descriptor of its socket to the driver. driver: pidfd of the driver."""
        socket_to_driver = socket.socket(fileno=connection)
        pid = os.fork()
        if pid == 0:  # this is the zygote
            self._requests.close()
            os.close(self._owner)
            for born in self._zygotes.values():
                born.close()
            nursery = os.getppid()
            process_trees.run_and_exit(lambda: zygote.main(socket_to_driver, driver, nursery))
        os.close(driver)
        self._zygotes[pid] = Born(os.pidfd_open(pid), socket_to_driver)

    def _bury(self, pid: int) -> None:
        """Reaps a zygote, kills its orphans, and reports its exit status to the driver."""
        born = self._zygotes.pop(pid)
        _, wait_status = os.waitpid(pid, 0)
        status = os.waitstatus_to_exitcode(wait_status)
        with contextlib.suppress(TimeoutError):
            process_trees.kill_orphans(self._zygotes)  # spares the other zygotes
        born.driver.settimeout(REPORT_SECONDS)
        with contextlib.suppress(OSError):
            # the zygote may have died within a line, which the line break ends
            born.driver.sendall(b"\n" + dumps({"event": "dead", "status": status}))
        born.close()

    def end(self) -> None:
        """Ends the zygotes, which clean up after themselves, and then all other descendants."""
        for pid in self._zygotes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        # a pending request still gets its zygote, since a zygote that ends removes the worker's folder
        with contextlib.suppress(BlockingIOError):
            while True:
                _, fds, _, _ = socket.recv_fds(self._requests, REQUEST_BYTES, REQUEST_FDS, socket.MSG_DONTWAIT)
                if not fds:
                    break
                self._fork(*fds)
        for pid, born in list(self._zygotes.items()):
            if process_trees.readable([born.pidfd], END_SECONDS):
                self._bury(pid)
        process_trees.kill_descendants()


def main(fd: int, owner: int, names: list[str]) -> None:
    """Serves requests until the owner is gone.

    fd: file descriptor of the socket with the requests. owner: pidfd of the owner. names: the verifiers to import.
    """
    nursery = Nursery(socket.socket(fileno=fd), owner)
    try:
        nursery.load(names)
        nursery.serve()
    except DriverGoneError:
        pass
    finally:
        nursery.end()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
