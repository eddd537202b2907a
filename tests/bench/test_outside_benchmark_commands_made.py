"""`sciagent bench made`, as one calls it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sciagent.errors import UnknownNameError, UsageError
from sciagent_bench.made.discovery_figures import Discovery, DiscoveryCurve, DiscoveryRun
from sciagent_bench.made.system_runs import ChemicalSystem, SystemRuns
from sciagent_bench.outside_benchmark_commands import THREADS
from tests.support.typed import invoked


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables that the command sets are unset afterwards."""
    for name in THREADS:
        monkeypatch.setenv(name, "1")


def call(*arguments: str) -> tuple[str, str]:
    """Standard output and standard error."""
    found = invoked(["bench", "made", *arguments], {"COLUMNS": "100", "TERM": "dumb"})
    if isinstance(found.exception, Exception):
        raise found.exception
    assert found.exit_code == 0, found.output
    return found.stdout, found.stderr


def ended(self: SystemRuns, system: ChemicalSystem, proposer: str, keys: Mapping[str, Any], seed: int) -> DiscoveryRun:
    """A run that has ended, with as many discoveries as its seed says; the law has twice as many."""
    found = seed * (2 if proposer == "law" else 1)
    curve = DiscoveryCurve((*[0] * 19, found), 7, (Discovery("LiAl Pm-3m", 20, 0.01),) * found)
    return DiscoveryRun(system.name, proposer, seed, "name", 3, 12.4, curve)


def test_it_prints_the_figures_of_each_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemRuns, "run", ended)
    given = ("--systems", "Li-Al,Al-V", "--proposer", "random,law", "--calls", "20", "--seeds", "2")
    table, lines = call(*given, "--folder", str(tmp_path / "made"))
    assert "Al-Li law 2: 4 discoveries in 20 calls, 3 without an answer" in lines
    assert "proposer\tnovel\tdiscoveries\tmSUN\tAUDC\tEF\tAF\tcore-seconds" in table
    law = [line.split("\t") for line in table.splitlines() if line.startswith("law")]
    assert len(law) == 2
    assert [cell.split(" ")[0] for cell in law[0][1:]] == ["7.0", "3.0", "0.15", "0.01", "2.00", "1.00", "12"]
    answer = json.loads(call(*given, "--folder", str(tmp_path / "made"), "--json")[0])
    assert (answer["model"], answer["calls"]) == ("chgnet-0.3.0", 20)
    of_law = answer["proposers"]["law"][0]
    assert of_law["discovered"] == [2, 4]
    assert of_law["curves"][0]["discoveries"][0] == {"text": "LiAl Pm-3m", "call": 20, "above_hull": 0.01}


def test_wrong_names_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    with pytest.raises(UsageError, match='"Xx" is not an element'):
        call("--systems", "Al-Xx", "--folder", str(folder))
    with pytest.raises(UsageError, match="takes random, evolve, law or a YAML file"):
        call("--proposer", "none", "--folder", str(folder))
    with pytest.raises(UnknownNameError, match=r'unknown potential "chgnet"; did you mean "chgnet-0\.3\.0"'):
        call("--model", "chgnet", "--folder", str(folder))
    with pytest.raises(UsageError, match='"," names no system'):
        call("--systems", ",", "--folder", str(folder))
    assert not folder.exists()
