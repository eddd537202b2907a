"""Shows answers in a terminal: tables, paragraphs, and the answer to Ctrl-C.

A structure is never broken: its column is the last of a table and is not wrapped. Where output is no terminal, a table
is tab-separated text with a header, and each paragraph is one line.

Ctrl-C, an interrupted notebook cell and SIGTERM end a campaign that runs in this process in steps.
"""

from __future__ import annotations

import math
import re
import signal
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import chain
from types import FrameType
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from sciagent.domain.text import Paragraph

Records = Sequence[Mapping[str, Any]]
"""Rows of a table: cells by column."""

STRUCTURES = ("smiles", "structure", "candidate")
"""Columns with structures."""


def plain_table(title: str, *columns: str, left: Iterable[str] = ()) -> Table:
    """Returns an empty table for narrow terminals. left: columns of text besides the first; all others are numbers."""
    table = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(columns):
        justify: JustifyMethod = "left" if place == 0 or name in left or name in STRUCTURES else "right"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name in STRUCTURES)
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
    """Returns the columns of the records without empty ones: in order of first appearance, but structures last."""
    names = dict.fromkeys(chain.from_iterable(records))
    filled = [name for name in names if any(record.get(name) not in (None, "") for record in records)]
    return sorted(filled, key=STRUCTURES.__contains__)


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


class Line(NamedTuple):
    """A line that is never wrapped, such as a command that a person copies."""

    text: str
    style: str = ""


Part = RenderableType | Paragraph | Line
"""A part of the output: a text (wrapped), a table, a paragraph or a line."""


def show(*parts: Part, console: Console | None = None, drawn: bool | None = None) -> None:
    """Prints the parts without interpreting markup or colouring numbers.

    console: by default stdout. drawn: whether tables are drawn and paragraphs wrapped; by default, only on a terminal.
    """
    console = console or Console()
    drawn = console.is_terminal if drawn is None else drawn
    for part in parts:
        if isinstance(part, Table) and drawn:
            part.width = _width(part, console)
            console.print(part, highlight=False, markup=False, emoji=False, crop=False)
        elif isinstance(part, Table):
            lines = tab_separated(part, titled=len(parts) > 1)
            console.file.writelines(f"{line}\n" for line in lines)
        elif isinstance(part, str | Paragraph | Line):
            text, style = _text_of(part, console.width if drawn else None)
            console.print(Text(text, style=style), highlight=False, soft_wrap=True)
        else:
            console.print(part, highlight=False, markup=False, emoji=False)


def on_terminal() -> bool:
    """Returns whether stdout is a terminal, where tables are drawn."""
    return Console().is_terminal


def tab_separated(table: Table, titled: bool = False) -> Iterator[str]:
    """Yields the lines of a table as tab-separated text: its title if asked for, the header, the rows."""
    if titled and table.title:
        yield _cell(table.title)
    for cells in zip(*([column.header, *column.cells] for column in table.columns), strict=True):
        yield "\t".join(map(_cell, cells))


def _cell(cell: RenderableType) -> str:
    return " ".join("; ".join(str(cell).split("\n")).split())


def _width(table: Table, console: Console) -> int | None:
    """Returns the width in which a table with structures too long for the terminal is drawn; None where all fits.

    A terminal continues lines that are too long on its next line, so a structure can still be copied as one word.
    """
    natural = Measurement.get(console, console.options.update(width=10_000), table).maximum
    if natural > console.width:  # long headers are folded to the width of their cells
        for column in table.columns:
            cells = max((len(_cell(cell)) for cell in column.cells), default=0)
            column.header = folded(str(column.header), cells)
    if natural <= console.width or not any(column.no_wrap for column in table.columns):
        return None
    narrowest = Measurement.get(console, console.options.update(width=10_000), table).minimum
    return min(natural, max(console.width, narrowest))


def folded(header: str, width: int) -> str:
    """Returns a header in lines, broken at spaces and after underscores; as narrow as the width and its words allow."""
    words = re.findall(r"[^_\s]*_|[^_\s]+\s*", header)
    for word in words:
        width = max(width, len(word.rstrip()))
    lines = [""]
    for word in words:
        if len((lines[-1] + word).rstrip()) > width:
            lines.append("")
        lines[-1] += word
    return "\n".join(line.rstrip() for line in lines)


def _text_of(part: str | Paragraph | Line, width: int | None) -> tuple[str, str]:
    """Returns the text of a part and its style. width: of the lines, between whose words a text is broken; or None."""
    if isinstance(part, Line):
        return part.text, part.style
    text, depth, style = (part, 0, "") if isinstance(part, str) else part
    indent = "  " * depth
    lines = text.split("\n") if width is None else wrapped(text, width - len(indent))
    if isinstance(part, Paragraph) and not depth:
        style = style or "bold"
    return "\n".join(indent + line if line else "" for line in lines), style


def wrapped(text: str, width: int) -> list[str]:
    """Returns the text in lines that end between words, and, where ` · ` separates items, between items."""
    wrapper = textwrap.TextWrapper(max(20, width), break_long_words=False, break_on_hyphens=False)
    items = (item.replace(" ", "\xa0") for item in text.split(" · "))
    glued = " · ".join(items) if " · " in text else text
    lines = list[str]()
    for line in glued.split("\n"):
        lines += wrapper.wrap(line) or [""]
    return [line.replace("\xa0", " ") for line in lines]


def text_of(*parts: Part) -> str:
    """Returns the parts as a terminal would show them, as plain text."""
    console = Console(highlight=False, force_jupyter=False, color_system=None)
    with console.capture() as capture:
        show(*parts, console=console, drawn=True)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).strip("\n")


@contextmanager
def each_signal(*steps: Callable[[], None], last: Callable[[], None]) -> Iterator[None]:
    """Calls the first step at the first SIGINT or SIGTERM, the next step at the next, and then `last` at each.

    In a thread other than the main thread it does nothing, since only the main thread receives signals.
    """
    left = list(steps)

    def on_signal(number: int, frame: FrameType | None) -> None:
        left.pop(0)() if left else last()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_interrupt() -> None:
    raise KeyboardInterrupt
