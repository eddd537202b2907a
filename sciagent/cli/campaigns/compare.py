"""`sciagent compare NAME NAME`: two campaigns side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sciagent.cli.shared.common import JsonOption, LedgerOption, open_ledger, put_json

MAX_DIFFERENCES = 40


def register(app: typer.Typer) -> None:
    app.command("compare", epilog="Example: sciagent compare quickstart quickstart-wide")(compare)


def compare(
    first: Annotated[str, typer.Argument(help="A campaign.")],
    second: Annotated[str, typer.Argument(help="Another one, of the same ledger.")],
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """How two campaigns differ: what was asked, the funnel, the cost, hits at equal cost, what both found.

    Values stand side by side only where the same calculation gave them.
    """
    from sciagent.campaign.people.comparing import compare as compared
    from sciagent.store.campaign_state import campaigns

    with open_ledger(ledger).read() as connection:
        found = compared(connection, campaigns.get(connection, first), campaigns.get(connection, second))
    if json:
        put_json(found)
        return
    from rich.console import Console

    console = Console()
    _asked(console, found)
    _totals(console, found)
    _funnel(console, found)
    _hits(console, found)
    _values(console, found)


def _table(title: str, *columns: str) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(columns):
        made.add_column(name, justify="left" if i == 0 else "right", overflow="fold")
    return made


def _asked(console: Any, found: Mapping[str, Any]) -> None:
    a, b = found["campaigns"]
    lines = found["differences"]
    console.print(f"{a} -> {b}", style="bold", highlight=False, markup=False)
    for line in lines[:MAX_DIFFERENCES]:
        console.print(f"  {line}", highlight=False, markup=False)
    if len(lines) > MAX_DIFFERENCES:
        console.print(f"  and {len(lines) - MAX_DIFFERENCES} more; see --json")
    if not lines:
        console.print("  nothing differs in what was asked")
    if not found["same_objectives"]:
        console.print("  the objectives differ: a hit of one is not a hit of the other", highlight=False)
    console.print()


def _totals(console: Any, found: Mapping[str, Any]) -> None:
    made = _table("what became of them", "", *found["campaigns"])
    both = found["status"]

    def row(name: str, *cells: Any) -> None:
        made.add_row(name, *(str(cell) for cell in cells))

    row("state", *(s["state"] for s in both))
    for name in ("proposals", "candidates", "hits"):
        row(name, *(s[name] for s in both))
    row("answers reused, at no cost", *(s["reused"] for s in both))
    for resource in dict.fromkeys(r for s in both for r in s["spent"]):
        row(resource.replace("_", " "), *(f"{s['spent'].get(resource, 0.0):.1f}" for s in both))
    row("core seconds to the first hit", *(_number(cost) for cost in found["cost_of_first_hit"]))
    console.print(made)
    shared = found["overlap"]
    console.print(
        f"{shared['both']} candidates are in both; of the hits {shared['hits_of_both']} are hits of both",
        highlight=False,
    )
    for one in shared["shared_hits"]:
        console.print(f"  {one['smiles']}", highlight=False, markup=False)
    console.print()


def _funnel(console: Any, found: Mapping[str, Any]) -> None:
    a, b = found["campaigns"]
    made = _table("the ladders: passed of done, core seconds", "rung", a, "", b, " ")
    for line in found["rungs"]:
        names = [name for name in line["rungs"] if name]
        label = names[0] if len(set(names)) == 1 else " / ".join(names)
        mark = "" if line["same_calculation"] or None in line["rungs"] else " (another calculation)"
        cells = []
        for counts in line["counts"]:
            cells += (
                ["–", ""]
                if counts is None
                else [f"{counts['passed']} of {counts['done']}", f"{counts['core_seconds']:.1f} s"]
            )
        made.add_row(label + mark, *cells)
    console.print(made)


def _hits(console: Any, found: Mapping[str, Any]) -> None:
    made = _table("hits at equal cost", "core seconds", *found["campaigns"])
    for mark in found["hits_against_cost"]:
        at = "in all" if mark["core_seconds"] is None else _number(mark["core_seconds"])
        made.add_row(at, *(str(n) for n in mark["hits"]))
    console.print(made)
    if any(s["reused"] for s in found["status"]):
        console.print("answers that were known before cost nothing, so costs of the later campaign are too low\n")


def _values(console: Any, found: Mapping[str, Any]) -> None:
    for one in found["values"]:
        title = f"{one['property']}, as the deciding rung measured it"
        made = _table(title, "", "n", "lowest", "mean", "highest", "unit", "level")
        for name, side in zip(found["campaigns"], one["measured"], strict=True):
            for s in side:
                numbers = (f"{s[key]:.4g}" for key in ("low", "mean", "high"))
                made.add_row(name, str(s["n"]), *numbers, "" if s["unit"] == "1" else s["unit"], s["level"])
            if not side:
                made.add_row(name, "0", "–", "–", "–", "", "")
        console.print(made)
        if not one["comparable"]:
            console.print("not by the same calculation: these numbers are not to be compared\n", highlight=False)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
