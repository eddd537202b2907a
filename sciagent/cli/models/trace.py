"""`sciagent trace CAMPAIGN [EPISODE]`: what a model was told, thought, called and saw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from sciagent.cli.shared.common import JsonOption, LedgerOption, open_ledger, put_json

MAX_SHOWN = 1500  # characters of one text; --json has all


def register(app: typer.Typer) -> None:
    app.command("trace", epilog="Example: sciagent trace quickstart_llm 1")(trace)


def trace(
    campaign: Annotated[str, typer.Argument(help="Name of a campaign of the ledger.")],
    episode: Annotated[int | None, typer.Argument(help="Its number; without, all episodes are listed.")] = None,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """The episodes of a campaign's model: what it was told, thought, called and saw, and what became of it."""
    from sciagent.report.answers import episodes
    from sciagent.store.campaign_state import campaigns

    with open_ledger(ledger).read() as connection:
        row = campaigns.get(connection, campaign)
        found: Any = episodes.listed(connection, row) if episode is None else episodes.episode(connection, row, episode)
    if json:
        put_json(found)
    elif episode is None:
        _list(found)
    else:
        _show(found)


def _list(found: list[Mapping[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("episode", "proposer", "state", "turns", "new", "ended"):
        table.add_column(name, justify="right" if name in ("episode", "turns", "new") else "left")
    for one in found:
        table.add_row(
            str(one["number"]), one["proposer"], one["state"], str(one["turns"]), str(one["new"]), one["why"] or ""
        )
    Console().print(table)


def _show(found: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console()
    for text, depth, style in _lines(found):
        shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]} … ({len(text)} characters)"
        console.print(Padding(Text(shown, style=style, overflow="fold"), (0, 0, 0, 2 * depth)), highlight=False)


def _lines(found: Mapping[str, Any]) -> Iterator[tuple[str, int, str]]:
    """(text, depth, style) of each paragraph."""
    ended = f", {found['why']}" if found["why"] else ""
    yield f"{found['campaign']}, episode {found['number']} by {found['proposer']}: {found['state']}{ended}", 0, "bold"
    for one in found["opening"]:
        yield one["role"], 0, "dim"
        yield one["content"], 1, ""
    for turn in found["turns"]:
        yield from _turn(turn)


def _turn(turn: Mapping[str, Any]) -> Iterator[tuple[str, int, str]]:
    message, used = turn["message"] or {}, turn["sampling"] or {}
    tokens = f", {used['output_tokens']} tokens in {used['seconds']:.1f} s" if "output_tokens" in used else ""
    yield "", 0, ""
    yield f"turn {turn['number']} ({turn['policy']}{tokens})", 0, "bold"
    for name, style in (("thinking", "italic dim"), ("content", "")):
        if message.get(name):
            yield message[name], 1, style
    for call in message.get("calls", ()):
        yield f"{call['name']} {call['arguments']}", 1, ""
    for seen in turn["observations"]:
        yield str(seen.get("content") or seen.get("status") or ""), 1, "cyan"
    for proposal in turn["proposals"]:
        yield _proposal(proposal), 1, "green" if proposal["hit"] else "dim"


def _proposal(proposal: Mapping[str, Any]) -> str:
    score = "" if proposal["score"] is None else f", score {proposal['score']:.2f}"
    became = "a hit" if proposal["hit"] else proposal["standing"] or proposal["reason"] or ""
    return f"{proposal['text']}: {proposal['status']}, {became}{score}"
