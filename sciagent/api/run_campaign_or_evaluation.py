"""Runs a campaign or an evaluation in this process, with the same answers to signals.

`Drive` runs a campaign to its end, with a display, a report and reconnection to a lost ledger. `evaluate` runs an
evaluation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from sciagent.api.open_ledger import LedgerLike, open_ledger
from sciagent.api.progress_display import Progress
from sciagent.api.terminal_tables_and_signals import each_signal, raise_interrupt
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import open_stored
from sciagent.campaign.driving.driver import Driver
from sciagent.errors import DiskFullError, LedgerAwayError
from sciagent.execution.executor_wakes_workers import Executor
from sciagent.execution.worker.worker_slot import retry_while_away
from sciagent.inputs.environment_variables import user
from sciagent.report.page.html_page import GrowingReport
from sciagent.training.evaluation.evaluation_command_answers import EvaluatedCampaign, EvaluationAnswer

MAX_WARNING = 200  # characters of an error in a warning
T = TypeVar("T")


class Drive:
    """One run of a campaign in this process. `stop` may be called from any thread."""

    def __init__(
        self, built: Built, view: Progress, executor: Callable[[], Executor | None], workers: int | None
    ) -> None:
        """executor: opens the executor of a driver; None is an executor in this process. workers: number of parallel
        jobs; None: as the campaign says."""
        self._built = built
        self._view = view
        self._open_executor = executor
        self._workers = workers
        self._driver: Driver | None = None
        self._stopped = threading.Event()

    def run(self, report: Path | None = None) -> None:
        """Steps until the campaign ends or is stopped. report: file that is updated during the run.

        The display says why a report could not be written. Raises CampaignError, LedgerError.
        """
        built = self._built
        growing = None if report is None else GrowingReport(built.ledger, built.row.name, report)
        with each_signal(self._on_first_signal, partial(self.stop, now=True), last=self._view.leave):
            while True:
                self._driver = Driver(built, self._workers, self._open_executor())
                try:
                    self._run_driver(self._driver, growing)
                    break
                except LedgerAwayError as error:
                    if isinstance(error, DiskFullError):
                        raise DiskFullError(f"{error}. Then: sciagent resume {built.row.name}") from error
                    # a SQLite file that is gone does not come back by itself
                    if built.ledger.engine.dialect.name == "sqlite" or self._stopped.is_set():
                        raise
                    first_line = str(error).splitlines()[0]
                    reason = first_line[:MAX_WARNING]
                    self._view.warn(f"the ledger is away; the campaign goes on when it is back: {reason}")
                    self.while_away(self._driver.release)
                    reopen = partial(open_stored, built.ledger, built.row.name, user(), built.spec.allowed)
                    built = self.while_away(reopen).built
            if growing is not None:
                growing.finish()  # inside the block, so that a signal does not interrupt the writing
        if growing is not None and growing.fault:
            self._view.warn(f"the report could not be written: {growing.fault}")

    def while_away(self, work: Callable[[], T]) -> T:
        """Returns work(), which is called again while a database server is away, until the run is stopped. Raises
        LedgerAwayError at once for a SQLite file, which does not come back by itself."""
        if self._built.ledger.engine.dialect.name == "sqlite":
            return work()
        return retry_while_away(work, self._stopped)

    def stop(self, now: bool = False) -> None:
        """Stops starting jobs; running jobs finish. now: kill them instead; they are retried later."""
        self._stopped.set()
        if self._driver is not None:
            if now:
                self._driver.abort()
            else:
                self._driver.request_stop()

    def _run_driver(self, driver: Driver, growing: GrowingReport | None) -> None:
        with driver, self._view:
            if driver.reaped:
                self._view.note(f"took back {driver.reaped} jobs of a driver that died")

            def on_step() -> None:
                self._view.step()
                if growing is not None:
                    growing.step()

            driver.run(on_step)

    def _on_first_signal(self) -> None:
        self.stop()
        if self._driver is None:  # nothing runs that could be finished
            self._view.leave()
        self._view.note("finishing what runs; Ctrl-C again stops at once (nothing is lost either way)")


def evaluate(
    file: str | Path,
    *,
    workers: int = 1,
    plot: str | Path | None = None,
    ledger: LedgerLike = None,
    tell: Callable[[EvaluatedCampaign, int, int], None] | None = None,
) -> EvaluationAnswer:
    """Runs the evaluation in a file, or goes on with it, and compares its arms.

        answer = sciagent.evaluate("recipe.yaml", workers=2, plot="hits.png")
        answer.arms["trained"].hits_per_verification

    Ctrl-C stops the evaluation, and the same call continues it. workers: number of campaigns at the same time. plot:
    file for the curves, .png or .svg. tell: called with each campaign that has ended, the number that have ended, and
    the number of all. Raises SpecError with all mistakes of the file, and UsageError.
    """
    from sciagent.training.evaluation.arm_figures import check_plot, draw
    from sciagent.training.evaluation.evaluation_spec import load_evaluation
    from sciagent.training.evaluation.run_evaluation import Evaluation

    path = Path(file)
    chart = None if plot is None else Path(plot)
    spec = load_evaluation(path)
    if chart is not None:
        check_plot(chart)
    evaluation = Evaluation(spec, path.resolve().parent, open_ledger(ledger, create=True), workers)
    with each_signal(evaluation.stop, partial(evaluation.stop, now=True), last=raise_interrupt):
        answer = evaluation.run(tell or (lambda campaign, done, of: None))
    if chart is not None and answer.arms:
        draw(answer, chart)
    return answer
