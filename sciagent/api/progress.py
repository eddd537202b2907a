"""The display of a running campaign in a terminal or a notebook: a table by rung, cost and budget."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from sciagent.api import html
from sciagent.api.answers import budget_line, rung_table, status_html
from sciagent.api.best_table import BestTable, objectives_of
from sciagent.api.terminal import Line, Part, raise_interrupt, show, wrapped
from sciagent.domain.answers.status import CampaignCounts
from sciagent.domain.text import ago
from sciagent.report.answers import best
from sciagent.report.live import time_left
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue.workers import RunningJob, running_jobs
from sciagent.store.views import campaign_counts

REFRESH_SECONDS = 1.0
LINE_SECONDS = 20.0
BRIEF = 5  # number of hits in the summary of a run
MOST_BRIEF = 20  # largest number of candidates in the summary of a run for the best
SHOWN_JOBS = 8  # running jobs that the display names


class Progress:
    """Shows a running campaign in a terminal; it reads the ledger about once a second.

    One thread uses it, and enters it once for each driver. foot: line below the table on the effect of Ctrl-C. leave:
    called at the third Ctrl-C, or at the first before a driver exists; it ends the process or raises.
    """

    def __init__(
        self,
        ledger: Ledger,
        name: str,
        quiet: bool = False,
        foot: str = "Ctrl-C stops cleanly",
        leave: Callable[[], None] = raise_interrupt,
    ) -> None:
        self.leave = leave
        self._ledger = ledger
        self._name = name
        self._quiet = quiet
        self._foot = foot
        self._console = Console(stderr=True)
        self._live: Live | None = None
        self._next = 0.0
        self._note = ""
        self._running: list[RunningJob] = []
        self._at = datetime.now(UTC)
        self._left: str | None = None

    def __enter__(self) -> Self:
        if not self._quiet and self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def note(self, text: str) -> None:
        """Shows a line; it may be called before, during and after the `with` block."""
        self._note = text
        if not self._quiet:  # above the live table, where a small terminal shows it too
            self.warn(text)

    def warn(self, text: str) -> None:
        """Shows an important line, also in quiet mode."""
        show(Line(text), console=self._console)

    def step(self) -> None:
        """Updates the display if it is due. The driver calls this at each step, many times a second."""
        now = time.monotonic()
        if self._quiet or now < self._next:
            return
        with self._ledger.read() as connection:
            row = campaigns.get(connection, self._name)
            status = campaign_counts.counts(connection, row)
            self._running = running_jobs(connection, campaign_id=row.id)
            self._at = db_now(connection)
        self._left = time_left(status, max(1, len(self._running), row.spec.get("workers") or 1))
        self._show(status)
        # reading the ledger takes at most a tenth of the time
        self._next = now + self._pause() + 10 * (time.monotonic() - now)

    def _pause(self) -> float:
        return REFRESH_SECONDS if self._live else LINE_SECONDS

    def _show(self, status: CampaignCounts) -> None:
        left = [self._left] if self._left else []
        if self._live is not None:
            foot = Text(self._note or " · ".join([*left, self._foot]), style="dim")
            jobs = (self._job(job) for job in self._running[:SHOWN_JOBS])
            more = max(0, len(self._running) - SHOWN_JOBS)
            rest = [Text(f"  and {more} more", style="dim")] if more else []
            parts: tuple[RenderableType, ...] = (
                rung_table(status),
                Text("\n".join(wrapped(budget_line(status), self._console.width))),
                *jobs,
                *rest,
                foot,
            )
            self._live.update(Group(*parts), refresh=True)
        else:
            show(Line(" · ".join([one_line(status), *left])), console=self._console)

    def _job(self, job: RunningJob) -> Text:
        """Returns a line on a running job, which is cut at the edge of the terminal."""
        names = f"{job.name}  {job.candidate}" if job.name else job.candidate
        line = f"  {job.rung} for {ago(self._at, job.since)}: {names}"
        return Text(line, style="cyan", no_wrap=True, overflow="ellipsis")

    def summary(self, status: CampaignCounts, report: Path | None) -> None:
        """Prints the summary of a run on stderr: the table, the campaign's answer, and the report's path if given."""
        if self._quiet:
            return
        found = self._answer()
        parts: list[Part] = [rung_table(status), Line(budget_line(status)), *status.notes]
        if not isinstance(found, str):
            parts += [found.table(), *map(Line, found.unranked())]
        elif status.state != "interrupted":
            parts.append(Line(found))
        if status.state not in ("interrupted", "failed"):  # the command says these with what to do
            parts.append(Line(f"{status.state}: {status.stop_reason}"))
        if report is not None:
            parts.append(Line(f"report: {report}"))
        show(*parts, console=self._console)

    def _answer(self) -> BestTable | str:
        """Returns the answer of the campaign as a table: hits, or for a goal of kind `best` the best verified
        candidates. Without an answer, a sentence says so."""
        with self._ledger.read() as connection:
            row = campaigns.get(connection, self._name)
            goal = row.spec["goal"]
            wants_best = goal["kind"] != "hits"
            count = goal.get("count") or BRIEF
            found = best(connection, row, min(count, MOST_BRIEF) if wants_best else BRIEF)
        chosen = [candidate for candidate in found if candidate.hit or (wants_best and candidate.verified)]
        if chosen:
            all_are_hits = row.has_limits and all(candidate.hit for candidate in chosen)
            kind = "hits" if all_are_hits else "verified candidates"
            return BestTable.of(chosen, objectives_of(row.spec), f"the best {kind}")
        if wants_best:
            return "no candidate was verified: see the report for why they fell"
        return "no hit: see the report for why the others fell"


class NotebookProgress(Progress):
    """Shows a running campaign in a notebook's cell, updated about once a second."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        super().__init__(ledger, name)
        self._handle: Any = None
        self._notes: list[str] = []
        self._ended = False

    def __enter__(self) -> Self:
        self._ended = False
        self._step_now()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended = True  # the final state, with the answer
        self._step_now()

    def warn(self, text: str) -> None:
        self._notes.append(text)
        self._step_now()

    def _step_now(self) -> None:
        self._next = 0.0
        self.step()

    def _pause(self) -> float:
        return REFRESH_SECONDS

    def _show(self, status: CampaignCounts) -> None:
        from IPython.display import HTML, display

        notes = "".join(html.paragraph(text, soft=True) for text in self._notes[-3:])
        found = self._answer() if self._ended else ""
        answer = found if isinstance(found, str) else found._repr_html_()
        answer = html.box(html.paragraph(answer)) if answer and isinstance(found, str) else answer
        shown = HTML(status_html(status) + answer + (html.box(notes) if notes else ""))
        if self._handle is None:
            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)


def view_of(ledger: Ledger, name: str, progress: bool | Progress) -> Progress:
    """Returns the display of a running campaign. progress: the caller's own display, or whether to show anything."""
    if isinstance(progress, Progress):
        return progress
    return NotebookProgress(ledger, name) if progress and in_notebook() else Progress(ledger, name, quiet=not progress)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which shows HTML."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and getattr(shell, "kernel", None) is not None


def one_line(status: CampaignCounts) -> str:
    """Returns the status as one line, for output that is not a terminal."""
    rungs = ", ".join(f"{rung.rung} {rung.passed}/{rung.done}" for rung in status.rungs)
    return f"{budget_line(status)} · passed/done: {rungs}"
