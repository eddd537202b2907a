"""Runs a Celery worker in this process. Each slot is a thread with its own zygote."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from sciagent.domain.jobs.states import JobState
from sciagent.errors import UsageError
from sciagent.execution.celery.app import make_app
from sciagent.execution.celery.slots import Slots
from sciagent.execution.messaging.brokers import Broker
from sciagent.execution.messaging.wakeups import Wakeups
from sciagent.execution.worker.completing import Reaped
from sciagent.execution.worker.registration import Presence
from sciagent.execution.worker.runner import Runner, runner_of
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import workers
from sciagent.store.job_queue.workers import NewWorker

if TYPE_CHECKING:
    from celery.apps.worker import Worker as CeleryWorker

log = logging.getLogger(__name__)
SOFT_SECONDS = 30.0
LAST_SECONDS = 10  # from ending the running jobs to ending this process


def serve(
    ledger_url: str,
    broker_url: str,
    name: str,
    queues: Sequence[str],
    slots: int,
    *,
    scratch: Path,
    memory_mb: int | None = None,
    cores: int | None = None,
    resources: Mapping[str, int] | None = None,
    soft_seconds: float = SOFT_SECONDS,
    make_runner: Callable[[Ledger, str], Runner] | None = None,
) -> None:
    """Take tokens of the queues until a signal ends the worker. Must run in the main thread, which handles signals.

    SIGTERM, SIGINT or SIGHUP: running jobs finish, and no new job is taken. A second signal, or SIGQUIT: jobs that are
    not finished after `soft_seconds` are ended and return to the queue. A third signal ends them at once.

    name: unique among the ledger's workers. slots: number of jobs at a time, each in its own process.
    memory_mb, cores, resources: capacity for the jobs of all slots together; cores: as many as slots by default.
    Raises UsageError for a bad broker URL, no queue, no slot, or a missing extra `celery`.
    """
    broker = Broker.parse(broker_url)
    if not queues:
        raise UsageError("a worker needs at least one queue")
    if slots < 1:
        raise UsageError(f"{slots} slots; a worker has at least one")
    new = NewWorker(
        name, socket.gethostname(), os.getpid(), "celery", tuple(queues), slots, memory_mb, cores, dict(resources or {})
    )
    logging.getLogger("celery").setLevel(logging.WARNING)  # otherwise it logs a line for each token
    with contextlib.ExitStack() as closing:
        wakeups = Wakeups(broker_url)
        closing.callback(wakeups.close)
        make = make_runner or (lambda ledger, owner: runner_of(ledger, new, owner, scratch))
        held = Slots(ledger_url, wakeups, name, make)
        closing.callback(held.close)
        presence = Presence(new, lambda draining: _drain(worker, draining), partial(_wake, new, wakeups))
        stop = threading.Event()
        thread = threading.Thread(target=_serve_presence, args=(presence, held, stop), name="presence", daemon=True)
        worker = _worker(make_app(broker, queues, held), name, slots, Ending(held, soft_seconds), thread)
        try:
            worker.start()
        finally:
            stop.set()
            if thread.ident is not None:
                thread.join(timeout=10)
        if presence.fault is not None:
            raise presence.fault


def _serve_presence(presence: Presence, held: Slots, stop: threading.Event) -> None:
    from celery.worker import state

    presence.serve(held.ledger, stop)
    if presence.fault is not None:  # no job can be taken any more, so the worker ends
        state.should_stop = os.EX_OK


def _wake(new: NewWorker, wakeups: Wakeups, ledger: Ledger, reaped: Sequence[Reaped]) -> None:
    """Send tokens to queues with jobs but without tokens, since a broker may have lost them."""
    freed = {job.queue for job in reaped if job.state is JobState.QUEUED and job.queue}
    with ledger.read() as connection:
        depths = workers.depths(connection, [*{*new.queues, *freed}])
    for name, depth in depths.items():
        if depth and wakeups.waiting(name) == 0:
            wakeups.wake(name, min(depth, new.slots))


def _worker(app: Any, name: str, slots: int, ending: Ending, presence: threading.Thread) -> CeleryWorker:
    """Returns Celery's worker. presence: a thread that is started when the worker begins to take tokens."""
    from celery.apps.worker import Worker as CeleryWorker

    class ThreadedWorker(CeleryWorker):  # type: ignore[misc]
        def install_platform_tweaks(self, worker: Any) -> None:
            ending.install()

        def on_consumer_ready(self, consumer: Any) -> None:
            presence.start()

        def setup_logging(self, colorize: bool | None = None) -> bool:
            return True  # the caller has set it up

        def set_process_status(self, info: str) -> None:
            """Does nothing, so that the process keeps its name."""

    return ThreadedWorker(
        app=app, hostname=name, pool="threads", concurrency=slots, quiet=True, loglevel=logging.WARNING
    )


def _drain(worker: CeleryWorker, draining: bool) -> None:
    """Stop or resume taking tokens, in the worker's own thread."""
    consumer = worker.consumer
    for queue in list(worker.app.conf.task_queues):
        if draining:
            consumer.call_soon(consumer.cancel_task_queue, queue.name)
        else:
            consumer.call_soon(consumer.add_task_queue, queue)


class Ending:
    """Ends a worker in steps. Each further signal starts the next step, and so does a timer."""

    def __init__(self, held: Slots, soft_seconds: float) -> None:
        self._step = 0
        self._held = held
        self._soft_seconds = soft_seconds

    def install(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM):
            signal.signal(number, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        from celery.worker import state

        state.should_stop = os.EX_OK
        self._held.finish()
        self._step = max(2, self._step + 1) if number == signal.SIGQUIT else self._step + 1
        if self._step == 2:
            signal.setitimer(signal.ITIMER_REAL, max(self._soft_seconds, 0.001))
        elif self._step == 3:
            self._held.stop()
            signal.setitimer(signal.ITIMER_REAL, LAST_SECONDS)
        elif self._step > 3:
            os._exit(1)
