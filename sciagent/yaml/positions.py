"""YAML text to plain data, with the line and column of every key and value.

The nodes of ruamel's loader are read directly and never constructed, so no tag can make an object, no alias
can grow, and a fault in one value does not hide the next. YAML 1.2: `no` is text, `1e-3` a number, `1:30` text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from sciagent.yaml.complaints import plain

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_ENTRIES = 20_000
"""Lines, list entries and keys of one file. The parser takes a fifth of a millisecond for each."""
MAX_FAULTS = 200
"""Mistakes of one file that are reported. Each takes a millisecond to explain, and nobody reads more."""
MAX_INT = 2**63 - 1

Loc = tuple[int | str, ...]
Mark = tuple[int, int]

_TAG = "tag:yaml.org,2002:"
_PLAIN = {_TAG + name for name in ("str", "int", "float", "bool", "null", "map", "seq", "value", "merge")}
_BRACKET = re.compile(r"[\[\]{}]")
_NOT_TEXT = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|\ufeff")


@dataclass(frozen=True)
class Fault:
    """One mistake. line and column count from 1."""

    line: int
    column: int
    message: str
    loc: Loc = ()
    hint: str = ""


@dataclass
class Document:
    """data: dicts, lists, text, numbers, booleans and None. faults: what could not be read."""

    data: Any = None
    keys: dict[Loc, Mark] = field(default_factory=dict)
    values: dict[Loc, Mark] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def add(self, fault: Fault) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(fault)

    def locate(self, loc: Sequence[int | str], on_key: bool = False) -> Mark:
        """Where `loc` stands, or the nearest thing around it that exists. on_key: the key, not its value."""
        for end in range(len(loc), 0, -1):
            at = tuple(loc[:end])
            if at in self.values:
                whole = on_key or end < len(loc)
                return self.keys[at] if whole and at in self.keys else self.values[at]
        return self.values.get((), (1, 1))

    def broken(self, loc: Sequence[int | str]) -> bool:
        """Whether a fault was already found at `loc` or around it."""
        return any(fault.loc and tuple(loc[: len(fault.loc)]) == fault.loc for fault in self.faults)


def decode(raw: bytes) -> tuple[str, Fault | None]:
    """UTF-8 text, with or without a byte order mark."""
    if len(raw) > MAX_BYTES:
        return "", Fault(1, 1, f"the file has {len(raw)} bytes; it may have {MAX_BYTES}")
    try:
        return raw.decode("utf-8-sig"), None
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", errors="replace")
        return "", Fault(*_mark_after(before), f"byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8")


def read(text: str, kind: str = "a campaign", opens: str = "campaign: name") -> Document:
    """All of the text that can be read, and a fault for each thing that cannot.

    kind: what the file describes. opens: the line it begins with; both only for messages.
    """
    document = Document()
    if len(text.encode("utf-8", errors="replace")) > MAX_BYTES:
        document.add(Fault(1, 1, f"the text is too long; it may have {MAX_BYTES} bytes"))
        return document
    if bad := _NOT_TEXT.search(text):
        mark = _mark_after(text[: bad.start()])
        document.add(Fault(*mark, f"the character U+{ord(bad[0]):04X} does not belong in a text file"))
        return document
    node = _compose(text, document)
    if node is not None:
        document.data = _plain(node, (), document)
    if not document.faults and not isinstance(document.data, dict):
        what = "the file is empty" if document.data is None else f"the file holds {kind_of(document.data)}"
        mark = document.values.get((), (1, 1))
        document.add(Fault(*mark, f"{what}; {kind} is a mapping that opens with `{opens}`"))
    return document


def kind_of(value: Any) -> str:
    """What a person would call the value."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"{str(value).lower()} (a boolean)"
    if isinstance(value, int | float):
        return f"the number {value:g}"
    if isinstance(value, str):
        return f'the text "{value if len(value) <= 60 else value[:57] + "..."}"'
    return "a mapping" if isinstance(value, dict) else "a list"


def _compose(text: str, document: Document) -> Node | None:
    if mark := too_deep(text):  # the scanner's time grows with the square of the depth
        document.add(Fault(*mark, f"brackets more than {MAX_DEPTH} levels deep"))
        return None
    if (entries := _entries(text)) > MAX_ENTRIES:
        document.add(Fault(1, 1, f"the file has about {entries} entries; it may have {MAX_ENTRIES}"))
        return None
    yaml = YAML(typ="safe", pure=True)  # the round-trip loader takes 35 s for a megabyte of comments
    constructor, _ = yaml.get_constructor_parser(text)
    try:
        node = constructor.composer.get_single_node()
    except MarkedYAMLError as error:
        mark, began = error.problem_mark or error.context_mark, error.context_mark
        message = " ".join(str(error.problem or error.context or "cannot be read").split())
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        opened = None if began is None else (began.line + 1, began.column + 1)
        told = plain(text, line, column, message, opened)
        document.add(Fault(told.line, told.column, told.message, hint=told.hint))
        return None
    except RecursionError:
        document.add(Fault(1, 1, f"nested more than {MAX_DEPTH} levels deep"))
        return None
    except (YAMLError, ValueError, TypeError, LookupError, AttributeError, AssertionError, OverflowError) as error:
        # ruamel's scanner lets some of these out, as for the escape "\UFFFFFFFF"
        document.add(Fault(yaml.reader.line + 1, yaml.reader.column + 1, f"not YAML: {' '.join(str(error).split())}"))
        return None
    return node if isinstance(node, Node) else None


