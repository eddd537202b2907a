"""`sciagent bench pmo`, as one calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sciagent.errors import UnknownNameError, UsageError
from sciagent_bench.outside_benchmark_commands import THREADS
from sciagent_bench.pmo import task_runs
from sciagent_bench.pmo.molscore_files import MolScoreFiles
from tests.support.typed import invoked

UNPACKED = Path(__file__).parent / "molscore"
SAMPLE = [*("C" * n + "O" for n in range(1, 80)), *("C" * n + "N" for n in range(1, 80))]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few molecules; what the command sets is unset afterwards."""
    for name in THREADS:
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr(MolScoreFiles, "sample", lambda self, n, seed: SAMPLE[seed:])


def call(*arguments: str) -> tuple[str, str]:
    """Standard output and standard error."""
    found = invoked(["bench", "pmo", "--data", str(UNPACKED), *arguments], {"COLUMNS": "120", "TERM": "dumb"})
    if isinstance(found.exception, Exception):
        raise found.exception
    assert found.exit_code == 0, found.output
    return found.stdout, found.stderr


def test_it_prints_the_figures_and_the_same_call_reads_them_again(tmp_path: Path) -> None:
    given = ("--tasks", "QED,C7H8N2O2", "--proposer", "random", "--calls", "110", "--seeds", "2")
    table, lines = call(*given, "--folder", str(tmp_path))
    assert "task\tbest\tmean of best 10\tarea\t±" in table
    assert [line.split("\t")[0] for line in table.splitlines()[1:]] == ["QED", "C7H8N2O2", "sum of 2"]
    assert len(lines.splitlines()) == 4 and "C7H8N2O2 random 2: best" in lines
    answer = json.loads(call(*given, "--folder", str(tmp_path), "--json")[0])
    assert (answer["definition"], answer["calls"]) == ("tdc", 110)
    random = answer["proposers"]["random"]
    assert [each["calls"] for each in random["tasks"]] == [[110, 110], [110, 110]]
    assert sum(random["sums"]) / 2 == pytest.approx(random["sum"])
    assert f"{random['sum']:.3f}" == table.splitlines()[-1].split("\t")[3]
    assert all(each["source"] for each in answer["published"])


def test_all_tasks_are_printed_beside_published_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_runs, "task_names", lambda: ("QED",))
    table, _ = call("--proposer", "random", "--calls", "110", "--seeds", "1", "--folder", str(tmp_path))
    assert "Genetic GFN\t16.213\tKim, Kim, Choi, Park, arXiv 2402.05961" in table


def test_wrong_names_are_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match='unknown task "qed"; did you mean "QED"'):
        call("--tasks", "qed", "--folder", str(tmp_path / "pmo"))
    with pytest.raises(UsageError, match="takes evolve, law, random or a YAML file"):
        call("--proposer", "none", "--folder", str(tmp_path / "pmo"))
    assert not (tmp_path / "pmo").exists()
