"""Shows answers in a terminal: tables, paragraphs and lines (`show`), and calls a step at each signal (`each_signal`).

A structure is never broken: its column is the last of a table and is not wrapped. Where output is no terminal, a table
is tab-separated text with a header, and each paragraph is one line.

The steps of `each_signal` end a campaign that runs in this process: the signals are Ctrl-C, the interrupt of a notebook
cell, and SIGTERM.
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

from sciagent.api.end_stuck_process import answer_signal
from sciagent.domain.safe_text_and_durations import Paragraph, for_terminal

Records = Sequence[Mapping[str, Any]]
"""Rows of a table: cells by column."""

STRUCTURE_COLUMNS = ("smiles", "structure", "candidate")
"""Columns with structures."""


def plain_table(*columns: str, title: str = "", left: Iterable[str] = ()) -> Table:
    """Returns an empty table for narrow terminals. left: columns of text besides the first; all others are numbers."""
    table = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(columns):
        is_text = place == 0 or name in left or name in STRUCTURE_COLUMNS
        justify: JustifyMethod = "left" if is_text else "right"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name in STRUCTURE_COLUMNS)
    return table


def records_table(records: Records, title: str = "") -> Table:
    """Returns a table of records, with numbers aligned right and without empty columns."""
    columns = columns_of(records)
    text_columns = [name for name in columns if not is_number(records, name)]
    table = plain_table(*columns, title=title, left=text_columns)
    for record in records:
        cells = []
        for name in columns:
            cell = record.get(name)
            cells.append(cell if isinstance(cell, Text) else Text(cell_text(cell)))
        table.add_row(*cells)
    return table


def columns_of(records: Records) -> list[str]:
    """Returns the columns of the records that are not empty, in order of first appearance, but structures last."""
    names = dict.fromkeys(chain.from_iterable(records))
    filled = [name for name in names if any(record.get(name) not in (None, "") for record in records)]
    structures = [name for name in filled if name in STRUCTURE_COLUMNS]
    return [name for name in filled if name not in structures] + structures


def is_number(records: Records, name: str) -> bool:
    """Returns whether a column holds numbers or measured values."""
    cells = [record[name] for record in records if record.get(name) is not None]
    return bool(cells) and all(not isinstance(cell, str | bool | datetime | Text) for cell in cells)


def cell_text(value: object) -> str:
    """Returns a cell as text: a number with four digits, None and NaN as an empty text, and a hash cut to 12 digits."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    text = for_terminal(str(value))
    is_sha256 = len(text) == 64 and text.isalnum()
    return f"{text[:12]}…" if is_sha256 else text


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
            width = console.width if drawn else None
            text, style = _text_of(part, width)
            console.print(Text(for_terminal(text), style=style), highlight=False, soft_wrap=True)
        else:
            console.print(part, highlight=False, markup=False, emoji=False)


def on_terminal() -> bool:
    """Returns whether stdout is a terminal, where tables are drawn."""
    return Console().is_terminal


def tab_separated(table: Table, titled: bool = False) -> Iterator[str]:
    """Yields the lines of a table as tab-separated text: its title if asked for, the header, the rows."""
    if titled and table.title:
        yield _cell(table.title)
    columns = [[column.header, *column.cells] for column in table.columns]
    for cells_of_line in zip(*columns, strict=True):
        yield "\t".join(_cell(cell) for cell in cells_of_line)


def _cell(cell: RenderableType) -> str:
    """Returns a cell on one line, with single spaces; its lines are separated by semicolons."""
    text = str(cell).replace("\n", "; ")
    return " ".join(text.split())


def _width(table: Table, console: Console) -> int | None:
    """Returns the width in which a table with structures too long for the terminal is drawn; None for another table.

    In a table that is too wide, long headers are folded to the width of their cells, and, if it still is, to that of
    the longest word of their cells. A terminal continues lines that are too long on its next line, so a structure can
    still be copied as one word.
    """
    unlimited = console.options.update(width=10_000)
    natural_width = Measurement.get(console, unlimited, table).maximum
    if natural_width <= console.width:
        return None
    for column in table.columns:
        width_of_cells = max((len(_cell(cell)) for cell in column.cells), default=0)
        column.header = folded(str(column.header), width_of_cells)
    if not any(column.no_wrap for column in table.columns):
        return None
    if Measurement.get(console, unlimited, table).minimum > console.width:
        for column in table.columns:
            words = " ".join(_cell(cell) for cell in column.cells).split()
            column.header = folded(str(column.header), max(map(len, words), default=0))
    narrowest = Measurement.get(console, unlimited, table).minimum
    return min(natural_width, max(console.width, narrowest))


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
    """Returns the text of a part and its style. width: of a line; longer text is broken between words. None: no
    limit."""
    if isinstance(part, Line):
        return part.text, part.style
    paragraph = Paragraph(part, depth=0) if isinstance(part, str) else part
    text, depth, style = paragraph
    indent = "  " * depth
    lines = text.split("\n") if width is None else wrapped(text, width - len(indent))
    is_heading = isinstance(part, Paragraph) and depth == 0
    if is_heading and not style:
        style = "bold"
    indented = [f"{indent}{line}" if line else "" for line in lines]
    return "\n".join(indented), style


def wrapped(text: str, width: int) -> list[str]:
    """Returns the text in lines that end between words, and, where ` · ` separates items, between items."""
    no_break_space = "\xa0"  # holds an item together
    wrapper = textwrap.TextWrapper(max(20, width), break_long_words=False, break_on_hyphens=False)
    if " · " in text:
        items = [item.replace(" ", no_break_space) for item in text.split(" · ")]
        text = " · ".join(items)
    lines = list[str]()
    for line in text.split("\n"):
        lines += wrapper.wrap(line) or [""]
    return [line.replace(no_break_space, " ") for line in lines]


def text_of(*parts: Part) -> str:
    """Returns the parts as a terminal would show them, as plain text."""
    console = Console(highlight=False, force_jupyter=False, color_system=None)
    with console.capture() as capture:
        show(*parts, console=console, drawn=True)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).strip("\n")


@contextmanager
def each_signal(*steps: Callable[[], None], last: Callable[[], None]) -> Iterator[None]:
    """Calls the first step at the first SIGINT or SIGTERM, the second at the second, and so on; then `last` at each.

    In a thread other than the main thread it does nothing, since only the main thread receives signals.
    """
    remaining_steps = list(steps)

    def on_signal(number: int, frame: FrameType | None) -> None:
        answer_signal()
        step = remaining_steps.pop(0) if remaining_steps else last
        step()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old_handlers = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


def raise_interrupt() -> None:
    raise KeyboardInterrupt
