"""Tables and indented lines as commands print them."""

from __future__ import annotations

from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text


def plain_table(title: str, *columns: str) -> Table:
    """The first column is text, all others are numbers."""
    made = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(columns):
        made.add_column(name, justify="left" if place == 0 else "right", overflow="fold")
    return made


class Paragraph(NamedTuple):
    """A paragraph of a longer text; an empty one is an empty line."""

    text: str
    depth: int = 1
    """Two spaces each; paragraphs of depth 0 are headings."""
    bold: bool = False


def print_paragraph(console: Console, paragraph: Paragraph) -> None:
    """Wrapped to the terminal under its own indent."""
    if paragraph.text:
        bold = paragraph.bold or paragraph.depth == 0
        line = Text(paragraph.text, style="bold" if bold else "", overflow="fold")
        console.print(Padding(line, (0, 0, 0, 2 * paragraph.depth), expand=False), highlight=False)
    else:
        console.print()
