"""A Celery worker in this process: `serve` returns when it has ended."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

import psutil

from sciagent.errors import UsageError
from sciagent.execution.celery.app import make_app
from sciagent.execution.celery.sidecar import Companion
from sciagent.execution.messaging.brokers import Broker
from sciagent.execution.worker.slots import MakeRunner, Place, Slots, owner_of, runner_of
from sciagent.store.job_queue.worker_resources import has_of
from sciagent.store.job_queue.workers import NewWorker

if TYPE_CHECKING:
    from celery import Celery
    from celery.apps.worker import Worker as CeleryWorker

log = logging.getLogger(__name__)
Pool = Literal["prefork", "threads", "solo"]
SOFT_SECONDS = 30.0
LAST_SECONDS = 10  # from asking a process to end to ending it


def serve(
    ledger_url: str,
    broker_url: str,
    name: str,
    queues: Sequence[str],
    slots: int,
    pool: Pool = "prefork",
    *,
    scratch: Path,
    memory_mb: int | None = None,
    cores: int | None = None,
    resources: Mapping[str, int] | None = None,
    max_jobs: int | None = None,
    max_memory_mb: int | None = None,
    autoscale: tuple[int, int] | None = None,
    soft_seconds: float = SOFT_SECONDS,
    make_runner: MakeRunner | None = None,
) -> None:
    """Take tokens of the queues until told to end. In the main thread, for it takes the signals.

    SIGTERM or SIGINT: finish what runs, take nothing new. Again, or SIGQUIT: what still runs after `soft_seconds` is
    ended, and waits for others. A third time: now.

    name: unique among the ledger's workers. slots: jobs at once; with autoscale (fewest, most) so many processes.
    pool: prefork for engines in processes of their own; threads for what shares a GPU; solo: one, in this thread.
    memory_mb, cores, resources: what jobs may hold, all slots together; cores: by default as many as slots.
    max_jobs, max_memory_mb: a process of prefork is replaced after so many, or when it has grown to that.
    A process of prefork that dies with a job in hand is reported to the ledger, which counts a kill.
    Raises UsageError: the broker's URL, no queue, no slot, a limit that the pool cannot keep, no extra `celery`.
    """
    broker = Broker.parse(broker_url)
    _check(queues, slots, pool, max_jobs, max_memory_mb, autoscale)
    place = Place(ledger_url, broker_url, name, tuple(queues), scratch)
    most = autoscale[1] if autoscale else slots
    each = None if memory_mb is None else memory_mb // most
    new = NewWorker(
        name, socket.gethostname(), os.getpid(), "celery", tuple(queues), most, memory_mb, cores, dict(resources or {})
    )
    held = Slots(place, make_runner or runner_of(queues, scratch, each, has_of(new)), threads=pool != "prefork")
    app = make_app(
        broker,
        queues,
        held,
        worker_max_tasks_per_child=max_jobs,
        worker_max_memory_per_child=max_memory_mb * 1024 if max_memory_mb else None,
    )
    ending = Ending(held, soft_seconds, processes=pool == "prefork")
    worker = _worker(app, name, slots, pool, autoscale, ending)
    companion = Companion(ledger_url, broker_url, new, partial(_drain, worker))
    _hear_of_deaths(app, name, companion, ending)
    try:
        with _receivers(held if pool == "prefork" else None, companion, ending):
            worker.start()
    finally:
        companion.close()
        held.close()


def _check(
    queues: Sequence[str],
    slots: int,
    pool: Pool,
    max_jobs: int | None,
    max_memory_mb: int | None,
    autoscale: tuple[int, int] | None,
) -> None:
    if not queues:
        raise UsageError("a worker needs at least one queue")
    if slots < 1 or (pool == "solo" and slots != 1):
        raise UsageError(f"{slots} slots; a worker has at least one, and one with the pool solo has one")
    if pool != "prefork" and (max_jobs or max_memory_mb or autoscale):
        raise UsageError(f"the pool {pool} has no processes to replace: limits on them and autoscaling need prefork")
    if autoscale is not None and not 1 <= autoscale[0] <= autoscale[1]:
        raise UsageError(f"autoscale {autoscale[0]} to {autoscale[1]}: the fewest is at least 1, the most no fewer")


def _hear_of_deaths(app: Celery, name: str, companion: Companion, ending: Ending) -> None:
    """Celery's parent process hears first that a process of its pool is gone."""
    from celery.exceptions import WorkerLostError
    from celery.worker.request import Request

    from sciagent.execution.messaging.tokens import TASK

    class WorkRequest(Request):  # type: ignore[misc]
        def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
            error = getattr(exc_info.exception, "exc", exc_info.exception)
            lost = isinstance(error, (WorkerLostError, SystemExit))
            if lost and self.worker_pid and not ending.now:
                companion.died(owner_of(name, self.worker_pid), self.args[0])
            return super().on_failure(exc_info, send_failed_event, return_ok or lost)

    app.tasks[TASK].Request = WorkRequest


