"""The messages between driver, zygote and child: JSON, one message per line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sciagent.domain.text import clean

MAX_LINE = 1 << 20


class WireError(ValueError):
    """A child sent an invalid or unexpected message."""


def dumps(message: Mapping[str, Any]) -> bytes:
    """Returns the message as one line. NumPy scalars and arrays become numbers and lists; the reader refuses NaN."""
    return json.dumps(message, separators=(",", ":"), default=_plain).encode() + b"\n"


def _plain(value: Any) -> Any:
    tolist = getattr(value, "tolist", None)
    if callable(tolist):
        return tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def loads(line: bytes) -> Mapping[str, Any]:
    """Returns the message in a line. Raises WireError if it is too long, no JSON object in UTF-8, or has NaN."""
    if len(line) > MAX_LINE:
        raise WireError(f"a message of more than {MAX_LINE} bytes")
    try:
        # json would guess the encoding of bytes, but a line that is sent on inside another must be UTF-8
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
