"""`sciagent plan FILE`: estimates what the budget will buy, before the campaign starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sciagent.api.terminal import Line, Paragraph, Part, plain_table
from sciagent.cli import options
from sciagent.cli.shared import open_ledger, put_answer
from sciagent.inputs.settings import ledger_address

if TYPE_CHECKING:
    from sciagent.domain.answers.plan import Plan, PlannedRung
    from sciagent.store.database.ledger import Ledger


def plan(
    file: Path = typer.Argument(help="The campaign, a YAML file."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Predict what the budget of a campaign will buy and which rungs look worthless, with the uncertainty of both.

    Nothing is started or written. A ledger is not needed; an existing ledger teaches what rungs cost and tell.
    """
    from sciagent.campaign.core.libraries import left_out
    from sciagent.campaign.planning.plan import plan as planned
    from sciagent.campaign.spec.load import load_spec

    spec = load_spec(file)
    answer = planned(spec, _ledger(ledger))
    title = Line(f"{answer.campaign}: what its budget is likely to buy", "bold")
    assumed = [Paragraph("Assumed", 0), *map(Paragraph, answer.assumptions)]
    put_answer(
        answer,
        json,
        [
            title,
            "",
            *_rungs(answer),
            *_cases(answer),
            *answer.sentences,
            *answer.calibrations,
            *left_out(spec),
            "",
            *assumed,
        ],
    )


def _ledger(url: str | None) -> Ledger | None:
    """Returns the ledger, or None if the default ledger does not exist. Raises UsageError for a missing named one."""
    from sciagent.store.database.engine import ledger_url

    location = ledger_url(ledger_address(url))
    if url is None and location.get_backend_name() == "sqlite" and not Path(str(location.database)).exists():
        return None
    return open_ledger(url)


def _rungs(plan: Plan) -> Iterator[Part]:
    title = "the rungs (core seconds: median and 90 % of the sample)"
    table = plain_table(title, "rung", "core s", "correlation", "from", "hits it brings", "verdict")
    for rung in plan.rungs:
        table.add_row(*_cells(rung))
    yield table
    for rung in plan.rungs:
        for line in _remarks(rung, plan.sample.molecules):
            yield Paragraph(f"{rung.rung}{line}")
    yield ""


def _cells(rung: PlannedRung) -> tuple[str, ...]:
    """Returns a row of the table of rungs."""
    from sciagent.campaign.planning.wording import brings

    cost = rung.costs.get("core_seconds")
    amount = "–" if cost is None else f"{cost.median:.3g}–{cost.p90:.3g}"
    if rung.is_terminal:
        return rung.rung, amount, "", "", "", "decides"
    tells = [tell for tell in rung.tells if tell.kind != "nothing"]
    ranges = "\n".join("1" if tell.kind == "decides" else f"{tell.low:.2f}–{tell.high:.2f}" for tell in tells)
    kinds = "\n".join(tell.kind for tell in tells)
    return rung.rung, amount, ranges, kinds, brings(rung.delta) or "–", rung.verdict or ""


def _remarks(rung: PlannedRung, molecules: int) -> Iterator[str]:
    """Yields the remarks below the table, each to follow the rung's label. molecules: size of the sample."""
    for tell in rung.tells:
        yield f", of {tell.property}: {tell.kind}: {tell.why}"
    if rung.cost_ratio is not None:
        yield f": costs are {rung.cost_ratio:.2g} of what is declared, as learnt"
    if rung.refuses:
        yield f": refuses {rung.refuses} of {molecules} candidates"


def _cases(plan: Plan) -> Iterator[Part]:
    labels = [rung.rung for rung in plan.rungs if any(rung.rung in (case.runs or ()) for case in plan.cases)]
    if not labels:
        return
    table = plain_table(
        "what is bought, by the share of candidates that are hits",
        "hits among candidates",
        *(f"{label}, runs" for label in labels),
        "hits",
        "low–high",
        f"{labels[-1]} alone",
    )
    for case in plan.cases:
        if case.runs is not None:
            table.add_row(
                f"{100 * case.hit_rate:.3g} %" + (" (learnt)" if case.hit_rate_is == "learnt" else ""),
                *(_number(case.runs[label]) for label in labels),
                _number(case.hits.middle),
                f"{_number(case.hits.low)}–{_number(case.hits.high)}",
                _number(case.terminal_alone),
            )
    yield table
    yield ""


def _number(n: float | None) -> str:
    return "–" if n is None else f"{n:.2g}" if n < 10 else f"{n:.0f}"
