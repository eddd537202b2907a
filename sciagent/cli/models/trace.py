"""`sciagent trace CAMPAIGN [EPISODE]`: shows the episodes of a model: messages, calls and observations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from rich.table import Table

from sciagent.api.terminal import Paragraph, records_table, show
from sciagent.cli.shared import options
from sciagent.cli.shared.common import open_ledger, put_json

MAX_SHOWN = 1500  # characters of a text; --json prints all


def trace(
    campaign: Annotated[str, typer.Argument(help="Name of a campaign of the ledger.")],
    episode: Annotated[int | None, typer.Argument(help="Its number; without, all episodes are listed.")] = None,
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """The episodes of a campaign's model: what it read, thought, called and saw, and what became of it."""
    from sciagent.report import answers
    from sciagent.store.campaign_state import campaigns

    with open_ledger(ledger).read() as connection:
        row = campaigns.get(connection, campaign)
        answer: Any = (
            answers.listed_episodes(connection, row) if episode is None else answers.episode(connection, row, episode)
        )
    if json:
        put_json(answer)
        return
    show(_table(answer)) if episode is None else show(*map(_cut, _paragraphs(answer)))


def _cut(paragraph: Paragraph) -> Paragraph:
    text = paragraph.text
    if len(text) > MAX_SHOWN:
        text = f"{text[:MAX_SHOWN]} … ({len(text)} characters)"
    return paragraph._replace(text=text)


def _table(episodes: list[Mapping[str, Any]]) -> Table:
    columns = {"number": "episode", "proposer": "proposer", "state": "state", "turns": "turns", "new": "new"}
    columns["why"] = "ended"
    return records_table([{head: episode[name] for name, head in columns.items()} for episode in episodes], "")


def _paragraphs(episode: Mapping[str, Any]) -> Iterator[Paragraph]:
    ended = f", {episode['why']}" if episode["why"] else ""
    yield Paragraph(
        f"{episode['campaign']}, episode {episode['number']} by {episode['proposer']}: {episode['state']}{ended}", 0
    )
    for message in episode["opening"]:
        yield Paragraph(message["role"], 0, "dim")
        yield Paragraph(message["content"])
    for turn in episode["turns"]:
        message, used = turn["message"] or {}, turn["sampling"] or {}
        tokens = f", {used['output_tokens']} tokens in {used['seconds']:.1f} s" if "output_tokens" in used else ""
        yield Paragraph("", 0)
        yield Paragraph(f"turn {turn['number']} ({turn['policy']}{tokens})", 0)
        for name, style in (("thinking", "italic dim"), ("content", "")):
            if message.get(name):
                yield Paragraph(message[name], 1, style)
        for call in message.get("calls", ()):
            yield Paragraph(f"{call['name']} {call['arguments']}")
        for answer in turn["observations"]:
            yield Paragraph(str(answer.get("content") or answer.get("status") or ""), 1, "cyan")
        for proposal in turn["proposals"]:
            yield Paragraph(_proposal(proposal), 1, "green" if proposal["hit"] else "dim")


def _proposal(proposal: Mapping[str, Any]) -> str:
    score = "" if proposal["score"] is None else f", score {proposal['score']:.2f}"
    became = "a hit" if proposal["hit"] else proposal["standing"] or proposal["reason"] or ""
    return f"{proposal['text']}: {proposal['status']}, {became}{score}"
