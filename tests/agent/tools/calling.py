"""Calls of the tools on a bench in memory."""

from __future__ import annotations

import json
from typing import Any

from sciagent.agent.tools import calls
from sciagent.agent.tools.registry import Observation, Registry
from sciagent.chemistry.editing.edits import EditLimits
from tests.support.memory_bench import MemoryBench

TOOLS = Registry(calls.TOOLS)


def call(
    bench: MemoryBench, name: str, *, seed: int = 0, limits: EditLimits | None = None, **given: Any
) -> Observation:
    more = {} if limits is None else {"limits": limits}
    return TOOLS.call(name, json.dumps(given), bench, seed=seed, **more)
