"""Detects request options that a server does not support, and leaves them out of later requests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from enum import Enum, auto
from typing import Any


class UnsupportedOption(Enum):
    """An option that a server does not support."""

    TOKENS = auto()  # neither token ids nor log-probabilities: it is asked without
    LIMIT = auto()  # max_tokens, by newer models of OpenAI's: max_completion_tokens is the same


_LIMIT = re.compile(
    r"\bmax_tokens\b.*\b(not supported|unsupported|unknown|unrecognized|unexpected|not permitted)\b"
    r"|\b(unsupported|unknown|unrecognized|unexpected)\b[^.]*\bmax_tokens\b",
    re.IGNORECASE | re.DOTALL,
)


def refusal(status: int, message: str, known: Set[UnsupportedOption]) -> UnsupportedOption | None:
    """The option that was probably refused, apart from the known ones; None if changing the request cannot help."""
    if status not in (400, 422):
        return None
    if UnsupportedOption.LIMIT not in known and _LIMIT.search(message):
        return UnsupportedOption.LIMIT
    return UnsupportedOption.TOKENS if UnsupportedOption.TOKENS not in known else None


def adapted(asked: Mapping[str, Any], known: Set[UnsupportedOption]) -> Mapping[str, Any]:
    """The request without the unsupported options."""
    request = dict(asked)
    if UnsupportedOption.LIMIT in known:
        request["max_completion_tokens"] = request.pop("max_tokens")
    if UnsupportedOption.TOKENS in known:
        del request["logprobs"], request["extra_body"]
    return request
