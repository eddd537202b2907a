"""What the kernel says of a process tree, and how to end one. Linux only."""

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

MARKER = "SCIAGENT_WORKER"  # in the environment of a zygote and of all it starts
PROC = Path("/proc")
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def readable(fds: Iterable[int], seconds: float | None = None) -> set[int]:
    """Those of the file descriptors that can be read, or are closed at the other end, within that time; None: for ever.

    `select.select` takes no descriptor above 1,023, and many workers have more.
    """
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return {fd for fd, _ in poll.poll(None if seconds is None else math.ceil(1000 * seconds))}


def run_and_exit(work: Callable[[], None]) -> NoReturn:
    """Do this in a forked process and end it, with status 1 after an exception, whose traceback is printed."""
    status = 1
    try:
        work()
        status = 0
    except BaseException:  # noqa: BLE001  the last stop before the fork's copy of its parent would go on
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def become_subreaper() -> None:
    """From now on a descendant whose parent dies becomes a child of this process, daemons included."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int, by: int = signal.SIGKILL) -> None:
    """The kernel sends this process a signal when its parent dies; it comes at once if that has happened already."""
    _prctl(_PR_SET_PDEATHSIG, by)
    if os.getppid() != parent:
        os.kill(os.getpid(), by)


def descendants(root: int) -> list[int]:
    """Every process below `root`, zombies included."""
    if not (PROC / "self" / "task" / str(os.getpid()) / "children").exists():  # a kernel without these files: gVisor
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
    """Whether a signal (SIGSTOP, SIGTSTP) has stopped the process. A debugger that holds it does not count."""
    with contextlib.suppress(psutil.Error):
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    return False


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def kill_descendants(patience: float = 15.0) -> None:
    """Kill and reap everything below this process, a subreaper, until nothing is left.

    `waitpid` says so for certain: whatever lives below is, once its parents are dead, our own child.
    Raises TimeoutError when something outlives SIGKILL for `patience` seconds.
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
    """Kill and reap every child of this process, a subreaper, with all below it, but for these children.

    Raises TimeoutError when something outlives SIGKILL for `patience` seconds.
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
    """CPU seconds, user and system, of every descendant reaped so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def own_cpu() -> float:
    """CPU seconds of this process and what it has reaped."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime + reaped_cpu()


def virtual_size() -> int:
    """Bytes of address space of this process."""
    return int((PROC / "self" / "statm").read_text().split()[0]) * resource.getpagesize()


def limit_memory(size: int) -> None:
    """Limit the address space of this process to that many bytes."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard))


def memory_exceeds(pids: Iterable[int], limit: int) -> int | None:
    """Bytes that the processes hold in memory together, if more than `limit`; else None.

    The resident sizes come first, for they are cheap. They count pages that forks share several times, so only
    the proportional sizes convict.
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
    """Processes that carry the marker in the environment they were started with."""
    pids: list[int] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARKER) == token:
                pids.append(process.pid)
    return pids


def kill_marked(token: str, patience: float = 5.0) -> None:
    """Kill what a dead zygote left behind: nobody is its subreaper any more, but the marker tells it apart."""
    deadline = time.monotonic() + patience
    while (left := marked(token)) and time.monotonic() < deadline:
        kill(left)
        time.sleep(0.01)
