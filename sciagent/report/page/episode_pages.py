"""All episodes of a campaign as HTML pages: one page per episode, and a list that links to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sciagent.errors import UsageError
from sciagent.report.page.build import environment
from sciagent.report.page.episodes import every
from sciagent.report.page.writer import replace_text
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import report_episodes


def checked(folder: Path) -> Path:
    """Returns the folder. Raises UsageError if pages cannot be written there."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder for the pages of the episodes")
    if not folder.parent.is_dir():
        raise UsageError(f"{folder}: the folder {folder.parent} does not exist")
    return folder


def write_episodes(ledger: Ledger, name: str, folder: Path) -> int:
    """Writes one page per episode, overwriting earlier pages. Returns the number of episodes. Raises UnknownNameError
    if there is no such campaign. At most one episode is in memory."""
    with ledger.read() as connection:
        row = campaigns.get(connection, name)
        number = report_episodes.count(connection, row)
        folder.mkdir(exist_ok=True)
        lines = []
        for n, episode in enumerate(every(connection, row), start=1):
            links = {"before": _file(n - 1) if n > 1 else "", "after": _file(n + 1) if n < number else ""}
            _write(folder / _file(n), "episode_page.html.j2", name, shown=episode, **links)
            lines.append((_file(n), episode._replace(turns=[]), episode.tokens, episode.seconds))
        _write(folder / "index.html", "episode_list.html.j2", name, lines=lines)
    return len(lines)


def _file(n: int) -> str:
    return f"{n:04d}.html"


def _write(path: Path, template: str, name: str, **more: Any) -> None:
    replace_text(path, environment().get_template(template).render(campaign=name, **more))
