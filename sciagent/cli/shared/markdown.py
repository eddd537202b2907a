"""Docstrings in Markdown as parts of the output: paragraphs, tables and lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.text import Text

from sciagent.api.terminal import Paragraph, Part, plain_table


def parts_of(text: str, depth: int = 1) -> Iterator[Part]:
    """Yields a paragraph for each block of lines, a table for each table, and a paragraph for each item of a list."""
    for block in text.split("\n\n") if text.strip() else ():
        for is_table, lines in groupby(map(str.strip, block.splitlines()), lambda line: line.startswith("|")):
            if is_table:
                yield from _table(list(lines))
            else:
                yield from (Paragraph(item, depth) for item in _items(lines))


def _items(lines: Iterator[str]) -> Iterator[str]:
    """Yields the items of a list, each in one line; a block that is no list is one item."""
    item: list[str] = []
    for line in lines:
        if line.startswith("- ") and item:
            yield " ".join(item)
            item = []
        item += line.split()
    if item:
        yield " ".join(item)


def _table(lines: Sequence[str]) -> Iterator[Part]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    header, *body = (row for row in rows if not all(set(cell) <= set("-: ") and cell for cell in row))
    table = plain_table("", *header)
    for row in body:
        table.add_row(*(Text(cell) for cell in row))
    yield table
