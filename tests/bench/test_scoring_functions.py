"""Scores equal those of MolScore and of TDC themselves, as `benchmarks/pmo/reference.py` wrote them down."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from sciagent_bench.pmo.molscore_files import MolScoreFiles
from sciagent_bench.pmo.pickled_models import ActivityModel
from sciagent_bench.pmo.scoring_functions import (
    DefinedBy,
    element_counts,
    geometric_mean,
    isomer_score,
    molecule,
    scorer,
)
from sciagent_bench.pmo.task_runs import task_names

HERE = Path(__file__).parent
BENCHMARK = HERE.parent.parent / "benchmarks" / "pmo"
MODELLED = ("DRD2", "GSK3B", "JNK3")
TASKS = [task for task in task_names() if task not in MODELLED]


@cache
def rows(definition: str) -> list[dict[str, str]]:
    with (BENCHMARK / f"{definition}_scores.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@cache
def mols() -> list[Any]:
    return [molecule(row["smiles"]) for row in rows("tdc")]


def no_model(name: str) -> ActivityModel:
    raise AssertionError(f"{name} is no model of these tasks")


def scores(task: str, definition: DefinedBy) -> list[float]:
    score = scorer(MolScoreFiles(HERE / "molscore").task(task), definition, no_model)
    return [score(mol) for mol in mols()]


@pytest.mark.parametrize("definition", get_args(DefinedBy))
@pytest.mark.parametrize("task", TASKS)
def test_a_task_has_the_scores_of_the_package_that_defines_it(task: str, definition: DefinedBy) -> None:
    expected = [float(row[task]) for row in rows(definition)]
    assert len(expected) == 130
    rounded = task == "Valsartan_smarts"  # MolScore gives the complexity of sitagliptin with two decimals
    assert scores(task, definition) == pytest.approx(expected, rel=1e-4 if rounded else 1e-6, abs=1e-15)


def test_the_tables_cover_all_tasks_and_tell_the_definitions_apart() -> None:
    assert set(rows("tdc")[0]) == {"smiles", *task_names()}
    assert set(rows("molscore")[0]) == {"smiles", *TASKS}
    assert [row["smiles"] for row in rows("tdc")] == [row["smiles"] for row in rows("molscore")]
    apart: Mapping[str, float] = {
        task: max(abs(float(a[task]) - float(b[task])) for a, b in zip(rows("tdc"), rows("molscore"), strict=True))
        for task in TASKS
    }
    assert {task for task, difference in apart.items() if difference > 0.05} >= {"Deco_hop", "Osimertinib_MPO"}


def test_an_element_that_the_formula_lacks_lowers_the_score_in_molscore_only() -> None:
    wanted = element_counts("C2H6O")
    mol = molecule("CCS")  # as many atoms, with sulfur in place of oxygen
    by_tdc = isomer_score(wanted, "tdc")(mol)
    by_molscore = isomer_score(wanted, "molscore")(mol)
    assert by_tdc == pytest.approx(2.718281828 ** (-0.5 / 4))
    assert by_molscore == pytest.approx(2.718281828 ** (-1.0 / 5))


def test_a_formula_is_counted_and_its_charge_ignored() -> None:
    assert element_counts("C9H10N2O2PF2Cl+2") == {"C": 9, "H": 10, "N": 2, "O": 2, "P": 1, "F": 2, "Cl": 1}


def test_the_geometric_mean_with_a_zero_is_zero() -> None:
    assert geometric_mean([0.5, 0.0]) == 0.0
    assert geometric_mean([0.25, 1.0]) == pytest.approx(0.5)


def test_a_text_that_is_no_molecule_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot read the SMILES"):
        molecule("C1CC")