def _worker(
    app: Celery, name: str, slots: int, pool: Pool, autoscale: tuple[int, int] | None, ending: Ending
) -> CeleryWorker:
    from celery.apps.worker import Worker as CeleryWorker

    class Worker(CeleryWorker):  # type: ignore[misc]
        def install_platform_tweaks(self, worker: Any) -> None:
            ending.install()

        def setup_logging(self, colorize: bool | None = None) -> bool:
            return True  # whoever runs this has done it

        def set_process_status(self, info: str) -> None:
            pass

    return Worker(
        app=app,
        hostname=name,
        pool=pool,
        concurrency=slots,
        quiet=True,
        loglevel=logging.WARNING,
        autoscale=(autoscale[1], autoscale[0]) if autoscale else None,
        without_heartbeat=True,
        without_mingle=True,
        without_gossip=True,
        task_events=False,
        optimization="fair",
    )


@contextlib.contextmanager
def _receivers(held: Slots | None, companion: Companion, ending: Ending) -> Iterator[None]:
    """What happens in this process when it is ready, and in those of a pool, if there is one, as they begin and end."""
    from celery import signals

    def begin(**_: Any) -> None:
        if held is None:
            return
        held.forget()
        for one in (signal.SIGQUIT, signal.SIGHUP):  # of the terminal, to all: the parent decides
            signal.signal(one, signal.SIG_IGN)

    def finish(**_: Any) -> None:
        if held is not None:
            held.close()

    def ready(**_: Any) -> None:
        ending.companion_pid = companion.start()

    logging.getLogger("celery").setLevel(logging.WARNING)  # else it has a line for each token
    receivers = {
        signals.setup_logging: _leave_alone,
        signals.worker_process_init: begin,
        signals.worker_process_shutdown: finish,
        signals.worker_ready: ready,
    }
    for one, do in receivers.items():
        one.connect(do, weak=False)
    try:
        yield
    finally:
        for one, do in receivers.items():
            one.disconnect(do)


def _leave_alone(**_: Any) -> None:
    """Celery asks who sets up logging: whoever runs this has done it, for the processes of the pool too."""


def _drain(worker: CeleryWorker, draining: bool) -> None:
    """Stop taking tokens, or go on. From another thread: the worker's own does it."""
    consumer = worker.consumer
    for queue in list(worker.app.conf.task_queues):
        if draining:
            consumer.call_soon(consumer.cancel_task_queue, queue.name)
        else:
            consumer.call_soon(consumer.add_task_queue, queue)


class Ending:
    """How a worker ends, step by step: each further signal is a step, and time is one."""

    def __init__(self, held: Slots, soft_seconds: float, *, processes: bool) -> None:
        self.now = False
        self.companion_pid: int | None = None  # it ends last
        self._step = 0
        self._held = held
        self._soft_seconds = soft_seconds
        self._processes = processes

    def install(self) -> None:
        for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM):
            signal.signal(one, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        from celery.worker import state

        state.should_stop = os.EX_OK
        self._step = max(2, self._step + 1) if number == signal.SIGQUIT else self._step + 1
        if self._step == 2:
            signal.setitimer(signal.ITIMER_REAL, max(self._soft_seconds, 0.001))
        elif self._step == 3:
            self._end(signal.SIGTERM)
            signal.setitimer(signal.ITIMER_REAL, LAST_SECONDS)
        elif self._step > 3:
            self._end(signal.SIGKILL)

    def _end(self, how: int) -> None:
        self.now = True
        if not self._processes:
            if how == signal.SIGKILL:
                os._exit(1)
            self._held.stop()
            return
        for process in psutil.Process().children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.pid != self.companion_pid:
                    process.send_signal(how)
