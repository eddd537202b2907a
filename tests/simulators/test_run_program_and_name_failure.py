"""How a program is run: its folder, its environment, and the reason where it gives nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.programs import run_program_and_name_failure
from sciagent_simulators.programs.orca import ORCA
from tests.support import fake_programs


def run(
    does: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **more: str
) -> run_program_and_name_failure.ProgramOutput:
    fake_programs.put(tmp_path / "bin", "orca", does, monkeypatch)
    return run_program_and_name_failure.run(ORCA, ["a.inp"], tmp_path / "work", 2, {"a.inp": "input\n"}, **more)


def test_a_program_runs_in_its_folder_with_its_input_and_its_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = run('cat "$1" -; echo $OMP_NUM_THREADS; pwd; echo oops >&2', tmp_path, monkeypatch, stdin="a.inp")
    assert output.text.split() == ["input", "input", "2", str(tmp_path / "work"), "oops"]
    assert (output.status, output.version) == (0, "6.0.1")
    assert (output.folder / run_program_and_name_failure.OUTPUT).read_text() == output.text


@pytest.mark.parametrize(
    ("does", "outcome", "reason"),
    [
        ("kill -9 $$", Outcome.CRASHED, Reason.SIGNAL),
        ("echo no space left on device; exit 1", Outcome.BAD_ENVIRONMENT, Reason.DISK_FULL),
        ("echo 'Error: the license has expired'; exit 1", Outcome.BAD_ENVIRONMENT, Reason.LICENCE),
        ("echo 'galloc:  could not allocate memory.'; exit 1", Outcome.OUT_OF_MEMORY, Reason.MEMORY_LIMIT),
        ("echo something else; exit 3", Outcome.CRASHED, Reason.EXCEPTION),
        ("exit 0", Outcome.CRASHED, Reason.NO_RESULT),
    ],
)
def test_each_way_to_fail_has_its_reason(
    does: str, outcome: Outcome, reason: Reason, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = run_program_and_name_failure.failed(run(does, tmp_path, monkeypatch), {}, "it has no energy")
    assert (error.outcome, error.reason) == (outcome, reason), error.detail
    assert error.detail.startswith("ORCA 6.0.1")


def test_endless_output_ends_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_program_and_name_failure, "MAX_OUTPUT", 1 << 20)
    with pytest.raises(SimulatorError, match=r"bad_result.* more than 1 MB of output"):
        run("exec yes", tmp_path, monkeypatch)
    assert (tmp_path / "work" / run_program_and_name_failure.OUTPUT).stat().st_size < 2 << 20
