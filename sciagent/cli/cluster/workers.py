"""`sciagent workers | drain`: list the workers with their jobs, and stop a worker from taking new jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import typer

from sciagent.api.terminal import Line
from sciagent.cli import options
from sciagent.cli.shared import open_ledger, plural, put_answer
from sciagent.domain.durations import ago
from sciagent.domain.jobs.resource_requests import CORES, GPU, in_words
from sciagent.errors import UnknownNameError

if TYPE_CHECKING:
    from sciagent.store.job_queue.workers import Running, WorkerRow
    from sciagent.store.views.overview import Queue


def workers(
    every: bool = typer.Option(False, "--all", help="Those too that stopped or were lost in the last day."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """List the workers, the jobs that each runs and since when, and the jobs that wait in each queue. Reads only."""
    from sciagent.store.database.clock import db_now
    from sciagent.store.job_queue import worker_resources
    from sciagent.store.job_queue import workers as store
    from sciagent.store.views import overview

    with open_ledger(ledger).read() as connection:
        now = db_now(connection)
        listed = store.reported_since(connection, now - timedelta(days=int(every)))
        running = store.running(connection)
        queues = overview.queues(connection)
        lacking = [why for queue in queues if queue.slots for why in worker_resources.never(connection, queue.queue)]
    jobs = {worker.name: [job for job in running if job.worker == worker.name] for worker in listed}
    shown = [vars(worker) | {"alive": _is_alive(worker, now), "running": jobs[worker.name]} for worker in listed]
    lines = [line for worker in listed for line in _worker_lines(worker, jobs[worker.name], now)]
    lines = lines or ["no worker is alive; start a worker with: sciagent worker --slots 2"]
    lines += [*_queue_lines(queues, now), *lacking, *_unserved(queues)]
    put_answer({"workers": shown, "queues": queues}, json, map(Line, lines))


def drain(
    worker: str = typer.Argument(help="Its name, as sciagent workers shows it."),
    undo: bool = typer.Option(False, "--undo", help="It may take jobs again."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Tell a worker to take nothing new; what it runs is finished. It hears of it within seconds, and stays."""
    from sciagent.store.job_queue import workers as store

    with open_ledger(ledger).begin() as connection:
        known = {row.name: row for row in store.alive(connection)}
        if worker not in known:
            raise UnknownNameError("worker", worker, known)
        store.drain(connection, worker, not undo)
        running = [job for job in store.running(connection) if job.worker == worker]
    rest = f"it finishes {plural(len(running), 'job')}" if running else "it runs nothing"
    lines = [f"{worker} takes nothing new; {rest}", f"to undo it: sciagent drain {worker} --undo"]
    if undo:
        lines = [f"{worker} takes jobs again"]
    put_answer({"worker": worker, "draining": not undo, "running": running}, json, map(Line, lines))


def _is_alive(worker: WorkerRow, now: datetime) -> bool:
    return worker.until is not None and worker.until > now


def _worker_lines(worker: WorkerRow, jobs: Sequence[Running], now: datetime) -> Iterator[str]:
    yield _headline(worker, now)
    for job in jobs:
        holds = f", holds {_held(job.holds)}" if job.holds else ""
        what = f"{job.owner}: job {job.job_id}, {job.campaign} {job.rung}, {job.candidate}{holds}"
        yield f"  {what}, {ago(now, job.since)}"
    if not jobs and _is_alive(worker, now):
        yield "  runs nothing"


def _headline(worker: WorkerRow, now: datetime) -> str:
    memory = f", {worker.memory_mb / 1000:.0f} GB" if worker.memory_mb else ""
    state = ", draining" if worker.draining else ""
    if not _is_alive(worker, now):
        state = ", stopped" if worker.stopped_at else f", lost: last seen {ago(now, worker.seen_at)} ago"
    since = f"up {ago(now, worker.started_at)}, seen {ago(now, worker.seen_at)} ago"
    resources = ({} if worker.cores in (None, worker.slots) else {CORES: worker.cores}) | worker.resources
    has = f", {in_words(resources)}" if resources else ""
    queues = f" for {', '.join(worker.queues)}" if worker.queues else ""
    slots = plural(worker.slots, "slot")
    return f"{worker.name} on {worker.host} ({worker.executor}): {slots}{memory}{has}{queues}; {since}{state}"


def _held(holds: Mapping[str, Any]) -> str:
    gpus = f"GPU {', '.join(map(str, holds[GPU]))}" if GPU in holds else ""
    rest = in_words({name: n for name, n in holds.items() if name != GPU})
    return ", ".join(part for part in (rest, gpus) if part)


def _queue_lines(queues: Sequence[Queue], now: datetime) -> Iterator[str]:
    for queue in queues:
        waits = "waits" if queue.depth == 1 else "wait"
        oldest = f", the oldest for {ago(now, queue.oldest)}" if queue.oldest else ""
        yield f"queue {queue.queue}: {queue.depth} {waits}{oldest}; {plural(queue.slots, 'slot')} serve it"


def _unserved(queues: Sequence[Queue]) -> list[str]:
    """Returns the command that starts a worker, for each queue with waiting jobs and no worker."""
    names = [queue.queue for queue in queues if queue.depth and not queue.slots]
    return [f"nobody serves queue {name}: sciagent worker --tier {name}" for name in names]


def short_owner(owner: str) -> str:
    """Returns the readable part of a lease's owner: worker and slot, or the driver's host and process."""
    parts = owner.rsplit(":", 3)
    return ":".join(parts[:2]) if len(parts) == 4 else owner
