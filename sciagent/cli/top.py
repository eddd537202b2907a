"""`sciagent top`: shows campaigns, queues, workers and failures live, or serves the figures to Prometheus."""

from __future__ import annotations

import contextlib
import select
import sys
import termios
import threading
import time
import tty
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from sciagent.api.terminal_tables_and_signals import Records, records_table
from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import open_ledger, plural, put_answer
from sciagent.cli.workers_campaign_dispatcher_metrics import EXAMPLE_ADDRESS, serve_ledger_metrics, short_owner
from sciagent.domain.safe_text_and_durations import ago
from sciagent.errors import LedgerAwayError, UsageError

if TYPE_CHECKING:
    from sciagent.report.campaigns_at_work import CachedQueries, Frame, Watched
    from sciagent.store.database.ledger import Ledger
    from sciagent.store.job_queue.workers_and_capacity import RunningJob
    from sciagent.store.views.queues_campaigns_and_recent_failures import Failure, Queue

MAX_TROUBLES = 2  # warnings that are shown in full
OTHER_LINES = 13  # titles, headings and blank lines
WIDE = 110  # width in characters from which all columns are shown
STATES = {"running": "green", "paused": "yellow", "draining": "yellow"}
DRIVERLESS = {"dead": "its driver died", "nobody": "no driver"}
FLEXIBLE = ("campaign", "candidate", "worker", "why")  # columns that shrink in a narrow terminal


