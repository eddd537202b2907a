"""`sciagent bench leads`, as one calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sciagent.errors import UnknownNameError, UsageError
from sciagent_bench.outside_benchmark_commands import THREADS
from tests.support.typed import invoked


@pytest.fixture(autouse=True)
def threads_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables that the command sets are unset afterwards."""
    for name in THREADS:
        monkeypatch.setenv(name, "1")


def call(*arguments: str) -> tuple[str, str]:
    """Standard output and standard error."""
    found = invoked(["bench", "leads", *arguments], {"COLUMNS": "100", "TERM": "dumb"})
    if isinstance(found.exception, Exception):
        raise found.exception
    assert found.exit_code == 0, found.output
    return found.stdout, found.stderr


def test_it_prints_the_figures_and_the_same_call_reads_them_again(tmp_path: Path) -> None:
    given = ("--leads", "zolpidem", "--oracles", "QED,plogP", "--calls", "4", "--seeds", "1")
    table, lines = call(*given, "--folder", str(tmp_path))
    rows = [line.split("\t") for line in table.splitlines()]
    assert rows[0] == ["lead", "oracle", "lead's score", "best", "±", "successes", "calls to success"]
    assert [row[:3] for row in rows[1:3]] == [["zolpidem", "QED", "0.745"], ["zolpidem", "plogP", "1.683"]]
    assert rows[3][0] == "all" and rows[3][5].endswith(" of 2")
    assert len(lines.splitlines()) == 2 and "zolpidem plogP evolve 1: 1.683 to" in lines
    answer = json.loads(call(*given, "--folder", str(tmp_path), "--json")[0])
    assert (answer["similarity"], answer["calls"]) == (0.4, 4)
    for row, figures in zip(rows[1:3], answer["proposers"]["evolve"], strict=True):
        assert row[3] == f"{figures['best']:.3f}"
        assert [seed["calls"] for seed in figures["seeds"]] == [4]
        assert all(seed["similarity"] >= 0.4 for seed in figures["seeds"])


def test_wrong_names_are_refused_before_anything_runs(tmp_path: Path) -> None:
    folder = ("--folder", str(tmp_path / "leads"))
    with pytest.raises(UnknownNameError, match='unknown lead "zolpiden"; did you mean "zolpidem"'):
        call("--leads", "zolpiden", *folder)
    with pytest.raises(UnknownNameError, match='unknown oracle "qed"; did you mean "QED"'):
        call("--oracles", "qed", *folder)
    with pytest.raises(UsageError, match="takes evolve, law or a YAML file"):
        call("--proposer", "random", *folder)
    with pytest.raises(UsageError, match='"," names no lead'):
        call("--leads", ",", *folder)
    with pytest.raises(UsageError, match='"" names no proposer'):
        call("--proposer", "", *folder)
    assert not (tmp_path / "leads").exists()
