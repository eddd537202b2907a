"""The display of a running campaign: a table by rung, cost and budget.

`Progress` shows it in a terminal, `NotebookProgress` in a notebook's cell; `view_of` chooses one of the two.
"""

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

from sciagent.api import notebook_html
from sciagent.api.best_table import BestTable, objectives_of
from sciagent.api.displayed_answers import budget_line, rung_table, status_html
from sciagent.api.terminal_tables_and_signals import Line, Part, raise_interrupt, show, wrapped
from sciagent.domain.answers.status_and_comparison import CampaignCounts
from sciagent.domain.safe_text_and_durations import ago
from sciagent.report.campaigns_at_work import time_left
from sciagent.report.status_best_trace import best
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue.workers_and_capacity import RunningJob, running_jobs
from sciagent.store.views import campaign_counts_and_remarks

REFRESH_INTERVAL_SECONDS = 1.0  # between two updates of a live table
LINE_INTERVAL_SECONDS = 20.0  # between two lines, where output is no terminal
READING_SHARE = 0.1  # largest share of the time for reading the ledger
N_HITS_IN_SUMMARY = 5
MAX_BEST_IN_SUMMARY = 20  # candidates in the summary of a run for the best
MAX_SHOWN_NOTES = 3  # notes that a notebook shows, the latest
MAX_SHOWN_JOBS = 8  # running jobs that the display names


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
        self._next_update = 0.0
        """Monotonic time from which the display is due."""
        self._note = ""
        self._running: list[RunningJob] = []
        self._read_at = datetime.now(UTC)
        """Time at which the running jobs were read."""
        self._time_left: str | None = None

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
        if self._quiet or now < self._next_update:
            return
        with self._ledger.read() as connection:
            row = campaigns.get(connection, self._name)
            status = campaign_counts_and_remarks.counts(connection, row)
            self._running = running_jobs(connection, campaign_id=row.id)
            self._read_at = db_now(connection)
        n_workers = max(1, len(self._running), row.spec.get("workers") or 1)
        self._time_left = time_left(status, n_workers)
        self._show(status)
        took = time.monotonic() - now
        self._next_update = now + self._pause() + took / READING_SHARE

    def _pause(self) -> float:
        return REFRESH_INTERVAL_SECONDS if self._live else LINE_INTERVAL_SECONDS

    def _show(self, status: CampaignCounts) -> None:
        time_left_texts = [self._time_left] if self._time_left else []
        if self._live is None:
            show(Line(" · ".join([one_line(status), *time_left_texts])), console=self._console)
            return
        budget = "\n".join(wrapped(budget_line(status), self._console.width))
        parts: list[RenderableType] = [rung_table(status), Text(budget)]
        parts += [self._job(job) for job in self._running[:MAX_SHOWN_JOBS]]
        n_more = len(self._running) - MAX_SHOWN_JOBS
        if n_more > 0:
            parts.append(Text(f"  and {n_more} more", style="dim"))
        foot = self._note or " · ".join([*time_left_texts, self._foot])
        parts.append(Text(foot, style="dim"))
        self._live.update(Group(*parts), refresh=True)

    def _job(self, job: RunningJob) -> Text:
        """Returns a line on a running job, which is cut at the edge of the terminal."""
        names = f"{job.name}  {job.candidate}" if job.name else job.candidate
        progress = f" ({job.progress.words})" if job.progress else ""
        line = f"  {job.rung} for {ago(self._read_at, job.since)}{progress}: {names}"
        return Text(line, style="cyan", no_wrap=True, overflow="ellipsis")

    def summary(self, status: CampaignCounts, report: Path | None) -> None:
        """Prints the summary of a run on stderr: the table, the campaign's answer, and the report's path if given."""
        if self._quiet:
            return
        answer = self._answer()
        parts: list[Part] = [rung_table(status), Line(budget_line(status)), *status.notes]
        if isinstance(answer, BestTable):
            parts.append(answer.table())
            parts += [Line(text) for text in answer.unranked()]
        elif status.state != "interrupted":
            parts.append(Line(answer))
        if status.state not in ("interrupted", "failed"):  # the command names these two, and says what to do
            parts.append(Line(f"{status.state}: {status.stop_reason}"))
        if report is not None:
            parts.append(Line(f"report: {report}"))
        show(*parts, console=self._console)

    def _answer(self) -> BestTable | str:
        """Returns the answer of the campaign as a table: hits, or for a goal of kind `best` the best verified
        candidates. Without a candidate, it returns a sentence that says so."""
        with self._ledger.read() as connection:
            row = campaigns.get(connection, self._name)
            goal = row.spec["goal"]
            wants_best = goal["kind"] != "hits"
            n_wanted = N_HITS_IN_SUMMARY
            if wants_best:
                n_wanted = min(goal.get("count") or N_HITS_IN_SUMMARY, MAX_BEST_IN_SUMMARY)
            best_candidates = best(connection, row, n_wanted)
        chosen = [candidate for candidate in best_candidates if candidate.hit or (wants_best and candidate.verified)]
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
        """IPython's handle of the cell; None before the first display."""
        self._notes: list[str] = []
        self._has_ended = False

    def __enter__(self) -> Self:
        self._has_ended = False
        self._step_now()
        return self

    def __exit__(self, *error: object) -> None:
        self._has_ended = True  # so that the last display has the answer
        self._step_now()

    def warn(self, text: str) -> None:
        self._notes.append(text)
        self._step_now()

    def _step_now(self) -> None:
        self._next_update = 0.0
        self.step()

    def _pause(self) -> float:
        return REFRESH_INTERVAL_SECONDS

    def _show(self, status: CampaignCounts) -> None:
        from IPython.display import HTML, display

        parts = [status_html(status)]
        if self._has_ended:
            answer = self._answer()
            parts.append(
                notebook_html.box(notebook_html.paragraph(answer)) if isinstance(answer, str) else answer._repr_html_()
            )
        if self._notes:
            paragraphs = [notebook_html.paragraph(text, soft=True) for text in self._notes[-MAX_SHOWN_NOTES:]]
            parts.append(notebook_html.box(*paragraphs))
        shown = HTML("".join(parts))
        if self._handle is None:
            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)


def view_of(ledger: Ledger, name: str, progress: bool | Progress) -> Progress:
    """Returns the display of a running campaign. progress: the caller's own display, or whether to show anything."""
    if isinstance(progress, Progress):
        return progress
    if progress and in_notebook():
        return NotebookProgress(ledger, name)
    return Progress(ledger, name, quiet=not progress)


def in_notebook() -> bool:
    """Returns whether this process is the kernel of a notebook, which shows HTML."""
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = None if get_shell is None else get_shell()
    return shell is not None and getattr(shell, "kernel", None) is not None


def one_line(status: CampaignCounts) -> str:
    """Returns the status as one line, for output that is not a terminal."""
    rungs = ", ".join(f"{rung.rung} {rung.passed}/{rung.done}" for rung in status.rungs)
    return f"{budget_line(status)} · passed/done: {rungs}"
