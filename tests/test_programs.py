"""Programs are found by their variable or on the path, and believed only when they say who they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sciagent.errors import SimulatorError
from sciagent.programs import CREST, GAUSSIAN, GPAW, ORCA, PROGRAMS, XTB, find
from sciagent.verification.sandbox.host import START_SECONDS
from sciagent.verification.sandbox.zygote import IMPORT_SECONDS
from tests.support import fake_programs


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for program in PROGRAMS:
        monkeypatch.delenv(program.variable, raising=False)


@fake_programs.needs_xtb
def test_xtb_of_the_system_is_found_with_its_version() -> None:
    found = find(XTB)
    assert found.path.name == "xtb" and found.version[0].isdigit()


@pytest.mark.parametrize(
    ("program", "command", "version"),
    [(ORCA, "orca", "6.0.1"), (GAUSSIAN, "g16", "16 C.01"), (CREST, "crest", "3.0.2")],
)
def test_a_program_on_the_path_states_its_version(
    program, command: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = fake_programs.put(tmp_path / "bin", command, "exit 1", monkeypatch)
    assert find(program) == type(find(program))(file, version)


def test_the_screen_reader_of_that_name_is_not_orca(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "orca").write_text("#!/bin/sh\necho 43.1\n")
    (tmp_path / "orca").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(SimulatorError, match=r'orca is not ORCA: it answers "43.1"\); .*SCIAGENT_ORCA=') as error:
        find(ORCA)
    assert (error.value.outcome, error.value.reason) == ("bad_environment", "program_missing")
    real = fake_programs.put(tmp_path / "real", "orca", "exit 1", monkeypatch)
    monkeypatch.setenv("PATH", f"{tmp_path}:{tmp_path / 'real'}:/usr/bin:/bin")
    assert find(ORCA).path == real  # the next on the path


def test_the_variable_goes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_programs.put(tmp_path / "a", "orca", "exit 1", monkeypatch)
    named = fake_programs.put(tmp_path / "b", "orca", "exit 2", monkeypatch)
    monkeypatch.setenv("SCIAGENT_ORCA", str(named))
    monkeypatch.setenv("PATH", f"{tmp_path / 'a'}:/usr/bin:/bin")
    assert find(ORCA).path == named
    monkeypatch.setenv("SCIAGENT_ORCA", str(tmp_path / "nowhere"))
    with pytest.raises(SimulatorError, match=r"SCIAGENT_ORCA names .*nowhere, which is no executable file"):
        find(ORCA)
    monkeypatch.delenv("SCIAGENT_ORCA")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SimulatorError, match="no orca on the path"):
        find(ORCA)


def test_a_replaced_program_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = fake_programs.put(tmp_path, "orca", "exit 1", monkeypatch)
    assert find(ORCA).version == "6.0.1"
    file.write_text(file.read_text().replace("6.0.1", "6.1.0-f.1"))
    assert find(ORCA).version == "6.1.0"


def test_a_program_that_was_slow_once_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warm = tmp_path / "warm"
    slow = f"if [ -e {warm} ]; then echo 'Program Version 6.0.1 '; else touch {warm}; sleep 9; fi"
    (tmp_path / "orca").write_text(f"#!/bin/sh\n{slow}\n")
    (tmp_path / "orca").chmod(0o755)
    monkeypatch.setenv("SCIAGENT_ORCA", str(tmp_path / "orca"))
    impatient = replace(ORCA, patience=1)
    with pytest.raises(SimulatorError, match="prints no version within 1 s"):
        find(impatient)
    assert find(impatient).version == "6.0.1"


def test_a_python_that_imports_a_package_has_more_time() -> None:
    assert GPAW.patience > 4 * ORCA.patience and GPAW.patience + IMPORT_SECONDS < START_SECONDS
