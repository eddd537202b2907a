"""Reads YAML text as plain data, with the line and column of every key and value.

The nodes of ruamel's loader are read directly and never constructed. So no tag can create an object, no alias can
expand, and a mistake in one value does not hide the next. YAML 1.2: `no` and `1:30` are texts, `1e-3` is a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from sciagent.errors import InputFileError, SpecError
from sciagent.inputs.open_input import open_input

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_ENTRIES = 20_000
"""Largest number of lines, list entries and keys of a file. The parser takes a fifth of a millisecond for each."""
MAX_FAULTS = 200
"""Largest number of reported mistakes of a file. Each takes a millisecond to explain."""
MAX_INT = 2**63 - 1

Loc = tuple[int | str, ...]
"""Path of keys and list positions."""
Mark = tuple[int, int]
"""(line, column), each counted from 1."""

_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = {_TAG + name for name in ("str", "int", "float", "bool", "null", "map", "seq", "value", "merge")}
# reads booleans and numbers by the rules of YAML 1.2
_SCALARS = YAML(typ="safe", pure=True).constructor
_CLOSING = {"[": "]", "{": "}", '"': '"', "'": "'"}
_NOT_TEXT = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|\ufeff")
"""Characters that no YAML text may hold."""
_BAD_TEXT = re.compile("[\0\ud800-\udfff]")
"""Characters that a text holds only by an escape: the null byte, and halves of characters."""
_HINT = 'check the indentation, and put a text in quotes that begins with a sign or has ": " in it'


@dataclass(frozen=True)
class Fault:
    """One mistake in a file."""

    line: int
    """Line, counted from 1."""
    column: int
    """Column, counted from 1."""
    message: str
    loc: Loc = ()
    """Path of keys and list positions to the mistake."""
    hint: str = ""
    """The way to correct the mistake."""


@dataclass
class Document:
    """The data of a YAML text, with the place of each part."""

    data: Any = None
    """Dicts, lists, text, numbers, booleans and None."""
    keys: dict[Loc, Mark] = field(default_factory=dict)
    """Place of the key of each entry of a mapping."""
    values: dict[Loc, Mark] = field(default_factory=dict)
    """Place of each value, by its path."""
    faults: list[Fault] = field(default_factory=list)
    """Parts that could not be read."""

    def locate(self, loc: Loc, on_key: bool = False) -> Mark:
        """Returns the place of the part at `loc`, or of the nearest part around it. on_key: place of its key."""
        for end in range(len(loc), 0, -1):
            part = loc[:end]
            if part not in self.values:
                continue
            is_around = end < len(loc)  # a part around the one at `loc` has the place of its key
            if (on_key or is_around) and part in self.keys:
                return self.keys[part]
            return self.values[part]
        return self.values.get((), (1, 1))  # the path () stands for the whole document

    def broken(self, loc: Loc) -> bool:
        """Returns whether the part at `loc` or a part around it could not be read."""
        return any(fault.loc and loc[: len(fault.loc)] == fault.loc for fault in self.faults)


def show(loc: Loc) -> str:
    """Returns a path as text, such as `ladder[1].settings.functional`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).removeprefix(".")


def report(name: str, faults: Sequence[Fault]) -> str:
    """Returns one line per mistake, in the order of the file: `name:line:column: path: message`; at most MAX_FAULTS."""
    lines: dict[str, None] = {}  # a set in order, since a mistake may be found twice
    for fault in sorted(faults, key=lambda fault: (fault.line, fault.column))[:MAX_FAULTS]:
        where = f"{show(fault.loc)}: " if fault.loc else ""
        text = f"{name}:{fault.line}:{fault.column}: {where}{fault.message}"
        if fault.hint:
            text = f"{text}\n  {fault.hint}"
        lines[text] = None
    if len(faults) >= MAX_FAULTS:
        lines[f"{name}: these are the first {MAX_FAULTS} mistakes; there may be more"] = None
    return "\n".join(lines)


