"""`sciagent compare NAME NAME`: compares two campaigns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from sciagent.api.terminal import Paragraph, Part, plain_table
from sciagent.cli import options
from sciagent.cli.shared import open_ledger, put_answer

if TYPE_CHECKING:
    from sciagent.domain.answers.comparison import Comparison

MAX_DIFFERENCES = 40


def compare(
    first: str = typer.Argument(help="A campaign."),
    second: str = typer.Argument(help="Another campaign, of the same ledger."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Compare two campaigns: their files, the funnel, the cost, hits at equal cost, and the candidates that both have.

    Values stand side by side only where the same calculation gave them.
    """
    from sciagent.campaign.people.comparing import compare as compared
    from sciagent.store.campaign_state import campaigns

    with open_ledger(ledger).read() as connection:
        comparison = compared(connection, campaigns.get(connection, first), campaigns.get(connection, second))
    parts = (_asked(comparison), _totals(comparison), [_funnel(comparison)], _hits(comparison), _values(comparison))
    put_answer(comparison, json, chain.from_iterable(parts))


def _asked(comparison: Comparison) -> Iterator[Part]:
    first, second = comparison.campaigns
    lines = comparison.differences
    yield Paragraph(f"{first} -> {second}", 0)
    yield from (Paragraph(line) for line in lines[:MAX_DIFFERENCES])
    if len(lines) > MAX_DIFFERENCES:
        yield Paragraph(f"and {len(lines) - MAX_DIFFERENCES} more; see --json")
    if not lines:
        yield Paragraph("nothing differs in what was asked")
    if not comparison.same_objectives:
        yield Paragraph("the objectives differ: a hit of either need not be a hit of the other")
    yield ""


def _totals(comparison: Comparison) -> Iterator[Part]:
    both, shared = comparison.status, comparison.overlap
    table = plain_table("what became of them", "", *comparison.campaigns)
    table.add_row("state", *(counts.state for counts in both))
    for name in ("proposals", "candidates", "hits"):
        table.add_row(name, *(str(getattr(counts, name)) for counts in both))
    table.add_row("answers reused, at no cost", *(str(counts.reused) for counts in both))
    for resource in dict.fromkeys(name for counts in both for name in counts.spent):
        table.add_row(resource.replace("_", " "), *(f"{counts.spent.get(resource, 0.0):.1f}" for counts in both))
    table.add_row("core seconds to the first hit", *map(_number, comparison.cost_of_first_hit))
    yield table
    yield f"{shared.both} candidates are in both; of the hits {shared.hits_of_both} are hits of both"
    yield from (Paragraph(hit.label) for hit in shared.shared_hits)
    yield ""


def _funnel(comparison: Comparison) -> Table:
    first, second = comparison.campaigns
    table = plain_table("the ladders: passed of done, core seconds", "rung", first, "", second, " ")
    for pair in comparison.rungs:
        label = " / ".join(dict.fromkeys(name for name in pair.rungs if name))
        mark = "" if pair.same_calculation or None in pair.rungs else " (another calculation)"
        cells: list[str] = []
        for counts in pair.counts:
            cells += [f"{counts.passed} of {counts.done}", f"{counts.core_seconds:.1f} s"] if counts else ["–", ""]
        table.add_row(label + mark, *cells)
    return table


def _hits(comparison: Comparison) -> Iterator[Part]:
    table = plain_table("hits at equal cost", "core seconds", *comparison.campaigns)
    for mark in comparison.hits_against_cost:
        table.add_row("in all" if mark.core_seconds is None else _number(mark.core_seconds), *map(str, mark.hits))
    yield table
    if any(counts.reused for counts in comparison.status):
        yield "answers that were known before cost nothing, so costs of the later campaign are too low\n"


def _values(comparison: Comparison) -> Iterator[Part]:
    for compared in comparison.values:
        title = f"{compared.property}, as the deciding rung measured it"
        table = plain_table(title, "", "n", "lowest", "mean", "highest", "unit", "level")
        for name, spreads in zip(comparison.campaigns, compared.measured, strict=True):
            for spread in spreads:
                numbers = (f"{number:.4g}" for number in (spread.low, spread.mean, spread.high))
                table.add_row(name, str(spread.n), *numbers, "" if spread.unit == "1" else spread.unit, spread.level)
            if not spreads:
                table.add_row(name, "0", "–", "–", "–", "", "")
        yield table
        if not compared.comparable:
            yield "not by the same calculation: these numbers are not to be compared\n"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
