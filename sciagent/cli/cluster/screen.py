"""One look at what goes on, as it stands on the terminal: wide or narrow, never wider than it is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from sciagent.report.live.watching import Frame, Watched
    from sciagent.store.job_queue.workers import Running, WorkerRow
    from sciagent.store.views.overview import Failure, Queue

T = TypeVar("T")
MAX_TROUBLES = 2  # shown in full
WIDE = 110  # columns from which there is room for all
STATES = {"running": "green", "paused": "yellow", "draining": "yellow", "nobody serves it": "bold red"}


def message(text: str) -> Text:
    return Text(text, style="bold red")


def frame(snapshot: Frame, width: int, height: int | None) -> Group:
    """height: lines there are, or None for as many as it takes; the failures then have what is left."""
    wide = width >= WIDE
    troubled = sum(campaign.trouble is not None for campaign in snapshot.campaigns)
    trouble_lines = 3 * min(MAX_TROUBLES, troubled)
    rows = _Rows(None if height is None else height - trouble_lines)
    parts: list[RenderableType] = [
        _head(snapshot),
        _campaigns(snapshot.campaigns, wide, rows.take(len(snapshot.campaigns), 0.3)),
        _queues(snapshot.queues, snapshot.at, rows.take(len(snapshot.queues), 0.4)),
        _workers(snapshot, wide, rows.take(max(len(snapshot.running), 1) + len(snapshot.workers), 0.6)),
        _failures(snapshot.failures, snapshot.at, wide, rows.take(len(snapshot.failures), 1.0)),
    ]
    return Group(*parts)


class _Rows:
    """Hands out the lines of the terminal, less the titles, heads and blanks."""

    def __init__(self, height: int | None) -> None:
        self._left = None if height is None else height - 13

    def take(self, wanted: int, share: float) -> int:
        """At most this share of what is left, and two at least."""
        if self._left is None:
            return wanted
        given = max(2, min(wanted, int(self._left * share)))
        self._left = max(0, self._left - given)
        return given


def _head(snapshot: Frame) -> Text:
    taking = {worker.name for worker in snapshot.workers if not worker.draining}
    slots = sum(worker.slots for worker in snapshot.workers if worker.name in taking)
    busy = sum(n for name, n in snapshot.busy.items() if name in taking)
    parts = [f"{_many(len(snapshot.campaigns), 'campaign')} running", _many(len(snapshot.workers), "worker")]
    if slots or busy:
        parts.append(f"{busy} of {_many(slots, 'slot')} busy")
    parts += [f"{resource.name} {resource.used} of {resource.total}" for resource in snapshot.resources]
    names = {worker.name for worker in snapshot.workers}
    here = sum(n for name, n in snapshot.busy.items() if name not in names)
    if here:
        parts.append(f"{_many(here, 'job')} in drivers")
    words = Text.assemble(("sciagent top", "bold"), f"  {snapshot.at:%H:%M:%S} UTC  ", ", ".join(parts))
    words.no_wrap, words.overflow = True, "ellipsis"
    return words


def _table(title: str, *columns: tuple[str, str], flexible: Sequence[str] = ()) -> Table:
    """columns: (name, `left` or `right`). flexible: those that give way when there is no room."""
    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="dim",
        expand=bool(flexible),
    )
    for name, side in columns:
        loose = name in flexible
        made.add_column(
            name,
            justify="right" if side == "right" else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if loose else None,
            min_width=6 if loose else None,
        )
    return made


def _campaigns(watched: Sequence[Watched], wide: bool, limit: int) -> Group:
    columns = [("campaign", "left"), ("state", "left"), ("hits", "right"), ("queued", "right"), ("runs", "right")]
    columns += [("done", "right"), ("gave up" if wide else "bad", "right"), ("jobs/min" if wide else "/min", "right")]
    columns += [("budget used" if wide else "used", "left")] + ([("driver", "left")] if wide else [])
    table = _table("campaigns", *columns, flexible=["campaign"])
    for campaign in _shown(watched, limit):
        gave_up = campaign.jobs.get("failed", 0) + campaign.jobs.get("quarantined", 0)
        state = campaign.state
        if campaign.driver in ("dead", "nobody"):
            state = f"{state}, {_DRIVERLESS[campaign.driver]}"
        used = "" if campaign.used is None else f"{campaign.used[1]:.0%}" + (f" {campaign.used[0]}" if wide else "")
        cells = [
            Text(campaign.name),
            Text(state, style=STATES.get(state, "bold red")),
            Text(str(campaign.hits)),
            Text(str(campaign.jobs.get("queued", 0))),
            Text(str(campaign.jobs.get("running", 0))),
            Text(str(campaign.jobs.get("done", 0))),
            Text(str(gave_up), style="red" if gave_up else ""),
            Text(f"{campaign.per_minute:.3g}"),
            Text(used),
        ]
        table.add_row(*cells, *([Text(campaign.driver)] if wide else []))
    held_up = [campaign for campaign in watched if campaign.trouble]
    troubles = [Text(f"{campaign.name}: {campaign.trouble}", style="bold red") for campaign in held_up[:MAX_TROUBLES]]
    return Group(_with_rest(table, watched, limit, "no campaign runs"), *troubles)


_DRIVERLESS = {"dead": "its driver died", "nobody": "no driver"}


def _queues(queues: Sequence[Queue], now: datetime, limit: int) -> Group:
    from sciagent.cli.cluster.workers import ago

    queues = sorted(queues, key=lambda queue: queue.slots > 0 or not queue.depth)  # what goes wrong comes first
    table = _table(
        "queues", ("queue", "left"), ("waiting", "right"), ("oldest", "right"), ("slots", "right"), ("", "left")
    )
    for queue in _shown(queues, limit):
        alone = queue.depth > 0 and not queue.slots
        oldest = ago(now, queue.oldest) if queue.oldest else ""
        note = Text("nobody serves it" if alone else "", style=STATES["nobody serves it"])
        table.add_row(Text(queue.queue), str(queue.depth), oldest, str(queue.slots), note)
    return _with_rest(table, queues, limit, "")


def _workers(snapshot: Frame, wide: bool, limit: int) -> Group:
    """A line for each job that runs, and one for each worker that runs nothing."""
    from sciagent.cli.cluster.workers import ago

    columns = [("worker", "left"), ("job", "right"), ("campaign", "left"), ("rung", "left"), ("candidate", "left")]
    columns += [("for", "right")] + ([("seen", "right"), ("slots", "right")] if wide else []) + [("", "left")]
    table = _table("workers", *columns, flexible=["worker", "candidate", "campaign"])
    by_worker: dict[str, list[Running]] = {}
    for job in snapshot.running:
        by_worker.setdefault(job.worker, []).append(job)
    known: dict[str, WorkerRow | None] = dict.fromkeys(by_worker) | {worker.name: worker for worker in snapshot.workers}
    lines = list[list[Text]]()
    for name, worker in known.items():
        seen = ago(snapshot.at, worker.seen_at) if worker is not None else ""
        more = [*([Text(seen), Text(str(worker.slots) if worker else "")] if wide else []), _note(worker)]
        blank = [Text() for _ in more]
        for i, job in enumerate(by_worker.get(name, [])):
            cells = [str(job.job_id), job.campaign, job.rung, job.candidate, ago(snapshot.at, job.since)]
            lines.append([Text("" if i else _name(name)), *map(Text, cells), *(blank if i else more)])
        if not by_worker.get(name):
            lines.append([Text(_name(name)), Text(), Text("idle", style="dim"), Text(), Text(), Text(), *more])
    for line in _shown(lines, limit):
        table.add_row(*line)
    return _with_rest(table, lines, limit, "no worker is alive")


def _note(worker: WorkerRow | None) -> Text:
    if worker is None or not worker.slots:
        return Text("driver" if worker is None else worker.executor, style="dim")
    return Text("draining" if worker.draining else "", style=STATES["draining"])


def _name(owner: str) -> str:
    """The host and process of a driver, from the owner of its lease."""
    parts = owner.rsplit(":", 3)
    return ":".join(parts[:2]) if len(parts) == 4 else owner


def _failures(failures: Sequence[Failure], now: datetime, wide: bool, limit: int) -> Group:
    from sciagent.cli.cluster.workers import ago

    columns = [("ago", "right"), ("job", "right"), ("rung", "left"), ("candidate", "left"), ("why", "left")]
    columns = [*columns, ("worker", "left")] if wide else columns
    table = _table("failed last", *columns, flexible=["candidate", "why", "worker"])
    for failure in _shown(failures, limit):
        why = f"{failure.outcome or failure.state}" + (f": {failure.reason}" if failure.reason else "")
        why = f"refused, came too late ({why})" if failure.state == "stale" else why
        cells = [ago(now, failure.at), str(failure.job_id), failure.rung, failure.candidate, why]
        table.add_row(*map(Text, cells), *([Text(_name(failure.worker))] if wide else []))
    return _with_rest(table, failures, limit, "nothing failed lately")


def _shown(rows: Sequence[T], limit: int) -> Sequence[T]:
    """All, or so many that the line that counts the others fits too."""
    return rows if len(rows) <= limit else rows[: limit - 1]


def _with_rest(table: Table, rows: Sequence[object], limit: int, empty: str) -> Group:
    if not rows:
        return Group("", Text.assemble((f"{table.title}: ", "bold"), (empty, "dim"))) if empty else Group()
    left = len(rows) - len(_shown(rows, limit))
    rest = [Text(f"and {left} more", style="dim")] if left else []
    return Group("", table, *rest)


def _many(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"
