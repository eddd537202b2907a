"""`sciagent workers | drain`: who works, on what, since when; and who shall take nothing new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sciagent.cli.shared.common import JsonOption, LedgerOption, open_ledger, put, put_json

if TYPE_CHECKING:
    from sciagent.store.job_queue.workers import Running, WorkerRow
    from sciagent.store.views.overview import Queue


def register(app: typer.Typer) -> None:
    app.command("workers", epilog="Example: sciagent workers --all")(workers)
    app.command("drain", epilog="Example: sciagent drain node7:4242:9f01ac")(drain)


def workers(
    every: Annotated[bool, typer.Option("--all", help="Those too that stopped or were lost in the last day.")] = False,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """Who works (sciagent worker), what each runs and since when, and what waits in each queue. Reads only."""
    from sciagent.store.database.clock import db_now
    from sciagent.store.job_queue import worker_resources
    from sciagent.store.job_queue import workers as store
    from sciagent.store.views import overview

    with open_ledger(ledger).read() as connection:
        now = db_now(connection)
        listed = overview.workers_of_late(connection) if every else store.alive(connection)
        running = store.running(connection)
        queues = overview.queues(connection)
        lacking = [why for queue in queues if queue.slots for why in worker_resources.never(connection, queue.queue)]
    alive = {worker.name for worker in listed if worker.until is not None and worker.until > now}
    jobs = {worker.name: [job for job in running if job.worker == worker.name] for worker in listed}
    if json:
        shown = [
            asdict(worker) | {"alive": worker.name in alive, "running": [asdict(job) for job in jobs[worker.name]]}
            for worker in listed
        ]
        put_json({"workers": shown, "queues": [asdict(queue) for queue in queues]})
        return
    for worker in listed:
        for line in _worker_lines(worker, worker.name in alive, jobs[worker.name], now):
            put(line)
    if not listed:
        put("no worker is alive; start one with: sciagent worker --slots 2")
    for line in [*(_queue_line(queue, now) for queue in queues), *lacking]:
        put(line)
    for queue in queues:
        if queue.depth and not queue.slots:
            put(f"nobody serves queue {queue.queue}: sciagent worker --tier {queue.queue}")


def _worker_lines(worker: WorkerRow, alive: bool, jobs: Sequence[Running], now: datetime) -> Iterator[str]:
    yield _headline(worker, alive, now)
    for job in jobs:
        yield f"  {_job(job)}, {ago(now, job.since)}"
    if not jobs and alive:
        yield "  runs nothing"


def _queue_line(queue: Queue, now: datetime) -> str:
    slots = f"{queue.slots} slot{'' if queue.slots == 1 else 's'}"
    oldest = f", the oldest for {ago(now, queue.oldest)}" if queue.oldest else ""
    return f"queue {queue.queue}: {queue.depth} wait{'s' if queue.depth == 1 else ''}{oldest}; {slots} serve it"


def drain(
    worker: Annotated[str, typer.Argument(help="Its name, as sciagent workers shows it.")],
    undo: Annotated[bool, typer.Option("--undo", help="It may take jobs again.")] = False,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """Tell a worker to take nothing new; what it runs is finished. It hears of it within seconds, and stays."""
    from sciagent.errors import UnknownNameError
    from sciagent.store.job_queue import workers as store

    with open_ledger(ledger).begin() as connection:
        known = {row.name: row for row in store.alive(connection)}
        if worker not in known:
            raise UnknownNameError("worker", worker, known)
        store.drain(connection, worker, not undo)
        running = [job for job in store.running(connection) if job.worker == worker]
    if json:
        put_json({"worker": worker, "draining": not undo, "running": [asdict(job) for job in running]})
        return
    if undo:
        put(f"{worker} takes jobs again")
        return
    n = len(running)
    rest = f"; it finishes {n} job{'' if n == 1 else 's'}" if n else "; it runs nothing"
    put(f"{worker} takes nothing new{rest}")
    put(f"to undo it: sciagent drain {worker} --undo")


def _headline(worker: WorkerRow, alive: bool, now: datetime) -> str:
    memory = f", {worker.memory_mb / 1000:.0f} GB" if worker.memory_mb else ""
    state = ", draining" if worker.draining else ""
    if not alive:
        seen = worker.seen_at
        state = ", stopped" if worker.stopped_at else f", lost: last seen {ago(now, seen)} ago"
    slots = f"{worker.slots} slot{'' if worker.slots == 1 else 's'}"
    since = f"up {ago(now, worker.started_at)}, seen {ago(now, worker.seen_at)} ago"
    from sciagent.domain.jobs.needs import CORES, in_words

    more = {} if worker.cores in (None, worker.slots) else {CORES: worker.cores}
    has = f", {in_words({**more, **worker.resources})}" if more or worker.resources else ""
    queues = f" for {', '.join(worker.queues)}" if worker.queues else ""
    return f"{worker.name} on {worker.host} ({worker.executor}): {slots}{memory}{has}{queues}; {since}{state}"


def _job(job: Running) -> str:
    holds = f", holds {_held(job.holds)}" if job.holds else ""
    return f"{job.owner}: job {job.job_id}, {job.campaign} {job.rung}, {job.candidate}{holds}"


def _held(holds: Mapping[str, Any]) -> str:
    from sciagent.domain.jobs.needs import GPU, in_words

    gpus = f"GPU {', '.join(map(str, holds[GPU]))}" if GPU in holds else ""
    rest = in_words({name: n for name, n in holds.items() if name != GPU})
    return ", ".join(part for part in (rest, gpus) if part)


def ago(now: datetime, then: datetime | None) -> str:
    """How long ago, in two figures: `42 s`, `3 min`, `5 h`, `2 d`."""
    seconds = max(0.0, (now - then).total_seconds()) if then is not None else 0.0
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size or (unit == "d" and seconds >= size):
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
