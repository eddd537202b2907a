"""The benchmark of commands that compute nothing, and its committed results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.commands.run import commands, seconds_of

RESULT = Path(__file__).parents[2] / "benchmarks" / "commands" / "result.json"


def test_the_committed_results_are_of_these_commands_and_within_about_a_second() -> None:
    found = json.loads(RESULT.read_text())["commands"]
    assert found.keys() == commands("a", "b").keys()
    assert max(each["cpu_seconds"] for each in found.values()) < 1.4


@pytest.mark.long
def test_the_help_and_the_list_of_verifiers_start_fast() -> None:
    """Bounds of CPU time, generous for a slow machine. The costs of verifiers of crystals take pymatgen."""
    for name, bound in (("help", 1.5), ("verifiers", 6.0)):
        assert seconds_of(commands("a", "b")[name], "none.db") < bound, name
