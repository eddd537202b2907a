"""What a server's tool is called towards a model."""

from __future__ import annotations

import hashlib
import re

MAX_NAME = 64  # of a function, by OpenAI's form
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def called(server: str, tool: str) -> str:
    """`literature_search`: letters, digits, dash and underscore, 64 at most; what is longer ends in 8 digits of its
    hash."""
    name = _OTHER.sub("_", f"{server}_{tool}")
    if len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - 9]}_{hashlib.sha256(f'{server}_{tool}'.encode()).hexdigest()[:8]}"
