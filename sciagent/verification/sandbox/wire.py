"""What goes over the sockets between driver, zygote and child: JSON, a message a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sciagent.domain.text import clean

MAX_LINE = 1 << 20


class WireError(ValueError):
    """What a child sent is not a message it may send."""


def dumps(message: Mapping[str, Any]) -> bytes:
    """One line. NaN passes, for the reader to refuse; numpy scalars and arrays become numbers and lists."""
    return json.dumps(message, separators=(",", ":"), default=_plain).encode() + b"\n"


def _plain(value: Any) -> Any:
    tolist = getattr(value, "tolist", None)
    if callable(tolist):
        return tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def loads(line: bytes) -> Mapping[str, Any]:
    """Raises WireError for what is too long, not JSON in UTF-8, not an object, or holds NaN or infinity."""
    if len(line) > MAX_LINE:
        raise WireError(f"a message of more than {MAX_LINE} bytes")
    try:
        # of bytes json would guess the encoding; what is handed on inside another line must be UTF-8
        message = json.loads(line.decode(), parse_constant=_refuse_constant)
    except WireError:
        raise
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {clean(repr(line[:80]))}") from error
    if not isinstance(message, dict):
        raise WireError(f"not a JSON object: {clean(repr(line[:80]))}")
    return message


def _refuse_constant(name: str) -> float:
    raise WireError(f"{name} is not a finite number")