def _plain(node: Node, loc: Loc, document: Document) -> Any:
    mark: Mark = (node.start_mark.line + 1, node.start_mark.column + 1)
    if isinstance(node, ScalarNode) and not node.value and str(node.tag) == _TAG + "null":
        mark = document.keys.get(loc, mark)  # nothing stands there
    is_block = isinstance(node, MappingNode | SequenceNode) and not node.flow_style
    document.values[loc] = document.keys.get(loc, mark) if is_block else mark

    def refuse(message: str, hint: str = "") -> None:
        document.add(Fault(*mark, message, loc, hint))

    if node.anchor is not None:
        return refuse("anchors and aliases (& and *) are not read here; write the value out")
    if str(node.tag) == _TAG + "timestamp":
        return refuse(f"{node.value} reads as a date; put it in quotes")
    if str(node.tag) not in _PLAIN:
        return refuse(f"the tag {node.tag} is not read here; write plain YAML")
    if len(loc) > MAX_DEPTH:
        document.add(Fault(*mark, f"nested more than {MAX_DEPTH} levels deep", loc[:1]))
        return None
    if isinstance(node, MappingNode):
        return _mapping(node, loc, document)
    if isinstance(node, SequenceNode):
        return [_plain(item, (*loc, i), document) for i, item in enumerate(node.value)]
    try:
        return _scalar(str(node.tag).removeprefix(_TAG), node.value)
    except ValueError as error:
        return refuse(str(error))


def _mapping(node: MappingNode, loc: Loc, document: Document) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        mark = (key_node.start_mark.line + 1, key_node.start_mark.column + 1)
        if not isinstance(key_node, ScalarNode) or _bad_text(key_node.value):
            document.add(Fault(*mark, "a key must be plain text", loc))
            continue
        key = key_node.value
        if key in found:
            first = document.keys[(*loc, key)]
            message = f'"{key}" stands here twice; the first is in line {first[0]}'
            document.add(Fault(*mark, message, (*loc, key)))
            continue
        document.keys[(*loc, key)] = mark
        found[key] = None
        found[key] = _plain(value_node, (*loc, key), document)
    return found


def _scalar(tag: str, text: str) -> Any:
    """The value of a scalar. Raises ValueError for what is no finite number of 64 bits."""
    if tag == "null":
        return None
    if tag == "bool":
        return text.lower() in ("true", "yes", "on", "y")
    if tag == "int":
        number = _integer(text.replace("_", ""))
        if abs(number) > MAX_INT:
            raise ValueError("the number is larger than 64 bits")
        return number
    if tag == "float":
        try:
            real = float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:
            raise ValueError(f"{text} cannot be read as a number") from None
        if not math.isfinite(real):
            raise ValueError(f"{text} is not a finite number")
        return real
    if _bad_text(text):
        raise ValueError("the text holds a null byte or half a character")
    return text


def _integer(text: str) -> int:
    digits = text.lower().lstrip("+-")
    base = {"0x": 16, "0o": 8, "0b": 2}.get(digits[:2], 10)
    try:
        return int(text, base) if len(text) <= 80 else MAX_INT + 1
    except ValueError:
        raise ValueError(f"{text} cannot be read as a number") from None


def _bad_text(text: str) -> bool:
    return "\0" in text or any("\ud800" <= c <= "\udfff" for c in text)


def too_deep(text: str) -> Mark | None:
    """Where brackets, counted without regard to quotes, open too deeply for a file that a person wrote."""
    depth = 0
    for line, content in enumerate(text.splitlines(), 1):
        for bracket in _BRACKET.finditer(content if not content.lstrip().startswith("#") else ""):
            depth = depth + 1 if bracket[0] in "[{" else max(depth - 1, 0)
            if depth > MAX_DEPTH:
                return line, bracket.start() + 1
    return None


def _entries(text: str) -> int:
    """About how many entries a text has, comments left out: its lines, commas and colons."""
    lines = (line for line in text.splitlines() if line and not line.lstrip().startswith("#"))
    return sum(1 + line.count(",") + line.count(":") for line in lines)


def _mark_after(before: str) -> Mark:
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
