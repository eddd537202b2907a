"""All episodes of a campaign as HTML pages: one page per episode, and lists of fifty that link to them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from sciagent import __version__
from sciagent.errors import UsageError
from sciagent.report.page.build import asset, environment, policy
from sciagent.report.page.viewer import ShownEpisode, every
from sciagent.report.page.writer import replace_text
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import report_episodes

LISTED = 50  # episodes on each list


class EpisodeLine(NamedTuple):
    """An episode's row in a list."""

    file: str
    number: int
    proposer: str
    state: str
    why: str
    turns: int
    new: int
    hits: int
    tokens: int
    seconds: float


def checked(folder: Path) -> Path:
    """The folder, checked before anything is computed. Raises UsageError if pages cannot be written there."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder for the pages of the episodes")
    if not folder.parent.is_dir():
        raise UsageError(f"{folder}: the folder {folder.parent} does not exist")
    return folder


def write_episodes(ledger: Ledger, name: str, folder: Path) -> int:
    """Write one page per episode, overwriting earlier pages; returns the number of episodes. Raises UnknownNameError if
    there is no such campaign. At most one episode and the rows of one list are in memory.
    """
    with ledger.read() as connection:
        row = campaigns.get(connection, name)
        there = report_episodes.count(connection, row)
        folder.mkdir(exist_ok=True)
        lists = max(1, -(-there // LISTED))
        lines: list[EpisodeLine] = []
        written, before, n = 0, "", 0
        for episode in every(connection, row):
            n += 1
            place = (n - 1) // LISTED
            if lines and len(lines) == LISTED:
                _write_list(folder, row.name, lines, written, lists, there)
                written, lines = written + 1, []
            more = {"list": _list_file(place), "before": before, "after": _file(n + 1) if n < there else ""}
            _write(folder / _file(n), "episode_page.html.j2", row.name, {"one": episode} | more)
            before = _file(n)
            lines.append(_line(episode, before))
        _write_list(folder, row.name, lines, written, lists, there)
    return n


def _file(n: int) -> str:
    return f"{n:04d}.html"


def _list_file(place: int) -> str:
    return "index.html" if place == 0 else f"index-{place + 1}.html"


def _line(episode: ShownEpisode, file: str) -> EpisodeLine:
    return EpisodeLine(
        file,
        episode.number,
        episode.begun.proposer,
        episode.begun.state,
        episode.why,
        episode.outcome.turns,
        episode.outcome.new,
        episode.outcome.hits,
        episode.tokens,
        episode.seconds,
    )


def _write_list(folder: Path, name: str, lines: list[EpisodeLine], place: int, lists: int, there: int) -> None:
    more = {
        "lines": lines,
        "place": place,
        "lists": lists,
        "there": there,
        "files": [_list_file(i) for i in range(lists)],
    }
    _write(folder / _list_file(place), "episode_list.html.j2", name, more)


def _write(path: Path, template: str, name: str, more: Mapping[str, Any]) -> None:
    fixed = {
        "campaign": name,
        "style": asset("report.css"),
        "policy": policy(()),
        "version": __version__,
        "now": datetime.now(UTC),
    }
    replace_text(path, environment().get_template(template).render(**fixed, **more))
