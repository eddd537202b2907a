"""`sciagent top`: shows campaigns, queues, workers and failures live, fitted to the width of the terminal."""

from __future__ import annotations

import contextlib
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from sciagent.cli.cluster.workers import ago, short_owner
from sciagent.cli.shared import options
from sciagent.cli.shared.common import open_ledger, plural, put_json
from sciagent.errors import LedgerAwayError

if TYPE_CHECKING:
    from sciagent.report.live.snapshot import Frame, Sparing, Watched
    from sciagent.store.database.ledger import Ledger
    from sciagent.store.job_queue.workers import Running, WorkerRow
    from sciagent.store.views.overview import Failure, Queue

MAX_TROUBLES = 2  # warnings that are shown in full
WIDE = 110  # width in characters from which all columns are shown
STATES = {"running": "green", "paused": "yellow", "draining": "yellow", "nobody serves it": "bold red"}
DRIVERLESS = {"dead": "its driver died", "nobody": "no driver"}
FLEXIBLE = ("campaign", "candidate", "worker", "why")  # columns that shrink in a narrow terminal
LEFT = (*FLEXIBLE, "state", "budget used", "used", "driver", "queue", "rung", "")  # columns of text
Row = Mapping[str, object]
"""Cells by column."""


def top(
    interval: float = typer.Option(2.0, "--interval", "-i", min=0.2, max=3600, help="Seconds between looks."),
    once: bool = typer.Option(False, "--once", help="Print a single look, and end."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Campaigns that run, queues, workers and what each runs, and what failed last; `q` or Ctrl-C ends it.

    Reads only; nothing is disturbed. Totals of large campaigns are counted less often, so that looking costs little.
    """
    from sciagent.report.live.snapshot import Sparing

    opened, sparing, console = open_ledger(ledger), Sparing(), Console()
    if once or json:
        snapshot = _look(opened, sparing)
        put_json(snapshot) if json else console.print(frame(snapshot, console.width, None))
        return
    import sqlalchemy as sa
    from rich.live import Live

    with _keys() as quits, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            begun = time.monotonic()
            try:
                live.update(frame(_look(opened, sparing), console.width, console.height), refresh=True)
            except (sa.exc.SQLAlchemyError, LedgerAwayError) as error:  # the ledger may come back
                why = str(getattr(error, "orig", None) or error).strip()[:300]
                live.update(Text(f"the ledger does not answer: {why}", style="bold red"), refresh=True)
            if quits(max(0.05, interval - (time.monotonic() - begun))):
                return


def _look(opened: Ledger, sparing: Sparing) -> Frame:
    from sciagent.report.live.snapshot import look

    with opened.read() as connection:
        return look(connection, sparing)


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Yields a function that waits a number of seconds and returns whether `q` was typed meanwhile."""
    try:
        import termios
        import tty

        before = termios.tcgetattr(sys.stdin)
    except (ImportError, OSError, ValueError, termios.error):  # no terminal: only a signal ends it
        yield lambda seconds: threading.Event().wait(seconds)
        return
    try:
        tty.setcbreak(sys.stdin)
        yield _typed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _typed(seconds: float) -> bool:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([sys.stdin], [], [], left)[0] and sys.stdin.read(1) in ("q", "Q", ""):
            return True
    return False


def frame(snapshot: Frame, width: int, height: int | None) -> Group:
    """Returns the whole display. height: number of lines of the terminal, or None for no limit."""
    wide = width >= WIDE
    troubled = [campaign for campaign in snapshot.campaigns if campaign.trouble][:MAX_TROUBLES]
    troubles = [Text(f"{campaign.name}: {campaign.trouble}", style="bold red") for campaign in troubled]
    lines = _Lines(None if height is None else height - 3 * len(troubles))
    parts: list[RenderableType] = [
        _head(snapshot),
        lines.table("campaigns", [_campaign(each, wide) for each in snapshot.campaigns], 0.3, "no campaign runs"),
        *troubles,
        lines.table("queues", _queues(snapshot.queues, snapshot.at), 0.4, ""),
        lines.table("workers", _workers(snapshot, wide), 0.6, "no worker is alive"),
        lines.table(
            "failed last",
            [_failure(each, snapshot.at, wide) for each in snapshot.failures],
            1.0,
            "nothing failed lately",
        ),
    ]
    return Group(*parts)


class _Lines:
    """Divides the lines of the terminal among the tables, after those for titles, headings and blank lines."""

    def __init__(self, height: int | None) -> None:
        self._left = None if height is None else height - 13

    def table(self, title: str, rows: Sequence[Row], share: float, empty: str) -> Group:
        """Returns a table of at most `share` of the remaining lines, but at least two. empty: text without rows."""
        if not rows:
            return Group("", Text.assemble((f"{title}: ", "bold"), (empty, "dim"))) if empty else Group()
        limit = len(rows)
        if self._left is not None:
            limit = max(2, min(len(rows), int(self._left * share)))
            self._left = max(0, self._left - limit)
        shown = rows if len(rows) <= limit else rows[: limit - 1]
        flexible = [name for name in rows[0] if name in FLEXIBLE]
        table = Table(
            title=title,
            title_justify="left",
            title_style="bold",
            box=None,
            pad_edge=False,
            padding=(0, 2, 0, 0),
            header_style="dim",
            expand=bool(flexible),
        )
        for name in rows[0]:
            side: Literal["left", "right"] = "left" if name in LEFT else "right"
            ratio, width = (1, 6) if name in flexible else (None, None)
            table.add_column(name, justify=side, no_wrap=True, overflow="ellipsis", ratio=ratio, min_width=width)
        for row in shown:
            table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row.values()))
        left = len(rows) - len(shown)
        return Group("", table, *([Text(f"and {left} more", style="dim")] if left else []))


