"""Tables and indented lines as commands print them."""

from __future__ import annotations

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


def print_indented(console: Console, text: str, spaces: int = 2, bold: bool = False) -> None:
    """A paragraph, wrapped to the terminal under its own indent."""
    line = Text(text, style="bold" if bold else "", overflow="fold")
    console.print(Padding(line, (0, 0, 0, spaces), expand=False), highlight=False)
