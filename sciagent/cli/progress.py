"""What one sees while a campaign runs: a table by rung, cost and budget; plain lines where there is no terminal."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from sciagent.campaign.build import Built
    from sciagent.campaign.driver import Driver

REFRESH_SECONDS = 1.0
LINE_SECONDS = 20.0


class Progress:
    """Reads the ledger about once a second; the driver knows nothing of it."""

    def __init__(self, built: Built, driver: Driver, quiet: bool) -> None:
        self._built, self._driver, self._quiet = built, driver, quiet
        self._console = Console(stderr=True)
        self._live: Live | None = None
        self._last = -1e9
        self._note = ""

    def __enter__(self) -> Progress:
        if not self._quiet and self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        if self._driver.reaped:
            self.note(f"took back {self._driver.reaped} jobs of a driver that died")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def note(self, text: str) -> None:
        self._note = text
        if not self._quiet:  # above the live table, where a small terminal shows it too
            self._console.print(text, highlight=False)

    def step(self) -> None:
        now = time.monotonic()
        if self._quiet or now - self._last < (REFRESH_SECONDS if self._live else LINE_SECONDS):
            return
        status = self._status()
        # never more than a tenth of the time goes into looking
        self._last = now + 10 * (time.monotonic() - now)
        if self._live is not None:
            foot = Text(self._note or "Ctrl-C stops cleanly", style="dim")
            self._live.update(Group(table(status), budget_line(status), foot), refresh=True)
        else:
            self._console.print(one_line(status), highlight=False, soft_wrap=True)

    def summary(self, status: dict[str, Any], report: Path) -> None:
        """The end of a run, on stderr: the table, the best, where the report is."""
        if self._quiet:
            return
        from sciagent.store import campaigns, queries

        self._console.print(table(status))
        self._console.print(budget_line(status))
        with self._built.ledger.read() as connection:
            rows = queries.best(connection, campaigns.get(connection, status["campaign"]), 5)
        hits = [r for r in rows if r["hit"]]
        if hits:
            self._console.print(best_table(hits, self._built.objectives))
        elif self._built.spec.goal.kind == "hits" and status["state"] != "interrupted":
            self._console.print("no hit: see the report for why the others fell", highlight=False)
        if status["state"] != "interrupted":
            self._console.print(f"{status['state']}: {status['stop_reason']}", highlight=False, soft_wrap=True)
        self._console.print(f"report: {report}", highlight=False, soft_wrap=True)

    def _status(self) -> dict[str, Any]:
        from sciagent.store import campaigns, queries

        with self._built.ledger.read() as connection:
            return queries.status(connection, campaigns.get(connection, self._built.row.name))


def table(status: dict[str, Any]) -> Table:
    made = Table(title=f"{status['campaign']}: {status['state']}", title_justify="left")
    made.add_column("rung")
    for name in ("running", "done", "passed", "failed", "undecided", "errors", "CPU s"):
        made.add_column(name, justify="right")
    for r in status["rungs"]:
        cells = (
            r["running"],
            r["done"],
            r["passed"],
            r["failed"],
            r["inconclusive"],
            r["errors"],
            f"{r['core_seconds']:.1f}",
        )
        made.add_row(f"{r['rung']} [dim]{r['tier']}[/dim]", *(str(c) for c in cells))
    return made


def budget_line(status: dict[str, Any]) -> Text:
    parts = [
        f"{status['proposals']} proposals",
        f"{status['candidates']} candidates",
        f"{status['hits']} hit{'' if status['hits'] == 1 else 's'}",
    ]
    if status["reused"]:
        parts.append(f"{status['reused']} answers reused at no cost")
    budget, spent = status["budget"], status["spent"]
    by_rung = {r["rung"]: r["jobs"] for r in status["rungs"]}
    for name, limit in budget.items():
        if name == "rungs":
            parts += [f"{rung}: {by_rung.get(rung, 0)} of {n}" for rung, n in limit.items()]
        elif name == "proposals":
            parts[0] = f"{status['proposals']} of {limit} proposals"
        elif limit is not None:
            parts.append(f"{name} {spent.get(name, 0.0):.1f} of {limit:g}")
    return Text(" · ".join(parts))


def one_line(status: dict[str, Any]) -> str:
    rungs = ", ".join(f"{r['rung']} {r['passed']}/{r['done']}" for r in status["rungs"])
    return f"{budget_line(status).plain} · passed/done: {rungs}"


def best_table(rows: list[dict[str, Any]], objectives: Any) -> Table:
    names = [o.property for o in objectives]
    made = Table(title="the best", title_justify="left")
    made.add_column("SMILES", overflow="fold")
    for name in names:
        made.add_column(name, justify="right")
    made.add_column("level")
    made.add_column("")
    for r in rows:
        values = [r["values"].get(n) for n in names]
        shown = [show_value(v) for v in values]
        level = next((v["level"].split("//")[0] for v in values if v), "")
        mark = ("hit" if r["hit"] else "") + (", a seed" if r["in_seeds"] else "")
        made.add_row(r["smiles"], *shown, level, mark)
    return made


def show_value(value: dict[str, Any] | None) -> str:
    if value is None:
        return "–"
    from sciagent.domain.quantities import show

    return show(value["value"], value["uncertainty"], value["unit"])