def top(
    interval: float = typer.Option(2.0, "--interval", "-i", min=0.2, max=3600, help="Seconds between looks."),
    once: bool = typer.Option(False, "--once", help="Print a single look, and end."),
    listen: str | None = typer.Option(
        None,
        "--listen",
        metavar="HOST:PORT",
        help=f"Serve the figures to Prometheus, as at {EXAMPLE_ADDRESS}; port 0: any.",
    ),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Campaigns that run, queues, workers and what each runs, and what failed last; `q` or Ctrl-C ends it.

    Reads only; nothing is disturbed. Totals of large campaigns are counted less often, so that looking costs little.

    With --listen it shows nothing, but serves queue depths, jobs, attempts, costs and workers at /metrics, in the text
    format of Prometheus. That has no password and no encryption, and names campaigns and hosts: let it listen where
    only your Prometheus reaches it. Ctrl-C or SIGTERM ends it.
    """
    if listen is not None:
        if once or json:
            raise UsageError("--listen serves until it is interrupted; --once and --json print a single look")
        serve_ledger_metrics(listen, ledger)
        return
    from sciagent.report.campaigns_at_work import CachedQueries

    opened = open_ledger(ledger)
    cached_queries = CachedQueries()  # repeats the slow counts of large campaigns less often
    console = Console()
    if once or json:
        snapshot = _look(opened, cached_queries)
        width = console.width if console.is_terminal else WIDE
        put_answer(snapshot, json, display(snapshot, width, height=None).renderables)
        return
    import sqlalchemy as sa
    from rich.live import Live

    with _quit_key() as wait_for_q, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            begun = time.monotonic()
            try:
                shown = display(_look(opened, cached_queries), console.width, console.height)
                live.update(shown, refresh=True)
            except (sa.exc.SQLAlchemyError, LedgerAwayError) as error:  # the ledger may come back
                cause = getattr(error, "orig", None) or error  # the driver's error, inside SQLAlchemy's
                why = str(cause).strip()[:300]
                live.update(Text(f"the ledger does not answer: {why}", style="bold red"), refresh=True)
            left_of_interval = interval - (time.monotonic() - begun)
            if wait_for_q(max(0.05, left_of_interval)):
                return


def _look(opened: Ledger, cached_queries: CachedQueries) -> Frame:
    from sciagent.report.campaigns_at_work import read_snapshot

    with opened.read() as connection:
        return read_snapshot(connection, cached_queries)


@contextlib.contextmanager
def _quit_key() -> Iterator[Callable[[float], bool]]:
    """Yields a function that waits a number of seconds and returns whether `q` was typed; another key ends the wait."""
    if not sys.stdin.isatty():  # only a signal ends it
        yield threading.Event().wait
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)

        def is_q_typed(seconds: float) -> bool:
            readable, _, _ = select.select([sys.stdin], [], [], seconds)
            return bool(readable) and sys.stdin.read(1) in "qQ"

        yield is_q_typed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def display(snapshot: Frame, width: int, height: int | None) -> Group:
    """Returns the whole display. height: number of lines of the terminal, or None for no limit."""
    wide = width >= WIDE
    now = snapshot.at
    troubled = [campaign for campaign in snapshot.campaigns if campaign.trouble][:MAX_TROUBLES]
    troubles = [Text(f"{campaign.name}: {campaign.trouble}", style="bold red") for campaign in troubled]
    failures = [_failure(failure, now, wide) for failure in snapshot.failures]
    # (title, rows, share of the lines that are left, text in place of an empty table)
    tables: list[tuple[str, Records, float, str]] = [
        ("campaigns", [_campaign(campaign, wide) for campaign in snapshot.campaigns], 0.3, "no campaign runs"),
        ("queues", _queues(snapshot.queues, now), 0.4, ""),
        ("workers", _workers(snapshot, wide), 0.6, "no worker is alive"),
        ("failed last", failures, 1.0, "nothing failed lately"),
    ]
    parts: list[RenderableType] = [_head(snapshot)]
    lines_left = (height or sys.maxsize) - 3 * len(troubles) - OTHER_LINES  # a warning may take three lines
    for title, rows, share, empty in tables:
        limit = min(len(rows), max(2, int(lines_left * share)))
        lines_left = max(0, lines_left - limit)
        if rows:
            parts += _table(title, rows, limit)
        elif empty:
            parts += ["", Text.assemble((f"{title}: ", "bold"), (empty, "dim"))]
        if title == "campaigns":
            parts += troubles
    return Group(*parts)


def _table(title: str, rows: Records, limit: int) -> Iterator[RenderableType]:
    shown = rows if len(rows) <= limit else rows[: limit - 1]
    table = records_table(shown, title)
    table.box = None
    table.padding = (0, 2, 0, 0)
    table.title_style = "bold"
    table.header_style = "dim"
    for column in table.columns:
        column.no_wrap = True
        column.overflow = "ellipsis"
        if column.header in FLEXIBLE:
            column.ratio = 1
            column.min_width = 6
            table.expand = True
    yield ""
    yield table
    n_hidden = len(rows) - len(shown)
    if n_hidden:
        yield Text(f"and {n_hidden} more", style="dim")


def _head(snapshot: Frame) -> Text:
    busy = snapshot.busy
    names = {worker.name for worker in snapshot.workers}
    taking_jobs = [worker for worker in snapshot.workers if not worker.draining]
    slots = sum(worker.slots for worker in taking_jobs)
    taken = sum(busy[worker.name] for worker in taking_jobs)
    parts = [f"{plural(len(snapshot.campaigns), 'campaign')} running", plural(len(snapshot.workers), "worker")]
    if slots or taken:
        parts.append(f"{taken} of {plural(slots, 'slot')} busy")
    parts += [f"{resource.name} {resource.used} of {resource.total}" for resource in snapshot.resources]
    jobs_in_drivers = sum(n for name, n in busy.items() if name not in names)
    if jobs_in_drivers:
        parts.append(f"{plural(jobs_in_drivers, 'job')} in drivers")
    words = Text.assemble(("sciagent top", "bold"), f"  {snapshot.at:%H:%M:%S} UTC  ", ", ".join(parts))
    words.no_wrap = True
    words.overflow = "ellipsis"
    return words


def _campaign(campaign: Watched, wide: bool) -> dict[str, object]:
    jobs = defaultdict(int, campaign.jobs)
    gave_up = jobs["failed"] + jobs["quarantined"]
    state = campaign.state
    if campaign.driver in DRIVERLESS:
        state = f"{state}, {DRIVERLESS[campaign.driver]}"
    used = ""
    if campaign.used is not None:
        limit_name, share = campaign.used
        used = f"{share:.0%} {limit_name}" if wide else f"{share:.0%}"
    hits: int | str = campaign.hits
    if campaign.distinct_hits != campaign.hits:
        hits = campaign.hit_counts.text(str(campaign.hits))
    row: dict[str, object] = {
        "campaign": campaign.name,
        "state": Text(state, style=STATES.get(state, "bold red")),
        "hits": hits,
        "queued": jobs["queued"],
        "runs": jobs["running"],
        "done": jobs["done"],
        "gave up": Text(str(gave_up), style="red" if gave_up else "", justify="right"),
        "jobs/min": campaign.per_minute,
        "budget used": used,
    }
    if wide:
        row["driver"] = campaign.driver
    return row


def _queues(queues: list[Queue], now: datetime) -> Records:
    """Returns a row for each queue; queues with jobs but without workers come first."""
    return [
        {
            "queue": queue.queue,
            "waiting": queue.depth,
            "oldest": ago(now, queue.oldest) if queue.oldest else "",
            "slots": queue.slots,
            "": None if _is_served(queue) else Text("nobody serves it", style="bold red"),
        }
        for queue in sorted(queues, key=_is_served)
    ]


def _is_served(queue: Queue) -> bool:
    """Whether the queue has slots of workers, or no waiting jobs."""
    return bool(queue.slots) or not queue.depth


def _workers(snapshot: Frame, wide: bool) -> Records:
    """Returns a row for each running job and for each idle worker. The column "" has remarks."""
    jobs: dict[str, list[RunningJob]] = defaultdict(list)
    for job in snapshot.running:
        jobs[job.worker].append(job)
    workers = {worker.name: worker for worker in snapshot.workers}
    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys((*jobs, *workers)):
        worker = workers.get(name)
        # jobs that no worker runs are run by the driver of a campaign
        about: dict[str, Any] = {"seen": None, "slots": None, "": Text("driver", style="dim")}
        if worker is not None:
            state = Text("draining", style=STATES["draining"]) if worker.draining else None
            about[""] = state if worker.slots else Text(worker.executor, style="dim")
            if wide:
                about["seen"] = ago(snapshot.at, worker.seen_at)
                about["slots"] = worker.slots
        runs: list[dict[str, Any]] = [
            {
                "job": job.job_id,
                "campaign": job.campaign,
                "rung": job.rung,
                "name": job.name,
                "candidate": job.candidate,
                "for": ago(snapshot.at, job.since),
                "progress": job.progress.words if job.progress else None,
            }
            for job in jobs.get(name, ())
        ]
        first_run, *other_runs = runs or [{"campaign": Text("idle", style="dim")}]
        rows.append({"worker": short_owner(name), **first_run, **about})
        rows += other_runs
    return rows


def _failure(failure: Failure, now: datetime, wide: bool) -> dict[str, object]:
    why = str(failure.outcome or failure.state)
    if failure.reason:
        why += f": {failure.reason}"
    if failure.state == "stale":
        why = f"refused, came too late ({why})"
    row: dict[str, object] = {
        "ago": ago(now, failure.at),
        "job": failure.job_id,
        "rung": failure.rung,
        "candidate": failure.candidate,
        "why": why,
    }
    if wide:
        row["worker"] = short_owner(failure.worker)
    return row
