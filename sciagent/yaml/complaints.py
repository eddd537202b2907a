"""What a YAML parser complains of, in the words of the person who wrote the file: the line, the column, the fault.

A parser names the place where it gave up; the mistake often stands before it. What it says is used only to tell the
kind of mistake; the place is looked for in the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_KEY = re.compile(r"^(\s*(?:- )*\s*)([\w.-]+):(\S?)")
_PAIRS = {"[": "]", "{": "}"}
_BAD_BEGINNING = ("that cannot start any token", "undefined alias", "alphabetic or numeric")
_TAB = ("a tab stands here; put a space between a key and its value", "")
_SIMPLE = (  # what the parser says, the mistake, what would be right
    ("'\\t'", *_TAB),
    ('"\\t"', *_TAB),
    ("another document", "a second document begins here; one file holds one campaign", "delete the line ---"),
    ("unknown escape", "a backslash in double quotes begins an escape, and this is none", "use single quotes"),
)


@dataclass(frozen=True)
class Plain:
    """line and column count from 1. hint: what would be right."""

    line: int
    column: int
    message: str
    hint: str = ""


def plain(text: str, line: int, column: int, problem: str, opened: tuple[int, int] | None = None) -> Plain:
    """The parser's complaint in plain words.

    line, column: where it gave up. problem: what it said. opened: where the thing began that it was reading, if known.
    """
    lines = text.split("\n")
    content = lines[line - 1] if line <= len(lines) else ""
    indent = content[: len(content) - len(content.lstrip())]
    if "\t" in indent:
        message = "a tab indents this line; YAML is indented with spaces"
        return Plain(line, indent.index("\t") + 1, message, "put two spaces in place of each tab")
    for words, message, hint in _SIMPLE:
        if words in problem:
            return Plain(line, column, message, hint)
    if any(words in problem for words in _BAD_BEGINNING):
        return _bad_beginning(content, line, column)
    if "mapping values are not allowed" in problem:
        return _second_colon(lines, line, column)
    if "expected <block end>" in problem:
        return _indentation(lines, line)
    if "could not find expected ':'" in problem:
        before = _before(lines, line)
        return Plain(before, 1 + _indent(lines[before - 1]), "this line has no colon", "write it as key: value")
    if opened and "expected ',' or" in problem:
        return _unclosed(lines, *opened)
    if "end of stream" in problem or "document separator" in problem:
        return Plain(*(opened or (line, column)), "the quotation mark that opens here is not closed")
    return Plain(line, column, f"not YAML: {problem}")


def _indent(content: str) -> int:
    return len(content) - len(content.lstrip(" "))


def _before(lines: list[str], line: int) -> int:
    """The number of the last line before `line` that says anything; 1 if there is none."""
    for number in range(min(line, len(lines) + 1) - 1, 0, -1):
        content = lines[number - 1].strip()
        if content and not content.startswith("#"):
            return number
    return 1


def _bad_beginning(content: str, line: int, column: int) -> Plain:
    begin = column if content[column - 1 : column] in set("@`%*&") else column - 1
    sign = content[begin - 1 : begin] or "this sign"
    return Plain(line, begin, f"a text cannot begin with {sign} unless it is in quotes", 'write "…" around it')


def _unclosed(lines: list[str], line: int, column: int) -> Plain:
    sign = lines[line - 1][column - 1]
    return Plain(line, column, f"the {sign} that opens here is not closed with {_PAIRS.get(sign, sign)}")


def _second_colon(lines: list[str], line: int, column: int) -> Plain:
    content = lines[line - 1]
    first = _KEY.match(content)
    if first and not first[3] and first.end(2) + 1 < column:  # `key: text: more`
        message = "a second colon in one line reads as another key"
        return Plain(line, column, message, "put the text in quotes")
    before = _before(lines, line)
    above = lines[before - 1]
    glued = _KEY.match(above)
    if glued and glued[3]:
        return Plain(before, glued.end(2) + 2, f'no space after the colon of "{glued[2]}"', f"write {glued[2]}: …")
    if before != line and _indent(content) > _indent(above):
        name = f'"{glued[2]}" in line {before}' if glued else f"line {before}"
        message = f"indented deeper than {name}, which has a value already"
        return Plain(line, _indent(content) + 1, message, f"indent it by {_indent(above)} spaces")
    return Plain(line, column, "a colon is not expected here", "put the text in quotes")


def _indentation(lines: list[str], line: int) -> Plain:
    """A line that lines up with nothing above it: say with what it could."""
    own = _indent(lines[line - 1])
    columns: dict[int, str] = {}  # indent of what is open above -> the nearest key there
    least = len(lines[line - 1]) + 1000
    for number in range(line - 1, 0, -1):
        key = _KEY.match(lines[number - 1])
        if key is None:
            continue
        for indent in (len(key[1]), _indent(lines[number - 1])):  # a key behind a dash, and the dash itself
            if indent < least:
                columns[indent] = key[2] if indent == len(key[1]) else f"- {key[2]}"
                least = indent
    fits = ", or ".join(f'{n} for a line beside "{name}"' for n, name in sorted(columns.items(), reverse=True)[:3])
    spaces = f"{own} space{'' if own == 1 else 's'}"
    return Plain(
        line, own + 1, f"indented by {spaces}, which fits no line above", f"indent it by {fits}" if fits else ""
    )
