"""The commands that answer about campaigns.

They are `sciagent status`, `best`, `explain`, `trace`, `verify`, `report` and `compare`. Each command stands above the
functions that write its answer as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from sciagent.api.terminal_tables_and_signals import Line, Part, on_terminal, plain_table, records_table
from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import (
    Exit,
    candidate_text,
    open_ledger,
    put,
    put_answer,
    put_json,
    say,
    say_upgraded,
    structure,
    wrapped,
)
from sciagent.domain.safe_text_and_durations import Paragraph
from sciagent.errors import UsageError

if TYPE_CHECKING:
    from sciagent.chemistry.subjects.base import Words
    from sciagent.domain.answers.status_and_comparison import CampaignCounts, Comparison, Status


MAX_SHOWN = 1500  # characters of a text; --json prints all


def status(
    name: options.CampaignName = None,
    verbose: bool = typer.Option(False, "--verbose", help="Show the state of the scheduler's model, too."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Show the state of a campaign: rungs, hits, cost and budget. Reads only; a running campaign is not disturbed."""
    from sciagent.api.open_ledger import pick_campaign
    from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
    from sciagent.report.status_best_trace import status as status_of

    with open_ledger(ledger).read() as connection:
        row = pick_campaign(connection, name)
        answer = status_of(connection, row)
    put_answer(answer, json, _parts(answer, subject_of(row.spec["subject"]).words, verbose))


def _parts(status: Status, words: Words, verbose: bool) -> Iterator[Part]:
    from sciagent.api.displayed_answers import budget_line, rung_table
    from sciagent.report.parts.wording import let_through_sentence

    yield rung_table(status)
    yield budget_line(status)
    for job in status.progress:
        yield Line(f"job {job.job}, {job.rung}, {job.candidate}: {job.words}")
    # filter: hits among what the law of a filter chose, and among what its audit let through
    if status.filter is not None:
        yield f"filter: {let_through_sentence(status.filter, status.hits_defined)}"
    # audit: the check of the scheduler on candidates that it passed over; guard: the state of its conformal guard
    if verbose and status.audit:
        yield f"audit: {status.audit.words}"
        yield f"conformal guard {status.audit.guard.words}"
    # value: of each rung, by the scheduler's law
    if verbose and status.value:
        yield f"law, as of its last fit: {status.value.words}"
    # how far each LLM judge agrees with the terminal rung
    yield from (judge.words for judge in status.opinions)
    yield from status.notes
    if status.trouble:
        yield Line(status.trouble, "bold red")
    if status.stop_reason:
        yield status.stop_reason
    yield Line(_driver(status, words))


def _driver(status: CampaignCounts, words: Words) -> str:
    """Returns a line on the driver of the campaign, with the command that continues the campaign if it has none."""
    name = status.campaign
    driver = status.driver
    state = status.state
    if driver and driver.alive:
        where = f"driven by process {driver.pid} on {driver.host}"
        if state == "paused":
            where += f"; go on with: sciagent resume {name}"
        return where
    if state in ("running", "paused"):
        host = f" on {driver.host} (process {driver.pid})" if driver else ""
        return f"its driver{host} died: nothing is running. Nothing is lost; go on with: sciagent resume {name}"
    if state == "created" and status.trouble:
        return f"sciagent resume {name} would start it all the same, by no list and with the rights of whoever types it"
    if state in ("created", "interrupted", "failed"):
        return f"go on with: sciagent resume {name}"
    if state == "waiting":
        from sciagent.api.displayed_answers import list_commands

        return f"what is to be measured: {list_commands(status)}; after an answer: sciagent resume {name}"
    return f"{_before_resume(status, words)}sciagent resume {name}"


