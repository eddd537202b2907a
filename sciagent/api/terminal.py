"""Tables and indented paragraphs for terminals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

Records = Sequence[Mapping[str, Any]]
"""Rows of a table: cells by column."""


def plain_table(title: str, *columns: str, left: Iterable[str] = ()) -> Table:
    """Returns an empty table for narrow terminals. left: columns of text besides the first; all others are numbers."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place == 0 or name in left else "right", overflow="fold")
    return table


def records_table(records: Records, title: str) -> Table:
    """Returns a table of records, with numbers aligned right and without empty columns."""
    columns = columns_of(records)
    table = plain_table(title, *columns, left=[name for name in columns if not is_number(records, name)])
    for record in records:
        cells = (record.get(name) for name in columns)
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell_text(cell)) for cell in cells))
    return table


def columns_of(records: Records) -> list[str]:
    """Returns the columns of the records, in order of first appearance, without empty columns."""
    names = dict.fromkeys(name for record in records for name in record)
    return [name for name in names if any(record.get(name) not in (None, "") for record in records)]


def is_number(records: Records, name: str) -> bool:
    """Returns whether a column holds numbers or measured values."""
    cells = [record[name] for record in records if record.get(name) is not None]
    return bool(cells) and all(not isinstance(cell, str | bool | datetime | Text) for cell in cells)


def cell_text(value: object) -> str:
    """Returns a cell as text: a number with four digits, None and NaN as an empty text."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    text = str(value)
    return f"{text[:12]}…" if len(text) == 64 and text.isalnum() else text


class Paragraph(NamedTuple):
    """A paragraph that is wrapped and indented; an empty paragraph is an empty line."""

    text: str
    depth: int = 1
    """Level of indentation, two spaces each; paragraphs of depth 0 are headings."""
    style: str = ""


class Line(NamedTuple):
    """A line that is never wrapped, such as a command that a person copies."""

    text: str
    style: str = ""


Part = RenderableType | Paragraph | Line
"""A part of the output: a text (wrapped), a table, a paragraph or a line."""


def show(*parts: Part, console: Console | None = None) -> None:
    """Prints the parts without interpreting markup or colouring numbers. console: by default stdout."""
    console = console or Console()
    for part in parts:
        if isinstance(part, Paragraph):
            text = Text(part.text, style=part.style or ("" if part.depth else "bold"), overflow="fold")
            console.print(Padding(text, (0, 0, 0, 2 * part.depth), expand=False), highlight=False)
        elif isinstance(part, Line):
            console.print(part.text, style=part.style, highlight=False, markup=False, emoji=False, soft_wrap=True)
        else:
            console.print(part, highlight=False, markup=False, emoji=False)


def text_of(*parts: Part) -> str:
    """Returns the output of `show` as plain text."""
    console = Console(highlight=False, force_jupyter=False, color_system=None)
    with console.capture() as capture:
        show(*parts, console=console)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).strip("\n")
