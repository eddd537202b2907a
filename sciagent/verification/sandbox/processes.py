"""Inspection and termination of process trees. Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import NoReturn

import psutil

MARKER = "SCIAGENT_WORKER"  # environment variable of a zygote and its descendants
PROC = Path("/proc")
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def readable(fds: Iterable[int], seconds: float | None = None) -> set[int]:
    """Returns the file descriptors that become readable, or closed at the other end, in that time; None for no limit.

    `select.select` accepts no descriptor above 1,023, and many workers need more.
    """
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return {fd for fd, _ in poll.poll(None if seconds is None else math.ceil(1000 * seconds))}


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
    if not (PROC / "self" / "task" / str(os.getpid()) / "children").exists():  # gVisor lacks these files
        return [process.pid for process in psutil.Process(root).children(recursive=True)]
    pids: list[int] = []
    parents = [root]
    while parents:
        children: list[int] = []
        with contextlib.suppress(OSError):
            for task in (PROC / str(parents.pop()) / "task").iterdir():
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
    """Sends SIGKILL to the processes; those that are gone or foreign are skipped."""
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
            while os.waitpid(-1, os.WNOHANG)[0]:
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
    while orphans := [child.pid for child in psutil.Process().children() if child.pid not in children]:
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
    return int((PROC / "self" / "statm").read_text().split()[0]) * resource.getpagesize()


def limit_memory(size: int) -> None:
    """Limits the address space of this process. size: bytes."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard))


def memory_exceeds(pids: Iterable[int], limit: int) -> int | None:
    """Returns the total memory of the processes, bytes, if it exceeds `limit`; else None.

    Resident sizes are checked first, since they are cheap. They count shared pages several times, so proportional sizes
    decide.
    """
    pids = list(pids)
    resident = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError):
            resident += int((PROC / str(pid) / "statm").read_text().split()[1]) * resource.getpagesize()
    if resident <= limit:
        return None
    proportional = sum(map(_proportional, pids))
    return proportional if proportional > limit else None


def _proportional(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def marked(token: str) -> list[int]:
    """Returns the processes that have the marker in their initial environment."""
    pids: list[int] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARKER) == token:
                pids.append(process.pid)
    return pids


def kill_marked(token: str, patience: float = 5.0) -> None:
    """Kills the processes with the marker, such as those of a dead zygote, which have no subreaper any more."""
    deadline = time.monotonic() + patience
    while (left := marked(token)) and time.monotonic() < deadline:
        kill(left)
        time.sleep(0.01)
