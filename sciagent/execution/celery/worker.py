"""Runs a Celery worker in this process. Each slot is a thread with its own zygote, the process that forks its jobs.

Celery hands tokens to the threads of a worker and decides nothing else. The ledger records which job runs, who holds
its lease, its outcome and whether it is retried. Therefore tokens are acknowledged early, which is Celery's default,
and there are no results, retries or time limits. A token is never delivered again. A job whose lease expires is queued
again, and then gets a new token.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import closing
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from celery.concurrency.thread import TaskPool

from sciagent.domain.states_and_needs import JobState
from sciagent.errors import UsageError
from sciagent.execution.celery.broker_address_and_work_tokens import PREFIX, TASK, Broker
from sciagent.execution.celery.wakeups import HEARTBEAT_SECONDS, Wakeups
from sciagent.execution.worker.presence_and_leases import Presence
from sciagent.execution.worker.worker_slot import Runner
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs, workers_and_capacity
from sciagent.store.job_queue.leases import LiveAttempt
from sciagent.store.job_queue.workers_and_capacity import NewWorker

if TYPE_CHECKING:
    from celery import Celery
    from celery.apps.worker import Worker as CeleryWorker


log = logging.getLogger(__name__)
ANSWER_SECONDS = 30.0  # time limit for each answer of the broker; long, since no user waits for a worker
SOFT_SECONDS = 30.0  # from the second signal to ending the running jobs
LAST_SECONDS = 10  # from ending the running jobs to ending this process
JOIN_SECONDS = 10.0  # longest wait for the thread that renews the worker's row
TIMER_STEP = 2  # the step of `Ending` that sets a timer, which begins the next step
STOP_STEP = 3  # the step of `Ending` that ends the running jobs


def serve(ledger: Ledger, broker_url: str, new: NewWorker, scratch: Path) -> None:
    """Take tokens of the worker's queues until a signal ends it. Must run in the main thread, which handles signals.

    SIGTERM, SIGINT or SIGHUP: running jobs finish, and no new job is taken. A second signal, or SIGQUIT: jobs that are
    not finished after `SOFT_SECONDS` are ended and return to the queue. A third signal ends them at once.
    Raises UsageError for a bad broker URL or a missing extra `celery`.
    """
    broker = Broker.parse(broker_url)
    logging.getLogger("celery").setLevel(logging.WARNING)  # otherwise it logs a line for each token
    with closing(Wakeups(broker_url)) as wakeups, closing(Slots(ledger, wakeups, new, scratch)) as slots:
        # `presence` keeps the worker's row in the ledger; its thread is started by `worker`, which is created below
        presence = Presence(
            new,
            on_drain=lambda draining: _drain(worker, slots, draining),
            on_reap=partial(
                _replace_lost_tokens,
                new,
                wakeups,
                lambda queue, n: slots.work_without_tokens(worker.pool.executor, queue, n),
            ),
        )
        stop = threading.Event()
        thread = threading.Thread(target=_serve_presence, args=(presence, ledger, stop), name="presence", daemon=True)
        worker: CeleryWorker = _worker(make_app(broker, new.queues, slots), new, Ending(slots), presence=thread)
        try:
            worker.start()
        finally:
            stop.set()
            if thread.ident is not None:  # the thread was started
                thread.join(timeout=JOIN_SECONDS)
        if presence.fault is not None:
            raise presence.fault


def _serve_presence(presence: Presence, ledger: Ledger, stop: threading.Event) -> None:
    from celery.worker import state

    presence.serve(ledger, stop)
    if presence.fault is not None:  # no job can be taken any more, so the worker ends
        state.should_stop = os.EX_OK


def _replace_lost_tokens(
    new: NewWorker,
    wakeups: Wakeups,
    work_directly: Callable[[str, int], None],
    ledger: Ledger,
    reaped: Sequence[LiveAttempt],
) -> None:
    """Send tokens to queues with jobs but without tokens, since a broker may have lost them. While the broker does not
    answer, this worker's slots run the jobs of its own queues without tokens.

    work_directly: lets at most n slots run jobs of a queue. reaped: attempts whose jobs were taken back from dead
    workers."""
    queues_of_reaped = {live.queue for live in reaped if live.state is JobState.QUEUED and live.queue}
    with ledger.read() as connection:
        depths = workers_and_capacity.queue_depths(connection, list(queues_of_reaped.union(new.queues)))
    for name, depth in depths.items():
        if not depth:
            continue
        n_tokens = wakeups.n_tokens(name)
        if n_tokens == 0:
            wakeups.wake(name, min(depth, new.slots))
        elif n_tokens is None and name in new.queues:
            work_directly(name, min(depth, new.slots))


def _worker(app: Any, new: NewWorker, ending: Ending, presence: threading.Thread) -> CeleryWorker:
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
        app=app, hostname=new.name, pool=SlotThreads, concurrency=new.slots, quiet=True, loglevel=logging.WARNING
    )


def _drain(worker: CeleryWorker, slots: Slots, draining: bool) -> None:
    """Stop or resume taking jobs. Tokens are stopped or resumed in the worker's own thread."""
    slots.drain(draining)
    consumer = worker.consumer
    for queue in list(worker.app.conf.task_queues):
        if draining:
            consumer.call_soon(consumer.cancel_task_queue, queue.name)
        else:
            consumer.call_soon(consumer.add_task_queue, queue)


