"""Writes the report file, which is rewritten while the campaign runs, and the pages of the episodes."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from sciagent.errors import UsageError
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import episodes

SECONDS = 30.0  # shortest time between two reports
SHARE = 0.03  # largest share of the time for writing reports


def write_report(ledger: Ledger, name: str, path: Path, top: int | None = None) -> None:
    """Writes the report of the campaign in its current state. Raises UnknownNameError."""
    from sciagent.report.page.build import page
    from sciagent.report.parts.candidates import CARDS

    with ledger.read() as connection:
        text = page(connection, campaigns.get(connection, name), ledger.artifacts, top or CARDS)
    replace_text(path, text)


def replace_text(path: Path, text: str) -> None:
    """Replaces the file atomically: readers see the old or the new text, and concurrent writers do not mix."""
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        Path(part).chmod(0o666 & ~umask)
        Path(part).replace(path)
    except BaseException:  # an interrupt, too, must leave no partial file
        Path(part).unlink(missing_ok=True)
        raise


def checked(path: Path) -> Path:
    """Returns the path. Raises UsageError if a report cannot be written there."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f'{path}: the report is an HTML file; give a name that ends in ".html"')
    if not path.parent.is_dir():
        raise UsageError(f"{path}: the folder {path.parent} does not exist")
    if path.is_dir():
        raise UsageError(f"{path} is a folder")
    return path


def checked_folder(folder: Path) -> Path:
    """Returns the folder. Raises UsageError if pages cannot be written there."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder for the pages of the episodes")
    if not folder.parent.is_dir():
        raise UsageError(f"{folder}: the folder {folder.parent} does not exist")
    return folder


def write_episodes(ledger: Ledger, name: str, folder: Path) -> int:
    """Writes a page per episode and a list that links to them. Returns the number of episodes. Raises UnknownNameError
    if there is no such campaign. At most one episode is in memory."""
    from sciagent.report.page.build import environment
    from sciagent.report.page.episodes import every

    def write(file: str, template: str, **more: Any) -> None:
        replace_text(folder / file, environment().get_template(template).render(campaign=name, **more))

    with ledger.read() as connection:
        row = campaigns.get(connection, name)
        number = episodes.count(connection, row)
        files = ["", *(f"{n:04d}.html" for n in range(1, number + 1)), ""]
        folder.mkdir(exist_ok=True)
        lines = []
        for n, episode in enumerate(every(connection, row), start=1):
            write(files[n], "episode_page.html.j2", shown=episode, before=files[n - 1], after=files[n + 1])
            lines.append((files[n], episode._replace(turns=[]), episode.tokens, episode.seconds))
        write("index.html", "episode_list.html.j2", lines=lines)
    return len(lines)


class GrowingReport:
    """Rewrites the report in its own thread while a campaign runs, and once more at its end.

    `step` returns at once. A report that cannot be written does not stop the campaign; `fault` holds the reason.
    """

    def __init__(self, ledger: Ledger, name: str, path: Path, seconds: float = SECONDS) -> None:
        self._ledger, self._name, self.path, self._seconds = ledger, name, path, seconds
        self._thread: threading.Thread | None = None
        self._due = time.monotonic() + seconds
        self.fault: str | None = None

    def step(self) -> None:
        if time.monotonic() < self._due or (self._thread is not None and self._thread.is_alive()):
            return
        self._due = float("inf")  # until this report is written
        self._thread = threading.Thread(target=self._write, name="report", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Writes the report of the campaign's final state, and returns when it is written."""
        if self._thread is not None:
            self._thread.join()
        self._write()

    def _write(self) -> None:
        begun = time.monotonic()
        try:
            write_report(self._ledger, self._name, self.path)
            self.fault = None
        except Exception as error:  # noqa: BLE001 - the campaign matters more than its report
            self.fault = f"{type(error).__name__}: {error}"
        self._due = time.monotonic() + max(self._seconds, (time.monotonic() - begun) / SHARE)
