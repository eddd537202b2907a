"""`sciagent calc` as it is typed."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pymatgen.core import Lattice, Structure

from sciagent.api import calc_and_answer_tables
from sciagent.api.calc_and_answer_tables import answers_of
from sciagent.cli import verifiers_and_calc
from sciagent.cli.verifiers_and_calc import nested
from sciagent.domain.answers.candidate_and_value_answers import CalculatedCandidate, json_schema
from sciagent.domain.states_and_needs import ReportedProgress
from sciagent.errors import UsageError
from tests.support.typed import call, refused, told


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCIAGENT_LEDGER", str(tmp_path / "calc.db"))


def test_a_file_becomes_tab_separated_numbers_with_names_and_a_bad_row_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("smiles,compound_id\nCCO,A1\nCC#N,A2\nnothing,A3\n")
    result = call("calc", "molecule.checks", "--file", "m.csv")
    assert result.exit_code == 1 and "nothing: refused (unparsable)" in result.stderr
    rows = list(csv.DictReader(io.StringIO(result.stdout), delimiter="\t"))
    assert [(row["compound_id"], row["smiles"], row["outcome"]) for row in rows] == [
        ("A1", "CCO", "ok"),
        ("A2", "CC#N", "ok"),
        ("A3", "nothing", "refused"),
    ]
    assert float(rows[0]["molecular_weight [g/mol]"]) == pytest.approx(46.07)
    listed = json.loads(call("calc", "molecule.checks", "--file", "m.csv", "--json").stdout)
    jsonschema.validate(listed, json_schema(list[CalculatedCandidate]))
    assert listed[0]["names"] == {"compound_id": ["A1"]} and listed[0]["reused"]


def test_a_molecule_without_a_value_has_its_line_in_a_pipe() -> None:
    result = call("calc", "molecule.checks", "nothing")
    rows = list(csv.DictReader(io.StringIO(result.stdout), delimiter="\t"))
    assert [(row["smiles"], row["outcome"]) for row in rows] == [("nothing", "refused")]


def test_a_file_that_cannot_be_read_as_a_structure_is_named_and_not_printed(tmp_path: Path) -> None:
    lattice = Lattice.cubic(4)
    Structure(lattice, [{"Na": 0.5, "K": 0.5}, "Cl"], [[0, 0, 0], [0.5, 0.5, 0.5]]).to(filename=tmp_path / "mixed.cif")
    assert "mixed.cif: refused (unparsable): partly" in call("calc", "crystal.checks", "mixed.cif").stderr


def test_a_signal_ends_it_with_the_numbers_that_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped_after_one(*arguments: Any, **settings: Any) -> Iterator[CalculatedCandidate]:
        for answer in answers_of(*arguments, **settings):
            yield answer
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(calc_and_answer_tables, "answers_of", stopped_after_one)
    result = call("calc", "molecule.checks", "CCO", "CC#N")
    assert result.exit_code == 130 and "interrupted; the same command goes on" in result.stderr
    assert [row["smiles"] for row in csv.DictReader(io.StringIO(result.stdout), delimiter="\t")] == ["CCO"]


def test_settings_may_be_nested_and_have_any_value() -> None:
    assert nested(["a.b=5", "a.c=[H, C]", "d=yes"]) == {"a": {"b": 5, "c": ["H", "C"]}, "d": "yes"}
    with pytest.raises(UsageError, match="a value of its own"):
        nested(["a=1", "a.b=2"])
    assert "KEY=VALUE" in refused("calc", "molecule.checks", "CCO", "--set", "elements")
    assert "--file" in refused("calc", "molecule.checks")


def test_a_terminal_shows_a_row_for_each_property_of_one_molecule_and_the_level_below() -> None:
    text = told("calc", "molecule.checks", "CCO", width=80)
    assert "46.07 g/mol" in text and "level: RDKit" in text


def test_a_terminal_says_what_the_uncertainty_is_and_what_it_is_not() -> None:
    text = told("calc", "xtb.solvation", "OCO", width=200)
    assert "± is the repeatability over conformer searches, usual for such molecules" in text
    assert "the method's error is a figure of its own: sciagent verifiers xtb.solvation" in text


def test_a_remark_on_a_good_answer_is_shown_below_it() -> None:
    result = call("calc", "xtb.thermo", "CC(C)=O")
    assert result.exit_code == 0
    assert "CC(C)=O: displaced both ways along 62i cm^-1" in " ".join(result.stderr.split())


def test_a_long_calculation_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hear = verifiers_and_calc.heard_now_and_then()
    hear("key", ReportedProgress(1, 4, "box 1 of 3"))
    assert capsys.readouterr().err == "", "nothing within the first seconds"
    monkeypatch.setattr(verifiers_and_calc, "HEARD_SECONDS", 0.0)
    hear("key", ReportedProgress(2, 4, "box 2 of 3"))
    assert "50 %: box 2 of 3" in capsys.readouterr().err
