"""What one sees while a campaign runs: a table by rung, cost and budget; plain lines where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sciagent.api.interrupts import raise_interrupt
from sciagent.domain.answers.best import BestCandidate
from sciagent.domain.answers.status import CampaignCounts
from sciagent.domain.answers.values import ShownValue
from sciagent.domain.quantities import show
from sciagent.store.database.ledger import Ledger

_TIERS = {"high_fidelity": "high", "simulation": "sim"}  # as the table has room for
REFRESH_SECONDS = 1.0
LINE_SECONDS = 20.0


class Progress:
    """Shows a campaign in a terminal; it reads the ledger about once a second, beside the driver.

    foot: the line below the table, which says what Ctrl-C does. leave: called when it was typed for the third time.
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
        self._ledger, self._name, self._quiet, self._foot = ledger, name, quiet, foot
        self._console = Console(stderr=True)
        self._live: Live | None = None
        self._last = -1e9
        self._note = ""

    def __enter__(self) -> Progress:
        if not self._quiet and self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def note(self, text: str) -> None:
        self._note = text
        if not self._quiet:  # above the live table, where a small terminal shows it too
            self._console.print(text, highlight=False)

    def warn(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def step(self) -> None:
        now = time.monotonic()
        if self._quiet or now - self._last < (REFRESH_SECONDS if self._live else LINE_SECONDS):
            return
        status = self._status()
        # never more than a tenth of the time goes into looking
        self._last = now + 10 * (time.monotonic() - now)
        if self._live is not None:
            foot = Text(self._note or self._foot, style="dim")
            self._live.update(Group(table(status), budget_line(status), foot), refresh=True)
        else:
            self._console.print(one_line(status), highlight=False, soft_wrap=True)

    def summary(self, status: CampaignCounts, report: Path | None) -> None:
        """The end of a run, on stderr: the table, the best, where the report is, if it is known here."""
        if self._quiet:
            return
        from sciagent.report.answers.best import best
        from sciagent.store.campaign_state import campaigns

        self._console.print(table(status))
        self._console.print(budget_line(status))
        with self._ledger.read() as connection:
            row = campaigns.get(connection, self._name)
            candidates = best(connection, row, 5)
        hits = [candidate for candidate in candidates if candidate.hit]
        if hits:
            self._console.print(best_table(hits, [objective["property"] for objective in row.spec["objectives"]]))
        elif row.spec["goal"]["kind"] == "hits" and status.state != "interrupted":
            self._console.print("no hit: see the report for why the others fell", highlight=False)
        if status.state != "interrupted":
            self._console.print(f"{status.state}: {status.stop_reason}", highlight=False, soft_wrap=True)
        if report is not None:
            self._console.print(f"report: {report}", highlight=False, soft_wrap=True)

    def _status(self) -> CampaignCounts:
        from sciagent.store.campaign_state import campaigns
        from sciagent.store.views import queries

        with self._ledger.read() as connection:
            return queries.counts(connection, campaigns.get(connection, self._name))


def table(status: CampaignCounts) -> Table:
    """One line a rung; narrow enough for 80 columns."""
    made = Table(
        title=f"{status.campaign}: {status.state}",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    made.add_column("rung", overflow="fold")
    made.add_column("tier", no_wrap=True, style="dim")
    for name in ("running", "done", "passed", "failed", "unclear", "errors", "CPU s"):
        made.add_column(name, justify="right", no_wrap=True)
    for rung in status.rungs:
        counts = (rung.running, rung.done, rung.passed, rung.failed, rung.inconclusive, rung.errors)
        tier = _TIERS.get(rung.tier, str(rung.tier))
        made.add_row(rung.rung, tier, *(str(count) for count in counts), f"{rung.core_seconds:.1f}")
    return made


def budget_line(status: CampaignCounts) -> Text:
    parts = [
        f"{status.proposals} proposals",
        f"{status.candidates} candidates",
        f"{status.hits} hit{'' if status.hits == 1 else 's'}",
    ]
    if status.unreadable:
        parts.append(f"{status.unreadable} texts could not be read")
    if status.reused:
        parts.append(f"{status.reused} answers reused at no cost")
    parts += [f"{n} {what}" for n, what in ((status.held, "held"), (status.vetoed, "vetoed")) if n]
    jobs = {rung.rung: rung.jobs for rung in status.rungs}
    for name, limit in status.budget.items():
        if isinstance(limit, Mapping):
            parts += [f"{rung}: {jobs.get(rung, 0)} of {n}" for rung, n in limit.items()]
        elif name == "proposals":
            parts[0] = f"{status.proposals} of {limit} proposals"
        elif limit is not None:
            parts.append(f"{name} {status.spent.get(name, 0.0):.1f} of {limit:g}")
    return Text(" · ".join(parts))


def one_line(status: CampaignCounts) -> str:
    rungs = ", ".join(f"{rung.rung} {rung.passed}/{rung.done}" for rung in status.rungs)
    return f"{budget_line(status).plain} · passed/done: {rungs}"


def best_table(candidates: Sequence[BestCandidate], properties: Sequence[str]) -> Table:
    """properties: those of the objectives, a column each."""
    made = Table(title="the best", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    made.add_column("SMILES", overflow="fold", ratio=1)
    for name in properties:
        made.add_column(name, justify="right", overflow="fold")
    made.add_column("level", overflow="fold")
    made.add_column("utility", justify="right", no_wrap=True)
    made.add_column("P(hit)", justify="right", no_wrap=True)
    made.add_column("", no_wrap=True)
    for candidate in candidates:
        values = [candidate.values.get(name) for name in properties]
        level = next((value.level.split("//")[0] for value in values if value), "")
        utility = "–" if candidate.utility is None else f"{candidate.utility:.3f}"
        mark = ("hit" if candidate.hit else "") + (", a seed" if candidate.in_seeds else "")
        shown = [show_value(value) for value in values]
        chance = "–" if candidate.p_hit is None else f"{candidate.p_hit:.2g}"
        made.add_row(Text(candidate.smiles), *shown, level, utility, chance, mark.removeprefix(", "))
    return made


def imported_lines(candidates: Sequence[BestCandidate]) -> list[str]:
    """One line of text for each value imported from a file. No rung measured these values, so they are printed beside
    the table of rungs."""
    signs = {"below": "< ", "above": "> "}
    return [
        f"{candidate.smiles}: {value.property} = {signs.get(value.censoring, '')}"
        f"{show(value.value, value.uncertainty, value.unit)}  [{value.level}] from {value.source.split(' sha256')[0]}"
        for candidate in candidates
        for value in candidate.imported
    ]


def show_value(value: ShownValue | None) -> str:
    if value is None:
        return "–"
    return show(value.value, value.uncertainty, value.unit)