def read_text(path: Path) -> str:
    """Returns the text of a file. Raises SpecError if it is not a regular file, too long, or not UTF-8."""
    try:
        with open_input(path) as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (InputFileError, OSError) as error:
        raise SpecError(str(error)) from None
    mark = (1, 1)
    message = f"the file has {len(raw)} bytes; it may have {MAX_BYTES}"
    if len(raw) <= MAX_BYTES:
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            mark = _mark_after(raw[: error.start].decode("utf-8", errors="replace"))
            message = f"byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8"
    raise SpecError(report(str(path), [Fault(*mark, message)]))


def read(text: str, kind: str = "a campaign", opens: str = "campaign: name") -> Document:
    """Reads the valid parts of a text, and returns them with a fault for each invalid part.

    kind: what the file describes. opens: the first line of such a file. Both are used in messages only.
    """
    document = Document()
    wrong_character = _NOT_TEXT.search(text)
    if wrong_character:
        line, column = _mark_after(text[: wrong_character.start()])
        message = f"the character U+{ord(wrong_character[0]):04X} does not belong in a text file"
        document.faults.append(Fault(line, column, message))
        return document
    node = _compose(text, document)
    if node is not None:
        document.data = _plain(node, (), document)
    if not document.faults and not isinstance(document.data, dict):
        what = "the file is empty" if document.data is None else f"the file holds {kind_of(document.data)}"
        document.faults.append(Fault(*document.locate(()), f"{what}; {kind} is a mapping that opens with `{opens}`"))
    return document


def kind_of(value: Any) -> str:
    """Returns a description of the value for messages."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"{str(value).lower()} (a boolean)"
    if isinstance(value, int | float):
        return f"the number {value:g}"
    if isinstance(value, str):
        shown_text = value if len(value) <= 60 else value[:57] + "..."
        return f'the text "{shown_text}"'
    return "a mapping" if isinstance(value, dict) else "a list"


def _compose(text: str, document: Document) -> Node | None:
    """Returns the root node of a text; None for an empty text, or if the text cannot be parsed, which adds a fault."""
    lines = (line for line in text.splitlines() if line and not line.lstrip().startswith("#"))
    n_entries = sum(1 + line.count(",") + line.count(":") for line in lines)
    if n_entries > MAX_ENTRIES:
        document.faults.append(Fault(1, 1, f"the file has about {n_entries} entries; it may have {MAX_ENTRIES}"))
        return None
    yaml = YAML(typ="safe", pure=True)  # the round-trip loader takes 35 s for a megabyte of comments
    constructor, parser = yaml.get_constructor_parser(text)
    composer = constructor.composer
    try:
        node = composer.get_node() if composer.check_node() else None
        if not composer.check_node():
            return node if isinstance(node, Node) else None
        message = "a second document begins here; a file holds one"
        document.faults.append(Fault(*_mark(parser.peek_event().start_mark), message, hint="delete the line ---"))
    except MarkedYAMLError as error:
        document.faults.append(_parser_fault(text, error))
    except RecursionError:
        document.faults.append(Fault(1, 1, f"nested more than {MAX_DEPTH} levels deep"))
    except (YAMLError, ValueError, TypeError, LookupError, AttributeError, AssertionError, OverflowError) as error:
        # ruamel's scanner raises some of these errors, as for the escape "\UFFFFFFFF"
        message = f"not YAML: {' '.join(str(error).split())}"
        document.faults.append(Fault(yaml.reader.line + 1, yaml.reader.column + 1, message))
    return None


def _parser_fault(text: str, error: MarkedYAMLError) -> Fault:
    """Returns the parser's message at its line and column; for an unclosed bracket or quote, where it opens."""
    opened = error.context_mark
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return Fault(1, 1, f"not YAML: {error}")
    line_start = text.rfind("\n", 0, mark.index) + 1
    from_line_on = text[line_start:]
    indent = from_line_on[: len(from_line_on) - len(from_line_on.lstrip(" \t"))]
    if "\t" in indent:
        message = "a tab indents this line; YAML is indented with spaces"
        return Fault(mark.line + 1, indent.index("\t") + 1, message, hint="put two spaces in place of each tab")
    sign = text[opened.index : opened.index + 1] if opened else ""
    # only at the end of the text is it certain that a quote was not closed
    if sign in ("[", "{") or (sign in ('"', "'") and mark.index >= len(text)):
        comma = ", or lacks a comma" if sign in "[{" else ""
        return Fault(*_mark(opened), f"the {sign} that opens here is not closed with {_CLOSING[sign]}{comma}")
    return Fault(*_mark(mark), f"not YAML: {' '.join(str(error.problem or error.context).split())}", hint=_HINT)


