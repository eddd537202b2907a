"""Calls of the tools on a bench in memory."""

from __future__ import annotations

import json
from typing import Any

from sciagent.agent.tools import toolbox
from sciagent.agent.tools.showing_tools_and_tools_of_subject import tools_of
from sciagent.agent.tools.tool_contract_and_calls import Observation, Registry
from sciagent.chemistry.editing.mutate_and_crossover import ANY, EditLimits
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from tests.support.memory_bench import MemoryBench

TOOLS = Registry(tools_of(subject_of("molecule")))


def call(
    bench: MemoryBench,
    name: str,
    *,
    seed: int = 0,
    limits: EditLimits = ANY,
    numbered: list[str] | None = None,
    **given: Any,
) -> Observation:
    """Carries out a call. numbered: the molecules with a number; by default the best, as an opening would list them."""
    known = [row.text for row in bench.best(toolbox.SHOWN)] if numbered is None else numbered
    return TOOLS.call(name, json.dumps(given), bench, seed=seed, limits=limits, numbered=known)
