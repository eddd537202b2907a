"""`sciagent status | best | explain | verify | report`: the answers of a campaign or its ladder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sciagent.api.terminal import Line, Part, show
from sciagent.cli.shared import options
from sciagent.cli.shared.common import Exit, open_ledger, put, put_json, say, say_upgraded

if TYPE_CHECKING:
    from sciagent.domain.answers.status import CampaignCounts, Status


def status(name: options.CampaignName = None, ledger: options.Ledger = None, json: options.Json = False) -> None:
    """Show the state of a campaign: rungs, hits, cost and budget. Reads only; a running campaign is not disturbed."""
    from sciagent.api.answers import budget_line, rung_table
    from sciagent.api.campaign import Campaign

    answer = Campaign.open(name, open_ledger(ledger)).status()
    if json:
        put_json(answer)
        return
    parts: list[Part] = [rung_table(answer), budget_line(answer), *_findings(answer)]
    if answer.trouble:
        parts.append(Line(answer.trouble, "bold red"))
    if answer.stop_reason:
        parts.append(answer.stop_reason)
    show(*parts, Line(_driver(answer)))


def _findings(status: Status) -> Iterator[str]:
    """Yields a line each on the audit, the conformal guard, the law and the judges."""
    if status.audit:
        yield f"audit: {status.audit.words}"
        yield f"conformal guard {status.audit.guard.words}"
    if status.value:
        yield f"law, as of its last fit: {status.value.words}"
    yield from (judge.words for judge in status.opinions)


def _driver(status: CampaignCounts) -> str:
    """Returns a line on the driver of the campaign, with the command that continues the campaign if it has none."""
    name, driver, state = status.campaign, status.driver, status.state
    if driver and driver.alive:
        where = f"driven by process {driver.pid} on {driver.host}"
        return f"{where}; go on with: sciagent resume {name}" if state == "paused" else where
    if state in ("running", "paused"):
        host = f" on {driver.host} (process {driver.pid})" if driver else ""
        return f"its driver{host} died: nothing is running. Nothing is lost; go on with: sciagent resume {name}"
    if state in ("created", "interrupted", "failed"):
        return f"go on with: sciagent resume {name}"
    return f"to go on, raise what ended it (sciagent amend {name}), then: sciagent resume {name}"


def best(
    name: options.CampaignName = None,
    n: Annotated[int, typer.Option("-n", min=1, max=10_000, help="How many.")] = 10,
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """The best candidates: hits first, then by the highest rung reached and the score there."""
    from sciagent.api.campaign import Campaign

    candidates = Campaign.open(name, open_ledger(ledger)).best(n)
    if json:
        put_json(candidates)
        return
    imported = [(candidate.smiles, value) for candidate in candidates for value in candidate.imported]
    lines = [Line(f"  {smiles}: {value.line()} from {value.file}") for smiles, value in imported]
    show(candidates.table(), *(["values from files:"] if lines else []), *lines)


def explain(
    candidate: options.Candidate,
    campaign: options.Campaign = None,
    full: Annotated[bool, typer.Option("--full", help="Settings, engine versions, keys and files too.")] = False,
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Show a candidate: who proposed it, what each rung answered, the reason for its verdict, and its cost.

    If it waits in a priced campaign: its value, its chance of a hit, its index against the price, and what would be
    bought next. A text that was proposed and refused is explained, too.
    """
    from sciagent.api.explanation_text import paragraphs
    from sciagent.campaign.people.explaining import explain_named

    answer = explain_named(open_ledger(ledger), candidate, campaign)
    if json:
        put_json(answer)
        return
    show(*paragraphs(answer, full))


def verify(
    smiles: Annotated[str, typer.Argument(help="The molecule as SMILES.")],
    campaign: Annotated[Path, typer.Option("--campaign", "-c", help="The campaign whose ladder and limits count.")],
    ledger: options.Ledger = None,
    no_safety: Annotated[
        str | None, typer.Option("--no-safety", metavar="REASON", help="Leave the safety screen out, and say why.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Run a molecule up a campaign's ladder until a rung fails it. What is known is reused; what is new is kept.

    What the safety screen refuses goes no further. Both that and --no-safety are logged in the ledger.

    Exit codes: 0 it is a hit (it passes every gate and objective), 1 it fails, 4 that could not be decided.
    """
    from sciagent.api.campaign import Campaign

    ladder = Campaign.from_yaml(campaign, ledger, enter=False)
    say_upgraded(ladder.ledger.store)
    if unusual := ladder.safety_note(no_safety):
        say(unusual)
    answer = ladder.verify(smiles, no_safety=no_safety)
    put_json(answer) if json else put(str(answer))
    codes = {"pass": Exit.OK, "fail": Exit.FAILED}
    raise typer.Exit(codes.get(answer.verdict, Exit.UNDECIDED))


def report(
    name: options.CampaignName = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="An HTML file; default: NAME.report.html.")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, max=60, help="How many of the best get a card.")] = 12,
    episodes: Annotated[
        Path | None,
        typer.Option("--episodes", help="A folder for a page of every episode, besides; its index.html lists them."),
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
    ledger: options.Ledger = None,
) -> None:
    """Write the report of a campaign as it stands; a running campaign is not disturbed. Prints the file's name."""
    from sciagent.api.campaign import Campaign
    from sciagent.report.page.writer import checked_folder, write_episodes

    campaign = Campaign.open(name, open_ledger(ledger))
    folder = None if episodes is None else checked_folder(episodes)
    target = campaign.report(output, top).path
    put(str(target))
    if folder is not None:
        write_episodes(campaign.ledger.store, campaign.name, folder)
        put(str(folder / "index.html"))
    if open_it:
        typer.launch(target.resolve().as_uri())
