"""What servers do not take, read out of how they refuse, and how to ask them then."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from enum import Enum, auto
from typing import Any


class Refusal(Enum):
    TOKENS = auto()  # neither token ids nor log-probabilities: it is asked without
    LIMIT = auto()  # max_tokens, by newer models of OpenAI's: max_completion_tokens is the same


_LIMIT = re.compile(
    r"\bmax_tokens\b.*\b(not supported|unsupported|unknown|unrecognized|unexpected|not permitted)\b"
    r"|\b(unsupported|unknown|unrecognized|unexpected)\b[^.]*\bmax_tokens\b",
    re.IGNORECASE | re.DOTALL,
)


def refusal(status: int, said: str, known: Set[Refusal]) -> Refusal | None:
    """What may have been refused, beside what is known already; None if asking otherwise cannot help."""
    if status not in (400, 422):
        return None
    if Refusal.LIMIT not in known and _LIMIT.search(said):
        return Refusal.LIMIT
    return Refusal.TOKENS if Refusal.TOKENS not in known else None


def adapted(asked: Mapping[str, Any], known: Set[Refusal]) -> dict[str, Any]:
    found = dict(asked)
    if Refusal.LIMIT in known:
        found["max_completion_tokens"] = found.pop("max_tokens")
    if Refusal.TOKENS in known:
        del found["logprobs"], found["extra_body"]
    return found