class Ending:
    """Ends a worker in steps. Each further signal starts the next step, and so does a timer."""

    def __init__(self, slots: Slots) -> None:
        self._step = 0
        self._slots = slots

    def install(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM):
            signal.signal(number, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        from celery.worker import state

        state.should_stop = os.EX_OK  # Celery's loop ends when it sees this
        self._slots.finish()
        self._step += 1
        if number == signal.SIGQUIT:  # leaves out the first step, in which running jobs may take any time
            self._step = max(TIMER_STEP, self._step)
        if self._step == TIMER_STEP:
            signal.setitimer(signal.ITIMER_REAL, SOFT_SECONDS)
        elif self._step == STOP_STEP:
            self._slots.stop()
            signal.setitimer(signal.ITIMER_REAL, LAST_SECONDS)
        elif self._step > STOP_STEP:
            os._exit(1)


class Slots:
    """The slots of a worker. A thread that takes a token runs jobs, the most urgent first, until none is queued. Each
    thread has a runner, created at its first token. The owner of the runner's leases is NAME/PROCESS.THREAD."""

    def __init__(self, ledger: Ledger, wakeups: Wakeups, new: NewWorker, scratch: Path) -> None:
        self._ledger = ledger
        self._wakeups = wakeups
        self._new = new
        self._scratch = scratch
        self._runners: dict[int, Runner] = {}  # by id of the thread
        self._finishing = threading.Event()
        self._stopped = threading.Event()
        self._is_draining = False
        self._without_tokens: list[Future[int]] = []  # calls of `work` that no token began

    def work(self, queue: str) -> int:
        """Run jobs until none is queued, and return their number. A fault is logged; the next token then creates a new
        runner.

        One token serves for many jobs: a job that waits needs no message.
        """
        n_ran = 0
        while not self._stopped.is_set():
            if self._finishing.is_set() or self._is_draining:
                if not n_ran:  # the token was already on its way; another worker takes it
                    self._wakeups.wake(queue)
                break
            ran = self._run_next(queue)
            if not ran:
                break
            n_ran += ran
        return n_ran

    def work_without_tokens(self, threads: Executor, queue: str, n: int) -> None:
        """Run jobs in at most n of the slots' threads until none is queued, as if that many tokens had come."""
        self._without_tokens = [future for future in self._without_tokens if not future.done()]
        for _ in range(n - len(self._without_tokens)):
            self._without_tokens.append(threads.submit(self.work, queue))

    def drain(self, draining: bool) -> None:
        """Take no more jobs, or take them again; running jobs go on."""
        self._is_draining = draining

    def finish(self) -> None:
        """Take no more jobs; running jobs may finish."""
        self._finishing.set()

    def stop(self) -> None:
        """End running jobs, which return to the queue, and take no more. A signal handler may call this: the runners
        are stopped in other threads, since the interrupted thread may hold the locks."""
        self._stopped.set()
        for runner in list(self._runners.values()):
            threading.Thread(target=runner.stop, name="stop", daemon=True).start()

    def close(self) -> None:
        while self._runners:
            _, runner = self._runners.popitem()
            runner.close()

    def _run_next(self, queue: str) -> int:
        """Run the most urgent job, notify its campaign's driver and wake another slot if more is queued. Returns the
        number of jobs that ran, 0 after a fault."""
        thread_id = threading.get_ident()
        try:
            runner = self._runner_of(thread_id)
            n_jobs = runner.run_next()
            if n_jobs:
                for campaign_id in runner.campaigns:
                    self._wakeups.notify_driver(campaign_id)
                self._pass_on_token(queue)
            return n_jobs
        except Exception:  # a fault of one job must not end the worker; the job's lease expires and it is queued again
            log.exception("%s: the slot is made anew", self._new.name)
            broken_runner = self._runners.pop(thread_id, None)
            if broken_runner is not None:
                broken_runner.close()
            return 0

    def _runner_of(self, thread_id: int) -> Runner:
        """Returns the runner of the current thread, which has this id. A missing runner is created."""
        runner = self._runners.get(thread_id)
        if runner is None:
            owner = f"{self._new.name}/{os.getpid()}.{threading.get_native_id()}"
            runner = Runner(self._ledger, owner, self._new.queues, self._scratch, registered=self._new)
            self._runners[thread_id] = runner
        return runner

    def _pass_on_token(self, queue: str) -> None:
        """Send a token to the queue if it has jobs but no token."""
        if self._wakeups.n_tokens(queue) != 0:  # there are tokens, or the broker does not answer
            return
        with self._ledger.read() as connection:
            has_jobs = jobs.any_in_state(connection, JobState.QUEUED, queues=[queue])
        if has_jobs:
            self._wakeups.wake(queue)


def make_app(broker: Broker, queues: Sequence[str], slots: Slots) -> Celery:
    """Returns the Celery application of a worker. Raises UsageError if the extra `celery` is not installed."""
    try:
        from celery import Celery
    except ModuleNotFoundError:
        raise UsageError("Celery is not installed: pip install 'sciagent[celery]'") from None
    app = Celery("sciagent", set_as_current=False, autofinalize=True)
    app.conf.update(
        broker_channel_error_retry=True,
        broker_connection_max_retries=None,
        broker_connection_retry_on_startup=True,
        broker_heartbeat=HEARTBEAT_SECONDS,
        broker_transport="sciagent.execution.celery.hardened_consumer_and_transport.Transport"
        if broker.is_redis
        else None,
        broker_transport_options=broker.transport_options(ANSWER_SECONDS),
        broker_url=broker.url,
        broker_use_ssl=broker.encryption().get("ssl"),
        task_create_missing_queues=False,
        task_default_queue=PREFIX + queues[0],
        task_ignore_result=True,
        task_publish_retry=False,
        task_queues=[broker.queue(name) for name in queues],
        worker_consumer="sciagent.execution.celery.hardened_consumer_and_transport.Consumer",
        worker_disable_prefetch=broker.is_redis,  # on RabbitMQ the consumer prefetches one message
        worker_enable_prefetch_count_reduction=False,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        worker_prefetch_multiplier=1,
        worker_redirect_stdouts=False,
    )

    app.task(slots.work, name=TASK, shared=False)
    app.finalize()
    return app


class SlotThreads(TaskPool):  # type: ignore[misc]
    """Celery's threads, which tell when one of them is free."""

    on_free: Callable[[], None] | None = None

    def on_apply(self, *args: Any, **options: Any) -> Any:
        result = super().on_apply(*args, **options)
        result.f.add_done_callback(self._tell_free)
        return result

    def _tell_free(self, _: Future[Any]) -> None:
        if self.on_free is not None:
            self.on_free()
