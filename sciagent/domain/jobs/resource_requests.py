"""The resources that a job holds while it runs: cores, GPUs and others, counted by name."""

from __future__ import annotations

import re
from collections.abc import Mapping

CORES, GPU = "cores", "gpu"
NAME = r"^[a-z][a-z0-9_]{0,30}$"
MOST = {CORES: 1024, GPU: 64}
MOST_OTHERS = 10_000
MOST_NAMES = 8
ELSEWHERE = {"memory": "limits.memory_mb", "memory_mb": "limits.memory_mb", "slots": "cores"}
_NAME = re.compile(NAME)


def check(needs: Mapping[str, int]) -> None:
    """Raises ValueError for a name or a number that no job may request."""
    if len(needs) > MOST_NAMES:
        raise ValueError(f"{len(needs)} names; at most {MOST_NAMES}")
    for name, n in needs.items():
        if not _NAME.fullmatch(name):
            shown = repr(name if len(name) <= 60 else name[:57] + "...")
            raise ValueError(f"{shown} is no name: a lower-case letter, then letters, digits and _, at most 31")
        if name in ELSEWHERE:
            raise ValueError(f"{name} is set by {ELSEWHERE[name]}")
        most = MOST.get(name, MOST_OTHERS)
        if not 1 <= n <= most:
            raise ValueError(f"{name}: {n}; from 1 to {most}")


def text_of(needs: Mapping[str, int]) -> str | None:
    """Returns the text that the ledger stores, such as "cores=4 gpu=1", sorted by name; None for one core alone."""
    more = {name: n for name, n in needs.items() if (name, n) != (CORES, 1)}
    return " ".join(f"{name}={more[name]}" for name in sorted(more)) or None


def read(text: str | None) -> dict[str, int]:
    """Returns the resources of a text made by `text_of`; cores are always among them."""
    pairs = (pair.partition("=") for pair in (text or "").split())
    return {CORES: 1} | {name: int(n) for name, _, n in pairs}


def in_words(needs: Mapping[str, int]) -> str:
    """Returns a text for people, such as `4 cores, 1 gpu, 1 gaussian`."""
    return ", ".join(
        f"{n} core{'' if n == 1 else 's'}" if name == CORES else f"{n} {name}" for name, n in needs.items()
    )
