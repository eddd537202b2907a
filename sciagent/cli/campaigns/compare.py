"""`sciagent compare NAME NAME`: two campaigns side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from sciagent.api.terminal import plain_table
from sciagent.cli.shared.common import JsonOption, LedgerOption, open_ledger, put_json

if TYPE_CHECKING:
    from sciagent.domain.answers.comparison import Comparison

MAX_DIFFERENCES = 40


def compare(
    first: Annotated[str, typer.Argument(help="A campaign.")],
    second: Annotated[str, typer.Argument(help="Another campaign, of the same ledger.")],
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """How two campaigns differ: what was asked, the funnel, the cost, hits at equal cost, what both have.

    Values stand side by side only where the same calculation gave them.
    """
    from sciagent.campaign.people.comparing import compare as compared
    from sciagent.store.campaign_state import campaigns

    with open_ledger(ledger).read() as connection:
        comparison = compared(connection, campaigns.get(connection, first), campaigns.get(connection, second))
    if json:
        put_json(comparison)
        return
    console = Console()
    _asked(console, comparison)
    _totals(console, comparison)
    _funnel(console, comparison)
    _hits(console, comparison)
    _values(console, comparison)


def _asked(console: Console, comparison: Comparison) -> None:
    first, second = comparison.campaigns
    lines = comparison.differences
    console.print(f"{first} -> {second}", style="bold", highlight=False, markup=False)
    for line in lines[:MAX_DIFFERENCES]:
        console.print(f"  {line}", highlight=False, markup=False)
    if len(lines) > MAX_DIFFERENCES:
        console.print(f"  and {len(lines) - MAX_DIFFERENCES} more; see --json")
    if not lines:
        console.print("  nothing differs in what was asked")
    if not comparison.same_objectives:
        console.print("  the objectives differ: a hit of either need not be a hit of the other", highlight=False)
    console.print()


def _totals(console: Console, comparison: Comparison) -> None:
    made = plain_table("what became of them", "", *comparison.campaigns)
    both = comparison.status
    made.add_row("state", *(counts.state for counts in both))
    made.add_row("proposals", *(str(counts.proposals) for counts in both))
    made.add_row("candidates", *(str(counts.candidates) for counts in both))
    made.add_row("hits", *(str(counts.hits) for counts in both))
    made.add_row("answers reused, at no cost", *(str(counts.reused) for counts in both))
    for resource in dict.fromkeys(name for counts in both for name in counts.spent):
        made.add_row(resource.replace("_", " "), *(f"{counts.spent.get(resource, 0.0):.1f}" for counts in both))
    made.add_row("core seconds to the first hit", *(_number(cost) for cost in comparison.cost_of_first_hit))
    console.print(made)
    shared = comparison.overlap
    console.print(
        f"{shared.both} candidates are in both; of the hits {shared.hits_of_both} are hits of both", highlight=False
    )
    for hit in shared.shared_hits:
        console.print(f"  {hit.smiles}", highlight=False, markup=False)
    console.print()


def _funnel(console: Console, comparison: Comparison) -> None:
    first, second = comparison.campaigns
    made = plain_table("the ladders: passed of done, core seconds", "rung", first, "", second, " ")
    for pair in comparison.rungs:
        names = [name for name in pair.rungs if name]
        label = names[0] if len(set(names)) == 1 else " / ".join(names)
        mark = "" if pair.same_calculation or None in pair.rungs else " (another calculation)"
        cells: list[str] = []
        for counts in pair.counts:
            if counts is None:
                cells += ["–", ""]
            else:
                cells += [f"{counts.passed} of {counts.done}", f"{counts.core_seconds:.1f} s"]
        made.add_row(label + mark, *cells)
    console.print(made)


def _hits(console: Console, comparison: Comparison) -> None:
    made = plain_table("hits at equal cost", "core seconds", *comparison.campaigns)
    for mark in comparison.hits_against_cost:
        cost = "in all" if mark.core_seconds is None else _number(mark.core_seconds)
        made.add_row(cost, *(str(n) for n in mark.hits))
    console.print(made)
    if any(counts.reused for counts in comparison.status):
        console.print("answers that were known before cost nothing, so costs of the later campaign are too low\n")


def _values(console: Console, comparison: Comparison) -> None:
    for compared in comparison.values:
        title = f"{compared.property}, as the deciding rung measured it"
        made = plain_table(title, "", "n", "lowest", "mean", "highest", "unit", "level")
        for name, spreads in zip(comparison.campaigns, compared.measured, strict=True):
            for spread in spreads:
                numbers = (f"{number:.4g}" for number in (spread.low, spread.mean, spread.high))
                made.add_row(name, str(spread.n), *numbers, "" if spread.unit == "1" else spread.unit, spread.level)
            if not spreads:
                made.add_row(name, "0", "–", "–", "–", "", "")
        console.print(made)
        if not compared.comparable:
            console.print("not by the same calculation: these numbers are not to be compared\n", highlight=False)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
