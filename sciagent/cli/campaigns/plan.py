"""`sciagent plan FILE`: what the budget is likely to buy, before a start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sciagent.cli.shared.common import JsonOption, LedgerOption, open_ledger, put_json
from sciagent.settings import load


def register(app: typer.Typer) -> None:
    app.command("plan", epilog="Example: sciagent plan campaigns/quickstart.yaml")(plan)


def plan(
    file: Annotated[Path, typer.Argument(help="The campaign, a YAML file.")],
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """What the budget of a campaign is likely to buy, which rungs look worthless, and how sure that is.

    Nothing is started or written. A ledger is not needed; one that is there teaches what rungs cost and tell.
    """
    from sciagent.campaign.planning.plan import plan as planned
    from sciagent.campaign.spec.load import load_spec

    spec = load_spec(file)
    found = planned(spec, _ledger(ledger))
    if json:
        put_json(found)
        return
    from rich.console import Console

    console = Console()
    console.print(f"{found['campaign']}: what its budget is likely to buy", style="bold", highlight=False, markup=False)
    console.print()
    _rungs(console, found)
    _cases(console, found)
    for text in found["sentences"]:
        console.print(text, highlight=False, markup=False)
    console.print()
    console.print("Assumed", style="bold")
    for text in found["assumptions"]:
        _indented(console, text)


def _ledger(url: str | None) -> Any:
    """The ledger if there is one. Raises UsageError for one that was named and is not there."""
    from sciagent.store.database.engine import ledger_url

    made = ledger_url(load(url).ledger)
    if url is None and made.get_backend_name() == "sqlite" and not Path(str(made.database)).exists():
        return None
    return open_ledger(url)


def _table(title: str, *columns: str) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(columns):
        made.add_column(name, justify="left" if i == 0 else "right", overflow="fold")
    return made


def _rungs(console: Any, found: Mapping[str, Any]) -> None:
    made = _table(
        "the rungs (core seconds: median and 90 % of the sample)",
        "rung",
        "core s",
        "correlation",
        "from",
        "hits it brings",
        "verdict",
    )
    for rung in found["rungs"]:
        cost = rung["costs"].get("core_seconds")
        amount = "–" if cost is None else f"{cost['median']:.3g}–{cost['p90']:.3g}"
        if rung["is_terminal"]:
            made.add_row(rung["rung"], amount, "", "", "", "decides")
            continue
        tells = [t for t in rung["tells"] if t["kind"] != "nothing"]
        made.add_row(
            rung["rung"],
            amount,
            "\n".join(_range(t) for t in tells),
            "\n".join(t["kind"] for t in tells),
            _brings(rung),
            rung["verdict"],
        )
    console.print(made)
    for rung in found["rungs"]:
        for one in rung["tells"]:
            _indented(console, f"{rung['rung']}, of {one['property']}: {one['kind']}: {one['why']}")
        if rung["cost_is"] == "learnt":
            _indented(console, f"{rung['rung']}: costs are {rung['cost_ratio']:.2g} of what is declared, as learnt")
        if rung["refuses"]:
            _indented(console, f"{rung['rung']}: refuses {rung['refuses']} of {found['sample']['molecules']} molecules")
    console.print()


def _range(one: Mapping[str, Any]) -> str:
    return "1" if one["kind"] == "decides" else f"{one['low']:.2f}–{one['high']:.2f}"


def _brings(rung: Mapping[str, Any]) -> str:
    from sciagent.campaign.planning.wording import extremes, signed

    if not any(d["middle"] is not None for d in rung["delta"]):
        return "–"
    low, high = extremes(rung["delta"])
    return f"{signed(low)} to {signed(high)}"


def _cases(console: Any, found: Mapping[str, Any]) -> None:
    cases = [case for case in found["cases"] if case["runs"] is not None]
    if not cases:
        return
    labels = list(cases[0]["runs"])
    made = _table(
        "what is bought, by the share of candidates that are hits",
        "hits among candidates",
        *(f"{label}, runs" for label in labels),
        "hits",
        "low–high",
        f"{labels[-1]} alone",
    )
    for case in cases:
        hits = case["hits"]
        made.add_row(
            f"{100 * case['hit_rate']:.3g} %" + (" (learnt)" if case["hit_rate_is"] == "learnt" else ""),
            *(_number(case["runs"][label]) for label in labels),
            _number(hits["middle"]),
            f"{_number(hits['low'])}–{_number(hits['high'])}",
            _number(case["terminal_alone"]),
        )
    console.print(made)
    console.print()


def _number(n: float) -> str:
    return f"{n:.2g}" if n < 10 else f"{n:.0f}"


def _indented(console: Any, text: str) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print(Padding(Text(text, overflow="fold"), (0, 0, 0, 2), expand=False), highlight=False)
