"""Figures of campaigns that are too dear to be counted at every reload: each says how old it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from markupsafe import Markup

from sciagent.domain.answers.candidate_and_value_answers import BestCandidate
from sciagent.domain.answers.status_and_comparison import CampaignCounts
from sciagent.report import status_best_trace
from sciagent.report.parts import campaign_charts
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.results.evidence import register_ledger_properties
from sciagent.store.views import campaign_counts
from sciagent.store.views.progress_and_comparisons import ProgressStep, progress

SHARE = 0.1  # largest share of the time of one thread for counting
LARGE_SHARE = 0.03  # the same for a large campaign, since drivers may need the same database and cores
LARGE = 100_000  # candidates from which a campaign is large
MAX_AGE_SECONDS = 60.0  # longest time between two counts
MIN_WAIT_SECONDS = 0.5  # shortest time after which a page asks again
MAX_STEPS = 200  # points of the chart
MAX_BEST = 12  # candidates on the page of a campaign
_DRAWING = threading.Lock()  # all threads of the process share matplotlib's settings


@dataclass(frozen=True)
class CampaignFigures:
    """The figures of a campaign at one moment."""

    status: CampaignCounts
    best: Sequence[BestCandidate]
    """Best candidates that have a value of an objective."""
    chart: Markup
    """Hits, or the best utility, against the booked cost."""
    at: datetime
    tick: int
    """Number of the ledger's state at that moment; it grows when the ledger changes."""
    took: float
    """Seconds that counting and drawing took."""

    @property
    def age(self) -> float:
        """Returns the age in seconds."""
        return (datetime.now(UTC) - self.at).total_seconds()

    @property
    def seconds_to_next_count(self) -> float:
        """Returns the seconds from this count to the next."""
        share = LARGE_SHARE if self.status.candidates >= LARGE else SHARE
        return min(MAX_AGE_SECONDS, self.took / share)


@dataclass
class _Kept:
    """The last figures of a campaign. One thread at a time holds the lock and counts."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    figures: CampaignFigures | None = None


class Figures:
    """Counts the figures of a campaign when somebody looks and the ledger has changed, and shares them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.Lock()

    def warm(self) -> None:
        """Draws once, so that matplotlib is loaded before the first count and does not add to its time."""
        steps = [ProgressStep(0.0, 0, None), ProgressStep(1.0, 1, None)]
        with _DRAWING:
            campaign_charts.progress({"": steps}, counts_hits=True)

    def wait(self, figures: CampaignFigures, tick: int) -> float | None:
        """Returns the seconds after which a page asks again; None if the figures are of the present tick."""
        if figures.tick == tick:
            return None
        return max(MIN_WAIT_SECONDS, figures.seconds_to_next_count - figures.age)

    def of(self, campaign: str, tick: int) -> CampaignFigures:
        """Returns the figures of a campaign. tick: the present one.

        Figures of an earlier tick are counted again, unless that would take too much of the time. While one thread
        counts, the others get the earlier figures.
        """
        with self._lock:
            kept = self._kept.setdefault(campaign, _Kept())
        before = kept.figures
        if before is not None and before.tick == tick:
            return replace(before, at=datetime.now(UTC))  # nothing has changed since
        if before is not None and before.age < before.seconds_to_next_count:
            return before
        must_wait = before is None  # without earlier figures
        if kept.lock.acquire(blocking=must_wait):
            try:
                if kept.figures is before:  # else another thread has just counted
                    kept.figures = self._count(campaign, tick)
            finally:
                kept.lock.release()
        if kept.figures is None:  # the thread that counted has failed
            return self._count(campaign, tick)
        return kept.figures

    def _count(self, campaign: str, tick: int) -> CampaignFigures:
        """Reads the figures of a campaign from the ledger, and draws its chart."""
        began = time.monotonic()
        at = datetime.now(UTC)
        with self._ledger.read() as connection:
            register_ledger_properties(connection)
            row = campaigns.get(connection, campaign)
            status = campaign_counts.counts(connection, row)
            best = status_best_trace.best(connection, row, MAX_BEST)
            rungs = {rung.name: rung for rung in campaigns.rungs(connection, row.id)}
            terminal = rungs[row.spec["terminal"]]
            steps = progress(connection, row, terminal, points=MAX_STEPS)
        objective_names = {objective["property"] for objective in row.spec["objectives"]}
        best = [candidate for candidate in best if not objective_names.isdisjoint(candidate.values)]
        counted = time.monotonic()
        with _DRAWING:  # may wait until matplotlib is loaded
            drawing = time.monotonic()
            chart = campaign_charts.progress({"": steps}, counts_hits=row.has_limits)
        drawn = time.monotonic()
        took = (counted - began) + (drawn - drawing)  # without waiting for the lock
        return CampaignFigures(status, best, chart=Markup(chart), at=at, tick=tick, took=took)
