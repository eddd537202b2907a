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
MAX_TROUBLES = 2  # that are told in full
WIDE = 110  # columns from which there is room for all
STATES = {"running": "green", "paused": "yellow", "draining": "yellow", "nobody serves it": "bold red"}


def message(text: str) -> Text:
    return Text(text, style="bold red")


def frame(found: Frame, width: int, height: int | None) -> Group:
    """height: lines there are, or None for as many as it takes; the failures then have what is left."""
    wide = width >= WIDE
    told = 3 * min(MAX_TROUBLES, sum(one.trouble is not None for one in found.campaigns))  # lines that these take
    rows = _Rows(None if height is None else height - told)
    parts: list[RenderableType] = [
        _head(found),
        _campaigns(found.campaigns, wide, rows.take(len(found.campaigns), 0.3)),
        _queues(found.queues, found.at, rows.take(len(found.queues), 0.4)),
        _workers(found, wide, rows.take(max(len(found.running), 1) + len(found.workers), 0.6)),
        _failures(found.failures, found.at, wide, rows.take(len(found.failures), 1.0)),
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


def _head(found: Frame) -> Text:
    taking = {one.name for one in found.workers if not one.draining}
    slots = sum(one.slots for one in found.workers if one.name in taking)
    busy = sum(n for name, n in found.busy.items() if name in taking)
    parts = [f"{_many(len(found.campaigns), 'campaign')} running", _many(len(found.workers), "worker")]
    if slots or busy:
        parts.append(f"{busy} of {_many(slots, 'slot')} busy")
    parts += [f"{one.name} {one.used} of {one.total}" for one in found.resources]
    names = {one.name for one in found.workers}
    here = sum(n for name, n in found.busy.items() if name not in names)
    if here:
        parts.append(f"{_many(here, 'job')} in drivers")
    words = Text.assemble(("sciagent top", "bold"), f"  {found.at:%H:%M:%S} UTC  ", ", ".join(parts))
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
    for one in _shown(watched, limit):
        gave_up = one.jobs.get("failed", 0) + one.jobs.get("quarantined", 0)
        state = one.state if one.driver not in ("dead", "nobody") else f"{one.state}, {_DRIVERLESS[one.driver]}"
        used = "" if one.used is None else f"{one.used[1]:.0%}" + (f" {one.used[0]}" if wide else "")
        cells = [
            Text(one.name),
            Text(state, style=STATES.get(state, "bold red")),
            Text(str(one.hits)),
            Text(str(one.jobs.get("queued", 0))),
            Text(str(one.jobs.get("running", 0))),
            Text(str(one.jobs.get("done", 0))),
            Text(str(gave_up), style="red" if gave_up else ""),
            Text(f"{one.per_minute:.3g}"),
            Text(used),
        ]
        table.add_row(*cells, *([Text(one.driver)] if wide else []))
    held_up = [one for one in watched if one.trouble]
    troubles = [Text(f"{one.name}: {one.trouble}", style="bold red") for one in held_up[:MAX_TROUBLES]]
    return Group(_with_rest(table, watched, limit, "no campaign runs"), *troubles)


_DRIVERLESS = {"dead": "its driver died", "nobody": "no driver"}


def _queues(queues: Sequence[Queue], now: datetime, limit: int) -> Group:
    from sciagent.cli.cluster.workers import ago

    queues = sorted(queues, key=lambda one: one.slots > 0 or not one.depth)  # what goes wrong comes first
    table = _table(
        "queues", ("queue", "left"), ("waiting", "right"), ("oldest", "right"), ("slots", "right"), ("", "left")
    )
    for one in _shown(queues, limit):
        alone = one.depth > 0 and not one.slots
        oldest = ago(now, one.oldest) if one.oldest else ""
        note = Text("nobody serves it" if alone else "", style=STATES["nobody serves it"])
        table.add_row(Text(one.queue), str(one.depth), oldest, str(one.slots), note)
    return _with_rest(table, queues, limit, "")


def _workers(found: Frame, wide: bool, limit: int) -> Group:
    """A line for each job that runs, and one for each worker that runs nothing."""
    from sciagent.cli.cluster.workers import ago

    columns = [("worker", "left"), ("job", "right"), ("campaign", "left"), ("rung", "left"), ("candidate", "left")]
    columns += [("for", "right")] + ([("seen", "right"), ("slots", "right")] if wide else []) + [("", "left")]
    table = _table("workers", *columns, flexible=["worker", "candidate", "campaign"])
    by_worker: dict[str, list[Running]] = {}
    for job in found.running:
        by_worker.setdefault(job.worker, []).append(job)
    known: dict[str, WorkerRow | None] = dict.fromkeys(by_worker) | {one.name: one for one in found.workers}
    lines = list[list[Text]]()
    for name, one in known.items():
        seen = ago(found.at, one.seen_at) if one is not None else ""
        more = [*([Text(seen), Text(str(one.slots) if one else "")] if wide else []), _note(one)]
        blank = [Text() for _ in more]
        for i, job in enumerate(by_worker.get(name, [])):
            cells = [str(job.job_id), job.campaign, job.rung, job.candidate, ago(found.at, job.since)]
            lines.append([Text("" if i else _name(name)), *map(Text, cells), *(blank if i else more)])
        if not by_worker.get(name):
            lines.append([Text(_name(name)), Text(), Text("idle", style="dim"), Text(), Text(), Text(), *more])
    for line in _shown(lines, limit):
        table.add_row(*line)
    return _with_rest(table, lines, limit, "no worker is alive")


def _note(one: WorkerRow | None) -> Text:
    if one is None or not one.slots:
        return Text("driver" if one is None else one.executor, style="dim")
    return Text("draining" if one.draining else "", style=STATES["draining"])


def _name(owner: str) -> str:
    """Of a driver's own owner, host and process."""
    parts = owner.rsplit(":", 3)
    return ":".join(parts[:2]) if len(parts) == 4 else owner


def _failures(failures: Sequence[Failure], now: datetime, wide: bool, limit: int) -> Group:
    from sciagent.cli.cluster.workers import ago

    columns = [("ago", "right"), ("job", "right"), ("rung", "left"), ("candidate", "left"), ("why", "left")]
    columns = [*columns, ("worker", "left")] if wide else columns
    table = _table("failed last", *columns, flexible=["candidate", "why", "worker"])
    for one in _shown(failures, limit):
        why = f"{one.outcome or one.state}" + (f": {one.reason}" if one.reason else "")
        why = f"refused, came too late ({why})" if one.state == "stale" else why
        cells = [ago(now, one.at), str(one.job_id), one.rung, one.candidate, why]
        table.add_row(*map(Text, cells), *([Text(_name(one.worker))] if wide else []))
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