def _mark(mark: Any) -> Mark:
    """Returns the place of a mark of ruamel, which counts from 0."""
    return mark.line + 1, mark.column + 1


def _plain(node: Node, loc: Loc, document: Document) -> Any:
    """Returns the data of a node, and notes the places of its parts. A part that cannot be read becomes None and a
    fault."""
    mark = _mark(node.start_mark)
    tag = str(node.tag)
    message = ""
    if isinstance(node, ScalarNode) and not node.value and tag == _TAG + "null":
        mark = document.keys.get(loc, mark)  # an empty value has the place of its key
    # a block has the place of its key, since its own mark is that of its first entry
    is_block = isinstance(node, MappingNode | SequenceNode) and not node.flow_style
    document.values[loc] = document.keys.get(loc, mark) if is_block else mark
    if node.anchor is not None:
        message = "anchors and aliases (& and *) are not read here; write the value out"
    elif tag == _TAG + "timestamp":
        message = f"{node.value} reads as a date; put it in quotes"
    elif tag not in _PLAIN_TAGS:
        message = f"the tag {tag} is not read here; write plain YAML"
    elif len(loc) > MAX_DEPTH:
        message = f"nested more than {MAX_DEPTH} levels deep"
        loc = loc[:1]  # the whole top-level part counts as not read
    elif isinstance(node, MappingNode):
        return _mapping(node, loc, document)
    elif isinstance(node, SequenceNode):
        return [_plain(item, (*loc, i), document) for i, item in enumerate(node.value)]
    else:
        try:
            return _scalar(tag.removeprefix(_TAG), node)
        except ValueError as error:
            message = str(error)
    document.faults.append(Fault(*mark, message, loc))
    return None


def _mapping(node: MappingNode, loc: Loc, document: Document) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        mark = _mark(key_node.start_mark)
        key = key_node.value
        if not isinstance(key_node, ScalarNode) or _BAD_TEXT.search(key):
            document.faults.append(Fault(*mark, "a key must be plain text", loc))
        elif key in mapping:
            first, _ = document.keys[(*loc, key)]
            document.faults.append(
                Fault(*mark, f'"{key}" stands here twice; the first is in line {first}', (*loc, key))
            )
        else:
            document.keys[(*loc, key)] = mark
            mapping[key] = _plain(value_node, (*loc, key), document)
    return mapping


def _scalar(kind: str, node: Node) -> Any:
    """Returns the value of a scalar. Raises ValueError for a number that is not finite or has more than 64 bits."""
    if kind == "null":
        return None
    if kind not in ("bool", "int", "float"):
        if _BAD_TEXT.search(node.value):
            raise ValueError("the text holds a null byte or half a character")
        return node.value
    try:
        value = getattr(_SCALARS, f"construct_yaml_{kind}")(node)
    except (ValueError, LookupError):
        raise ValueError(f"{node.value[:60]} cannot be read as {kind}") from None
    if kind == "int" and abs(value) > MAX_INT:
        raise ValueError("the number is larger than 64 bits")
    if kind == "float" and not math.isfinite(value):
        raise ValueError(f"{node.value} is not a finite number")
    return value


def _mark_after(before: str) -> Mark:
    """Returns the place of the character that follows the text `before`."""
    last_line = before.rpartition("\n")[2]
    return before.count("\n") + 1, len(last_line) + 1
