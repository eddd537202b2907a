"""`sciagent workers | drain`: who works, on what, since when; and who shall take nothing new."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sciagent.cli.shared.common import JsonOption, LedgerOption, open_ledger, put, put_json

if TYPE_CHECKING:
    from sciagent.store.job_queue.workers import Running, WorkerRow


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
    from sciagent.store.job_queue import capacity
    from sciagent.store.job_queue import workers as store
    from sciagent.store.views import overview

    with open_ledger(ledger).read() as connection:
        now = db_now(connection)
        found = overview.workers_of_late(connection) if every else store.alive(connection)
        running = store.running(connection)
        queues = overview.queues(connection)
        lacking = [why for each in queues if each.slots for why in capacity.never(connection, each.queue)]
    alive = {one.name for one in found if one.until is not None and one.until > now}
    jobs = {one.name: [r for r in running if r.worker == one.name] for one in found}
    if json:
        shown = [
            asdict(one) | {"alive": one.name in alive, "running": [asdict(r) for r in jobs[one.name]]} for one in found
        ]
        put_json({"workers": shown, "queues": [asdict(one) for one in queues]})
        return
    for one in found:
        put(_headline(one, one.name in alive, now))
        for r in jobs[one.name]:
            put(f"  {_job(r)}, {ago(now, r.since)}")
        if not jobs[one.name] and one.name in alive:
            put("  runs nothing")
    if not found:
        put("no worker is alive; start one with: sciagent worker --slots 2")
    for each in queues:
        slots = f"{each.slots} slot{'' if each.slots == 1 else 's'}"
        oldest = f", the oldest for {ago(now, each.oldest)}" if each.oldest else ""
        put(f"queue {each.queue}: {each.depth} wait{'s' if each.depth == 1 else ''}{oldest}; {slots} serve it")
    for why in lacking:
        put(why)
    for each in queues:
        if each.depth and not each.slots:
            put(f"nobody serves queue {each.queue}: sciagent worker --tier {each.queue}")


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
        known = {one.name: one for one in store.alive(connection)}
        if worker not in known:
            raise UnknownNameError("worker", worker, known)
        store.drain(connection, worker, not undo)
        running = [one for one in store.running(connection) if one.worker == worker]
    if json:
        put_json({"worker": worker, "draining": not undo, "running": [asdict(one) for one in running]})
        return
    if undo:
        put(f"{worker} takes jobs again")
        return
    n = len(running)
    rest = f"; it finishes {n} job{'' if n == 1 else 's'}" if n else "; it runs nothing"
    put(f"{worker} takes nothing new{rest}")
    put(f"to undo it: sciagent drain {worker} --undo")


def _headline(one: WorkerRow, alive: bool, now: Any) -> str:
    memory = f", {one.memory_mb / 1000:.0f} GB" if one.memory_mb else ""
    state = ", draining" if one.draining else ""
    if not alive:
        seen = one.seen_at
        state = ", stopped" if one.stopped_at else f", lost: last seen {ago(now, seen)} ago"
    slots = f"{one.slots} slot{'' if one.slots == 1 else 's'}"
    since = f"up {ago(now, one.started_at)}, seen {ago(now, one.seen_at)} ago"
    from sciagent.domain.needs import CORES, in_words

    more = {} if one.cores in (None, one.slots) else {CORES: one.cores}
    has = f", {in_words({**more, **one.resources})}" if more or one.resources else ""
    queues = f" for {', '.join(one.queues)}" if one.queues else ""
    return f"{one.name} on {one.host} ({one.executor}): {slots}{memory}{has}{queues}; {since}{state}"


def _job(one: Running) -> str:
    holds = f", holds {_held(one.holds)}" if one.holds else ""
    return f"{one.owner}: job {one.job_id}, {one.campaign} {one.rung}, {one.candidate}{holds}"


def _held(holds: dict[str, Any]) -> str:
    from sciagent.domain.needs import GPU, in_words

    gpus = f"GPU {', '.join(map(str, holds[GPU]))}" if GPU in holds else ""
    rest = in_words({name: n for name, n in holds.items() if name != GPU})
    return ", ".join(one for one in (rest, gpus) if one)


def ago(now: Any, then: Any) -> str:
    """How long ago, in two figures: `42 s`, `3 min`, `5 h`, `2 d`."""
    seconds = max(0.0, (now - then).total_seconds()) if then is not None else 0.0
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size or (unit == "d" and seconds >= size):
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
