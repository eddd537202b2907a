"""Start, inspection and termination of process trees, and limits on processes. Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import resource
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn

import psutil

TEMPORARY = "tmp"  # the folder for temporary files within that of a worker
MARKER = "SCIAGENT_WORKER"  # environment variable of a zygote and its descendants
_NEW_LOG = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND  # flags that open an empty file to append to
ANY_CHILD = -1  # process id by which `waitpid` waits for any child
_PR_SET_PDEATHSIG = 1  # numbers of the operations of prctl(2)
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    """Sets an attribute of this process. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)  # None: the libraries of this process
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def readable(fds: Iterable[int], seconds: float | None = None) -> set[int]:
    """Returns the file descriptors that become readable, or closed at the other end, within `seconds`.

    seconds: the longest wait; None for no limit. `select.select` is not used, since it accepts no descriptor above
    1,023, and many workers need more.
    """
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    milliseconds = None if seconds is None else math.ceil(1000 * seconds)
    return {fd for fd, _ in poll.poll(milliseconds)}


def run_and_exit(work: Callable[[], None]) -> NoReturn:
    """Runs `work` in a forked process and ends the process; after an exception prints it and exits with status 1."""
    status = 1
    try:
        work()
        status = 0
    except BaseException:  # noqa: BLE001  otherwise the forked process would continue as a copy of its parent
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def become_subreaper() -> None:
    """Makes this process adopt every descendant, daemons included, whose parent dies."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int, by: int = signal.SIGKILL) -> None:
    """Makes the kernel send this process the signal `by` when its parent dies, at once if it has died already."""
    _prctl(_PR_SET_PDEATHSIG, by)
    if os.getppid() != parent:
        os.kill(os.getpid(), by)


def descendants(root: int) -> list[int]:
    """Returns the process ids of all descendants of `root`, zombies included."""
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():  # gVisor lacks these files
        return [process.pid for process in psutil.Process(root).children(recursive=True)]
    pids: list[int] = []
    parents = [root]
    while parents:
        children: list[int] = []
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{parents.pop()}/task").iterdir():
                with contextlib.suppress(OSError):
                    children.extend(map(int, (task / "children").read_text().split()))
        pids += children
        parents += children
    return pids


def is_stopped(pid: int) -> bool:
    """Returns whether a signal (SIGSTOP, SIGTSTP) has stopped the process; a debugger's stop does not count."""
    with contextlib.suppress(psutil.Error):
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    return False


def kill(pids: Iterable[int]) -> None:
    """Sends SIGKILL to the processes; those that are gone, or belong to another user, are skipped."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def kill_descendants(patience: float = 15.0) -> None:
    """Kills and reaps all descendants of this process, which must be a subreaper.

    The result is certain: a descendant becomes a child of this process when its parents die, and `waitpid` sees it.
    Raises TimeoutError if a process survives SIGKILL for `patience` seconds.
    """
    deadline = time.monotonic() + patience
    pause = 0.0005
    while True:
        try:
            while os.waitpid(ANY_CHILD, os.WNOHANG)[0]:  # reaps each child that has ended
                pass
        except ChildProcessError:
            return
        kill(descendants(os.getpid()))
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {descendants(os.getpid())} outlive SIGKILL")
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def kill_orphans(children: Collection[int], patience: float = 5.0) -> None:
    """Kills and reaps all children of this process, a subreaper, except `children`, with their descendants.

    Raises TimeoutError if a process survives SIGKILL for `patience` seconds.
    """
    deadline = time.monotonic() + patience
    while True:
        orphans = [child.pid for child in psutil.Process().children() if child.pid not in children]
        if not orphans:
            return
        for pid in orphans:
            kill([*descendants(pid), pid])
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {orphans} outlive SIGKILL")
        time.sleep(0.002)


def reaped_cpu() -> float:
    """Returns the CPU seconds, user and system, of all descendants reaped so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def own_cpu() -> float:
    """Returns the CPU seconds of this process and of all descendants reaped so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime + reaped_cpu()


def virtual_size() -> int:
    """Returns the address space of this process, bytes."""
    return int(psutil.Process().memory_info().vms)


def limit_memory(size: int) -> None:
    """Limits the address space of this process. size: bytes."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
    soft_limit = size if hard_limit == resource.RLIM_INFINITY else min(size, hard_limit)
    resource.setrlimit(resource.RLIMIT_AS, (soft_limit, hard_limit))


def memory_exceeds(pids: Iterable[int], limit: int) -> int | None:
    """Returns the total memory of the processes, bytes, if it exceeds `limit`; else None.

    Resident sizes are checked first, since they are cheap. They count shared pages several times, so proportional sizes
    decide.
    """
    pids = list(pids)
    if _total(pids, lambda process: process.memory_info().rss) <= limit:
        return None
    proportional = _total(pids, lambda process: process.memory_full_info().pss)
    return proportional if proportional > limit else None


def _total(pids: Iterable[int], size: Callable[[psutil.Process], int]) -> int:
    """Returns the sum of the sizes of the processes, bytes. A process that has ended counts nothing."""
    total = 0
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            total += size(psutil.Process(pid))
    return total


def redirect(folder: Path | str, output: Path) -> None:
    """Makes `folder` the working directory of this process, empties its input, and sends its output to a new file."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(output, _NEW_LOG, 0o600)
    for standard_fd, fd in enumerate((nothing, log, log)):  # input, output, error
        os.dup2(fd, standard_fd)
    os.close(nothing)
    os.close(log)
    os.chdir(folder)
    tempfile.tempdir = None  # makes tempfile read TMPDIR again


class MarkedProcess:
    """A Python process with a session of its own, whose descendants all carry its marker in their environment."""

    def __init__(
        self,
        module: str,
        fds: Sequence[int],
        names: Iterable[str],
        environment: Mapping[str, str],
        output: IO[bytes] | int,
        interpreter: Path | None = None,
    ) -> None:
        """Starts the process.

        module: a module of this package, run with the file descriptors and the names as arguments. interpreter: the
        interpreter of another environment; default: the interpreter of this process."""
        self.owner = os.getpid()
        """The id of the process that started this one."""
        self._token = secrets.token_hex(8)
        # -P: no module is imported from the working directory
        self._process = subprocess.Popen(
            [str(interpreter or sys.executable), "-P", "-m", f"{__package__}.{module}", *map(str, fds), *names],
            env={**environment, MARKER: self._token},
            pass_fds=fds,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> None:
        """Kills the process, if this one started it, and all its descendants."""
        if self.owner == os.getpid():
            self._process.kill()
            self._process.wait()
        deadline = time.monotonic() + 5.0
        descendants_left = marked(self._token)  # they have no subreaper any more
        while descendants_left and time.monotonic() < deadline:
            kill(descendants_left)
            time.sleep(0.01)
            descendants_left = marked(self._token)


def marked(token: str) -> list[int]:
    """Returns the ids of the processes whose initial environment has the marker with this token."""
    marked_pids = []
    for process in psutil.process_iter(["environ"]):
        environment = process.info["environ"] or {}  # None for the processes of other users
        if environment.get(MARKER) == token:
            marked_pids.append(process.pid)
    return marked_pids
