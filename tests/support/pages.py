"""The page of a report, read as a browser would read it: elements, texts and scripts."""

from __future__ import annotations

from html.parser import HTMLParser

from sciagent.report.page.html_page import page
from tests.support.reported import Maker


class Parsed(HTMLParser):
    """Elements with their attributes, text by element, scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self._script: dict[str, str | None] | None = None
        self._style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._style = tag == "style"
        if tag == "script":
            self._script = dict(attrs)
            self.scripts.append((self._script, ""))

    def handle_endtag(self, tag: str) -> None:
        self._script, self._style = None, False

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.scripts[-1] = (self._script, self.scripts[-1][1] + data)
        elif not self._style:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def rendered(made: Maker) -> str:
    with made.ledger.read() as connection:
        return page(connection, made.row, made.ledger.artifacts)