def _head(snapshot: Frame) -> Text:
    taking = {worker.name for worker in snapshot.workers if not worker.draining}
    slots = sum(worker.slots for worker in snapshot.workers if worker.name in taking)
    busy = sum(n for name, n in snapshot.busy.items() if name in taking)
    parts = [f"{plural(len(snapshot.campaigns), 'campaign')} running", plural(len(snapshot.workers), "worker")]
    if slots or busy:
        parts.append(f"{busy} of {plural(slots, 'slot')} busy")
    parts += [f"{resource.name} {resource.used} of {resource.total}" for resource in snapshot.resources]
    names = {worker.name for worker in snapshot.workers}
    here = sum(n for name, n in snapshot.busy.items() if name not in names)
    if here:
        parts.append(f"{plural(here, 'job')} in drivers")
    words = Text.assemble(("sciagent top", "bold"), f"  {snapshot.at:%H:%M:%S} UTC  ", ", ".join(parts))
    words.no_wrap, words.overflow = True, "ellipsis"
    return words


def _campaign(campaign: Watched, wide: bool) -> Row:
    gave_up = campaign.jobs.get("failed", 0) + campaign.jobs.get("quarantined", 0)
    state = campaign.state
    if campaign.driver in DRIVERLESS:
        state = f"{state}, {DRIVERLESS[campaign.driver]}"
    used = "" if campaign.used is None else f"{campaign.used[1]:.0%}" + (f" {campaign.used[0]}" if wide else "")
    row: dict[str, object] = {
        "campaign": campaign.name,
        "state": Text(state, style=STATES.get(state, "bold red")),
        "hits": campaign.hits,
        "queued": campaign.jobs.get("queued", 0),
        "runs": campaign.jobs.get("running", 0),
        "done": campaign.jobs.get("done", 0),
        "gave up" if wide else "bad": Text(str(gave_up), style="red" if gave_up else ""),
        "jobs/min" if wide else "/min": f"{campaign.per_minute:.3g}",
        "budget used" if wide else "used": used,
    }
    return row | ({"driver": campaign.driver} if wide else {})


def _queues(queues: Sequence[Queue], now: datetime) -> list[Row]:
    """Returns a row for each queue; queues with jobs but without workers come first."""
    return [
        {
            "queue": queue.queue,
            "waiting": queue.depth,
            "oldest": ago(now, queue.oldest) if queue.oldest else "",
            "slots": queue.slots,
            "": _marked("nobody serves it" if queue.depth and not queue.slots else ""),
        }
        for queue in sorted(queues, key=lambda queue: queue.slots > 0 or not queue.depth)
    ]


def _workers(snapshot: Frame, wide: bool) -> list[Row]:
    """Returns a row for each running job and for each idle worker."""
    by_worker: dict[str, list[Running]] = {}
    for job in snapshot.running:
        by_worker.setdefault(job.worker, []).append(job)
    known: dict[str, WorkerRow | None] = dict.fromkeys(by_worker) | {worker.name: worker for worker in snapshot.workers}
    rows: list[Row] = []
    for name, worker in known.items():
        note = Text("driver", style="dim")
        if worker is not None:
            note = _marked("draining" if worker.draining else "") if worker.slots else Text(worker.executor, "dim")
        about = (
            {"seen": ago(snapshot.at, worker.seen_at), "slots": worker.slots} if worker else {"seen": "", "slots": ""}
        )
        more: dict[str, object] = (about if wide else {}) | {"": note}
        for place, job in enumerate(by_worker.get(name, [])):
            cells = {
                "worker": "" if place else short_owner(name),
                "job": job.job_id,
                "campaign": job.campaign,
                "rung": job.rung,
                "candidate": job.candidate,
                "for": ago(snapshot.at, job.since),
            }
            rows.append(cells | (dict.fromkeys(more, "") if place else more))
        if name not in by_worker:
            idle = {"job": "", "campaign": Text("idle", style="dim"), "rung": "", "candidate": "", "for": ""}
            rows.append({"worker": short_owner(name)} | idle | more)
    return rows


def _failure(failure: Failure, now: datetime, wide: bool) -> Row:
    why = f"{failure.outcome or failure.state}" + (f": {failure.reason}" if failure.reason else "")
    row: dict[str, object] = {
        "ago": ago(now, failure.at),
        "job": failure.job_id,
        "rung": failure.rung,
        "candidate": failure.candidate,
        "why": f"refused, came too late ({why})" if failure.state == "stale" else why,
    }
    return row | ({"worker": short_owner(failure.worker)} if wide else {})


def _marked(state: str) -> Text:
    return Text(state, style=STATES.get(state, ""))