def _before_resume(status: CampaignCounts, words: Words) -> str:
    """Returns the words before the command `sciagent resume NAME`, for a campaign that has ended."""
    from sciagent.domain.states_and_needs import NOT_PROMOTED, NOTHING_LEFT, CampaignState

    name = status.campaign
    if status.amended:
        return "it was amended since it ended; go on with: "
    if not (status.stop_reason or "").startswith(NOTHING_LEFT):
        keys = ["--goal-count NUMBER", "--budget KEY=NUMBER"]
        if status.state == CampaignState.BUDGET_SPENT:
            keys.reverse()
        command = f"sciagent amend {name} {keys[0]} --reason WHY"
        return f"to go on, raise what ended it ({command}), also {keys[1]} if that is reached, then: "
    to_add = f"add {words.many} (sciagent add {words.notation.upper()} --campaign {name} --reason WHY)"
    if not status.waiting:
        return f"to go on, {to_add}, then: "
    waiting = "1 candidate waits" if status.waiting == 1 else f"{status.waiting} candidates wait"
    if NOT_PROMOTED in (status.stop_reason or ""):
        to_raise = f"raise the budget (sciagent amend {name} --budget KEY=NUMBER --reason WHY)"
        return f"{waiting}; to go on, {to_raise} or {to_add}, then: "
    return f"{waiting}; go on with: "  # they came after the end


