"""Programs are found by their variable or on the path, and believed only when they say who they are.

Verifiers declare them; sciagent itself names none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sciagent.errors import SimulatorError
from sciagent.programs import find
from sciagent.verification import declarations_and_availability
from sciagent.verification.declarations_and_availability import declared_programs
from sciagent.verification.sandbox.host import START_SECONDS
from sciagent.verification.sandbox.zygote import IMPORT_SECONDS
from sciagent.verification.verifier_registry import verifier_class
from sciagent_simulators.periodic.gpaw_calculation_and_band_gap import GPAW
from sciagent_simulators.programs.gaussian import GAUSSIAN
from sciagent_simulators.programs.orca import ORCA
from sciagent_simulators.programs.xtb_and_crest import CREST, XTB
from tests.support import fake_programs
from tests.support.plugins import installed
from tests.support.typed import data

SCIAGENT = Path(__file__).parents[1] / "sciagent"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for program in declared_programs():
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


def code_words(module: ast.Module) -> Iterator[str]:
    """Yields the names and texts of a module, without its docstrings."""
    documentation = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.name


def test_sciagent_itself_names_no_program() -> None:
    """Texts may name verifiers (xtb.singlepoint), methods (GFN2-xTB) and the Gaussian distribution."""
    names = {
        name
        for program in declared_programs()
        for name in (program.name, program.title, program.variable, program.scratch_variable, *program.commands)
    }
    assert {"ORCA", "SCIAGENT_XTB", "g16", "mpiexec", "GAUSS_SCRDIR"} <= names
    words = "|".join(map(re.escape, names - {"", "Gaussian", "python", "python3"}))
    named = re.compile(rf"(?<![\w.-])({words})(?![\w.-])")
    found = []
    for file in sorted(SCIAGENT.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if named.search(text):
            found += [f"{file.name}: {word}" for word in code_words(ast.parse(text)) if named.search(word)]
    assert found == []


def test_a_program_is_known_by_the_verifier_that_declares_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package has a module that runs the program, and a verifier that declares it. The program is a script."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "abacus"
    assert "abacus" not in [program.name for program in declared_programs()]
    with installed("abacus", tmp_path / "site"):
        missing = verifier_class("acme.beads").missing()
        assert missing is not None and missing.endswith("or name its file: export ACME_ABACUS=/path/to/abacus")
        file.write_text('#!/bin/sh\nif [ "$1" = --version ]; then echo Abacus 2.1; else wc -c < beads.txt; fi\n')
        file.chmod(0o755)
        monkeypatch.setenv("ACME_ABACUS", str(file))
        checks = {check["what"]: check for check in data("doctor")}
        assert checks["program abacus"] == {"what": "program abacus", "state": "ok", "detail": f"2.1, {file}"}
        [entry] = declarations_and_availability.entry("acme.beads", {})["programs"]
        assert (entry["title"], entry["version"], entry["path"]) == ("Abacus", "2.1", str(file))
        [answer] = data("calc", "acme.beads", "CCO")
        [value] = answer["values"]
    assert (value["property"], value["value"]) == ("acme_beads", 9.0)
