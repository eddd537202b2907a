"""Self-contained scripts, run by the interpreter of another environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent.programs import interpreter
from sciagent_simulators.periodic.gpaw_calculation_and_band_gap import GPAW
from sciagent_simulators.programs.foreign_script import ScriptAnswer, run_script

JSON = interpreter("json", "JSON", "SCIAGENT_JSON", "every Python has it")
WRITES = "import json, pathlib\nasked = json.loads(pathlib.Path('INPUT.json').read_text())\n"


@pytest.fixture(autouse=True)
def this_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIAGENT_JSON", sys.executable)


def run(does: str, tmp_path: Path, ranks: int = 1) -> ScriptAnswer:
    script = tmp_path / "does.py"
    script.write_text(WRITES + does)
    return run_script(JSON, script, {"a": [1, 2.5]}, tmp_path / "work", ranks=ranks)


def writes(answer: str) -> str:
    return f"pathlib.Path('OUTPUT.json').write_text(json.dumps({answer}))"


def test_a_script_gets_its_input_and_its_answer_comes_back(tmp_path: Path) -> None:
    answer = run(writes("{'result': {'twice': asked['a'] * 2}, 'versions': {'ase': '3.22.1'}}"), tmp_path)
    assert answer.result == {"twice": [1, 2.5, 1, 2.5]}
    assert answer.versions == {"json": "2.0.9", "json/ase": "3.22.1"}


def test_a_script_gets_none_of_our_variables_for_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "ours"))
    answer = run(
        "import os\n" + writes("{'result': {'found': [n for n in os.environ if n[:6] == 'PYTHON']}}"), tmp_path
    )
    assert answer.result == {"found": []}


@pytest.mark.parametrize(
    ("does", "outcome", "reason", "says"),
    [
        (
            writes("{'failure': {'reason': 'scf_not_converged', 'detail': '333 cycles'}}"),
            Outcome.NOT_CONVERGED, Reason.SCF_NOT_CONVERGED, "333 cycles",
        ),
        (writes("{'failure': {'reason': 'bad luck', 'detail': ''}}"), Outcome.CRASHED, Reason.BAD_RESULT, "bad luck"),
        (writes("{'failure': 'no'}"), Outcome.CRASHED, Reason.BAD_RESULT, "no object"),
        (writes("{'result': 3}"), Outcome.CRASHED, Reason.BAD_RESULT, "lacks the object"),
        (writes("[1]"), Outcome.CRASHED, Reason.BAD_RESULT, "no JSON object"),
        ("pathlib.Path('OUTPUT.json').write_text('{')", Outcome.CRASHED, Reason.NO_RESULT, "no JSON form"),
        (writes("{'result': {}}") + "\nraise SystemExit('late')", Outcome.CRASHED, Reason.EXCEPTION, "late"),
        ("raise ValueError('a fault')", Outcome.CRASHED, Reason.EXCEPTION, "ValueError: a fault"),
        ("", Outcome.CRASHED, Reason.NO_RESULT, "has written no OUTPUT.json"),
        ("raise MemoryError", Outcome.OUT_OF_MEMORY, Reason.MEMORY_LIMIT, "MemoryError"),
        ("import no_such_engine", Outcome.BAD_ENVIRONMENT, Reason.PROGRAM_MISSING, "No module named 'no_such_engine'"),
    ],
)  # fmt: skip
def test_each_way_to_fail_has_its_reason(
    does: str, outcome: Outcome, reason: Reason, says: str, tmp_path: Path
) -> None:
    with pytest.raises(SimulatorError) as error:
        run(does, tmp_path)
    assert (error.value.outcome, error.value.reason) == (outcome, reason)
    assert says in error.value.detail


@pytest.mark.usefixtures("openmpi")
def test_processes_that_do_not_see_each_other_are_no_parallel_run(tmp_path: Path) -> None:
    serial = "import os\nif os.environ['OMPI_COMM_WORLD_RANK'] == '0': " + writes("{'result': {}, 'ranks': 1}")
    with pytest.raises(SimulatorError, match=r"program_missing.*2 processes were started, and the script sees 1"):
        run(serial, tmp_path, ranks=2)


@pytest.mark.usefixtures("gpaw_program", "openmpi")
def test_the_ranks_of_gpaw_see_each_other(tmp_path: Path) -> None:
    script = tmp_path / "world.py"
    script.write_text(
        "import json\nfrom gpaw.mpi import world\nimport numpy as np\n"
        "total = np.array([1.0 + world.rank])\nworld.sum(total)\n"
        "if world.rank == 0:\n"
        "    with open('OUTPUT.json', 'w') as file:\n"
        "        json.dump({'result': {'sum': total[0]}, 'ranks': world.size}, file)\n"
    )
    answer = run_script(GPAW, script, {}, tmp_path / "work", ranks=3)
    assert answer.result == {"sum": 6.0}
    assert set(answer.versions) == {"gpaw", "openmpi"}