def best(
    name: options.CampaignName = None,
    n: int = typer.Option(10, "-n", min=1, max=10_000, help="How many."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """The best candidates: hits first, then what may still be one by its probability, then known misses."""
    from sciagent.api.best_table import best_of
    from sciagent.api.open_ledger import pick_campaign

    opened = open_ledger(ledger)
    with opened.read() as connection:
        candidates = best_of(connection, pick_campaign(connection, name), n)
    shown = candidates.table() if on_terminal() else candidates.plain_table()
    put_answer(candidates, json, [shown], *map(wrapped, candidates.notes()))


def explain(
    candidate: options.Candidate,
    campaign: options.Campaign = None,
    verbose: bool = typer.Option(
        False,
        "--verbose",
        help="Show all values, diagnostics, times, settings, versions, keys, files and the scheduler's numbers, too.",
    ),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Show a candidate: who proposed it, what each rung answered, the reason for its verdict, and its cost.

    If it waits in a priced campaign: its chance of a hit, whether it is worth its cost, and what would be run next. A
    text that was proposed and refused is explained, too.
    """
    from sciagent.report.explain_candidate import explain_named
    from sciagent.report.explanation_text import BRIEF, VERBOSE, paragraphs

    answer = explain_named(open_ledger(ledger), candidate_text(candidate), campaign)
    sections = VERBOSE if verbose else BRIEF
    notes = () if verbose else ("all values, diagnostics, times, settings and files: --verbose",)
    put_answer(answer, json, paragraphs(answer, sections), *notes)


def trace(
    campaign: str = typer.Argument(help="Name of a campaign of the ledger."),
    episode: int | None = typer.Argument(None, help="Its number; without, all episodes are listed."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """The episodes of a campaign's model: what it read, thought, called and saw, and what became of it."""
    from sciagent.report import status_best_trace
    from sciagent.store.campaign_state import campaigns

    with open_ledger(ledger).read() as connection:
        row = campaigns.get(connection, campaign)
        story = None if episode is None else status_best_trace.episode(connection, row, episode)
        listed = status_best_trace.listed_episodes(connection, row) if episode is None else ()
    if story is not None:
        put_answer(story, json, map(_cut, _episode(story)))
        return
    rows = []
    for listed_episode in listed:
        columns = {name: listed_episode[name] for name in ("proposer", "state", "turns", "new")}
        rows.append({"episode": listed_episode["number"], **columns, "ended": listed_episode["why"]})
    put_answer(listed, json, [records_table(rows)])


def _cut(paragraph: Paragraph) -> Paragraph:
    """Returns the paragraph with at most MAX_SHOWN characters of its text."""
    text = paragraph.text
    if len(text) > MAX_SHOWN:
        text = f"{text[:MAX_SHOWN]} … ({len(text)} characters)"
    return paragraph._replace(text=text)


def _episode(episode: Mapping[str, Any]) -> Iterator[Paragraph]:
    ended = f", {episode['why']}" if episode["why"] else ""
    title = f"{episode['campaign']}, episode {episode['number']} by {episode['proposer']}"
    yield Paragraph(f"{title}: {episode['state']}{ended}", depth=0)
    for message in episode["opening"]:
        yield Paragraph(message["role"], depth=0, style="dim")
        yield Paragraph(message["content"])
    for turn in episode["turns"]:
        message = turn["message"] or {}
        sampling = turn["sampling"] or {}
        tokens = ""
        if "output_tokens" in sampling:
            tokens = f", {sampling['output_tokens']} tokens in {sampling['seconds']:.1f} s"
        yield Paragraph("", depth=0)
        yield Paragraph(f"turn {turn['number']} ({turn['policy']}{tokens})", depth=0)
        for name, style in (("thinking", "italic dim"), ("content", "")):
            if message.get(name):
                yield Paragraph(message[name], style=style)
        for call in message.get("calls", ()):
            yield Paragraph(f"{call['name']} {call['arguments']}")
        for answer in turn["observations"]:
            text = str(answer.get("content") or answer.get("status") or "")
            yield Paragraph(text, style="cyan")
        for proposal in turn["proposals"]:
            yield Paragraph(_proposal(proposal), style="green" if proposal["hit"] else "dim")


def _proposal(proposal: Mapping[str, Any]) -> str:
    worth = "" if proposal["worth"] is None else f", {proposal['worth']}"
    if proposal["hit"]:
        became = "a hit"
    else:
        became = proposal["standing"] or proposal["reason"] or ""
    return f"{proposal['text']}: {proposal['status']}, {became}{worth}"


def verify(
    candidate: str = typer.Argument(help="The molecule as SMILES; a crystal as a file or prototype."),
    campaign: Path = typer.Option(..., "--campaign", "-c", help="The campaign whose ladder and limits count."),
    ledger: options.Ledger = None,
    no_safety: str | None = typer.Option(None, metavar="REASON", help="Leave the safety screen out, and say why."),
    json: options.Json = False,
) -> None:
    """Run a candidate up a campaign's ladder until a rung fails it. What is known is reused; what is new is kept.

    What the safety screen refuses goes no further. Both that and --no-safety are logged in the ledger.

    Exit codes: 0 it is a hit (it passes every gate and objective), 1 it fails, 4 that could not be decided.
    """
    from sciagent.api.campaign import Campaign

    opened = Campaign.from_yaml(campaign, ledger, enter=False)
    say_upgraded(opened.ledger.store)
    safety_note = opened.screened_spec(no_safety).safety_note
    if safety_note:
        say(safety_note)
    answer = opened.verify(structure(candidate), no_safety=no_safety)
    if json:
        put_json(answer)
    else:
        put(str(answer))
    exit_codes = {"pass": Exit.OK, "fail": Exit.FAILED}
    raise typer.Exit(exit_codes.get(answer.verdict, Exit.UNDECIDED))


def report(
    name: options.CampaignName = None,
    output: Path | None = typer.Option(None, "--output", "-o", help="An HTML file; default: NAME.report.html."),
    top: int = typer.Option(12, min=1, max=60, help="How many of the best get a card."),
    episodes: Path | None = typer.Option(None, help="A folder for a page of every episode; its index.html lists them."),
    open_it: bool = typer.Option(False, "--open", help="Show it in the browser."),
    ledger: options.Ledger = None,
    json: bool = typer.Option(False, "--json", help="Print the figures as data, and write no file."),
) -> None:
    """Write the report of a campaign as it stands; a running campaign is not disturbed. Prints the file's name.

    With --json it prints the curves instead: hits against each resource and time, and spending over time by rung.
    """
    from sciagent.api.campaign import Campaign
    from sciagent.report.page.html_page import checked_folder, write_episodes

    campaign = Campaign.open(name, open_ledger(ledger))
    if json:
        if output is not None or episodes is not None or open_it:
            raise UsageError("--json prints the figures and writes no file; leave out --output, --episodes and --open")
        put_json(campaign.figures().answer)
        return
    folder = None if episodes is None else checked_folder(episodes)
    target = campaign.report(output, top).path
    put(str(target))
    if folder is not None:
        write_episodes(campaign.ledger.store, campaign.name, folder)
        put(str(folder / "index.html"))
    if open_it:
        typer.launch(target.resolve().as_uri())


MAX_DIFFERENCES = 40  # differences that are printed


def compare(
    first: str = typer.Argument(help="A campaign."),
    second: str = typer.Argument(help="Another campaign, of the same ledger."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Compare two campaigns: their files, the funnel, the cost, hits at equal cost, and the candidates that both have.

    Values stand side by side only where the same calculation gave them.
    """
    from sciagent.report.compare_campaigns import compare as compared
    from sciagent.store.campaign_state import campaigns

    with open_ledger(ledger).read() as connection:
        comparison = compared(connection, campaigns.get(connection, first), campaigns.get(connection, second))
    parts = (
        _differences(comparison),
        _totals(comparison),
        [_funnel(comparison)],
        _hits(comparison),
        _values(comparison),
    )
    put_answer(comparison, json, chain.from_iterable(parts))


def _differences(comparison: Comparison) -> Iterator[Part]:
    first, second = comparison.campaigns
    lines = comparison.differences
    yield Paragraph(f"{first} -> {second}", depth=0)
    yield from (Paragraph(line) for line in lines[:MAX_DIFFERENCES])
    if len(lines) > MAX_DIFFERENCES:
        yield Paragraph(f"and {len(lines) - MAX_DIFFERENCES} more; see --json")
    if not lines:
        yield Paragraph("nothing differs in what was asked")
    if not comparison.same_objectives:
        yield Paragraph("the objectives differ: a hit of either need not be a hit of the other")
    yield ""


def _totals(comparison: Comparison) -> Iterator[Part]:
    both = comparison.status  # of the first and the second campaign
    shared = comparison.overlap
    table = plain_table("", *comparison.campaigns, title="what became of them")
    table.add_row("state", *(counts.state for counts in both))
    for name in ("proposals", "candidates"):
        table.add_row(name, *(str(getattr(counts, name)) for counts in both))
    table.add_row("hits", *(counts.hit_counts.text(str(counts.hits)) for counts in both))
    table.add_row("answers reused, at no cost", *(str(counts.reused) for counts in both))
    resources = dict.fromkeys([*both[0].spent, *both[1].spent])  # each once, in order
    for resource in resources:
        table.add_row(resource.replace("_", " "), *(f"{counts.spent.get(resource, 0.0):.1f}" for counts in both))
    table.add_row("core seconds to the first hit", *map(_number, comparison.cost_of_first_hit))
    yield table
    yield f"{shared.both} candidates are in both; of the hits {shared.hits_of_both} are hits of both"
    yield from (Paragraph(hit.label) for hit in shared.shared_hits)
    yield ""


def _funnel(comparison: Comparison) -> Table:
    first, second = comparison.campaigns
    # the core-seconds of each campaign stand beside its counts, in a column without a heading
    table = plain_table("rung", first, "", second, " ", title="the ladders: passed of done, core seconds")
    for pair in comparison.rungs:
        names = [name for name in pair.rungs if name]
        label = " / ".join(dict.fromkeys(names))  # one name if both rungs have the same
        is_in_both = None not in pair.rungs
        mark = " (another calculation)" if is_in_both and not pair.same_calculation else ""
        cells: list[str] = []
        for counts in pair.counts:
            if counts is None:
                cells += ["–", ""]
            else:
                cells += [f"{counts.passed} of {counts.done}", f"{counts.core_seconds:.1f} s"]
        table.add_row(label + mark, *cells)
    return table


def _hits(comparison: Comparison) -> Iterator[Part]:
    table = plain_table("core seconds", *comparison.campaigns, title="hits at equal cost")
    for mark in comparison.hits_against_cost:
        cells = [str(n) for n in mark.hits]
        if mark.core_seconds is None:
            cells = [counts.hit_counts.text(str(counts.hits)) for counts in comparison.status]
        table.add_row("in all" if mark.core_seconds is None else _number(mark.core_seconds), *cells)
    yield table
    if any(counts.reused for counts in comparison.status):
        yield "answers that were known before cost nothing, so costs of the later campaign are too low\n"


def _values(comparison: Comparison) -> Iterator[Part]:
    for compared in comparison.values:
        title = f"{compared.property}, as the deciding rung measured it"
        table = plain_table("", "n", "lowest", "mean", "highest", "unit", "level", title=title)
        for name, spreads in zip(comparison.campaigns, compared.measured, strict=True):
            for spread in spreads:
                numbers = (f"{number:.4g}" for number in (spread.low, spread.mean, spread.high))
                unit = "" if spread.unit == "1" else spread.unit  # 1: the value has no unit
                table.add_row(name, str(spread.n), *numbers, unit, spread.level)
            if not spreads:
                table.add_row(name, "0", "–", "–", "–", "", "")
        yield table
        measured_by_both = all(compared.measured)
        if measured_by_both and not compared.comparable:
            yield "not by the same calculation: these numbers are not to be compared\n"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
