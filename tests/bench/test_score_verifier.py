"""The verifier `bench.pmo` gives the score of its task, wherever MolScore's files lie."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.verification.verifier_contract import Context, Finding
from sciagent.verification.verifier_registry import check_measures, provider, verifier_class
from sciagent_bench.pmo.score_verifier import BenchPmo

UNPACKED = Path(__file__).parent / "molscore"


def verifier(task: str = "QED", **settings: Any) -> BenchPmo:
    return BenchPmo({"task": task, "data": "molscore", **settings}, UNPACKED.parent)


def found(chosen: BenchPmo, smiles: str, folder: Path) -> Finding:
    [finding] = chosen.verify([parse_molecule(smiles)], Context(folder, folder))
    return finding


def test_it_is_installed_under_its_name_and_measures_a_registered_property() -> None:
    assert verifier_class("bench.pmo") is BenchPmo
    check_measures(verifier(), provider("bench.pmo"))


def test_a_score_has_no_uncertainty_and_names_the_definition(tmp_path: Path) -> None:
    finding = found(verifier(), "CC(=O)Oc1ccccc1C(=O)O", tmp_path)
    [score] = finding.measured
    assert (score.property, score.level.label) == ("pmo_score", "TDC QED")
    assert score.quantity.value == pytest.approx(0.5501, abs=1e-4)
    assert (score.quantity.unit, score.quantity.uncertainty) == ("1", 0.0)
    assert verifier(definition="molscore").measures[0].level.label == "MolScore 1.9.5 QED"


def test_the_hash_names_task_and_definition_but_not_where_the_files_lie(tmp_path: Path) -> None:
    elsewhere = BenchPmo({"task": "QED", "data": str(shutil.copytree(UNPACKED, tmp_path / "copy"))}, tmp_path)
    assert elsewhere.settings_hash == verifier().settings_hash
    hashes = {verifier().settings_hash, verifier("Zaleplon_MPO").settings_hash}
    assert len({*hashes, verifier(definition="molscore").settings_hash}) == 3


def test_the_process_that_scores_gets_the_path(tmp_path: Path) -> None:
    sent = BenchPmo(verifier().request_settings)
    assert sent.settings.data.path == str(UNPACKED)
    assert found(sent, "CCO", tmp_path).outcome is Outcome.OK


def test_files_that_are_gone_are_a_bad_environment(tmp_path: Path) -> None:
    copied = shutil.copytree(UNPACKED, tmp_path / "copy")
    chosen = BenchPmo({"task": "Median_molecules_1", "data": "copy"}, tmp_path)
    shutil.rmtree(copied)
    finding = found(chosen, "CCO", tmp_path)
    assert (finding.outcome, finding.reason) == (Outcome.BAD_ENVIRONMENT, Reason.REFERENCE_FILE)


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"task": "Sildenafil", "data": "molscore"}, "Albuterol_similarity"),
        ({"task": "QED", "data": "nowhere.whl"}, "neither a wheel of MolScore nor a folder"),
        ({"task": "QED", "data": {"path": "molscore", "version": "1.9.4"}}, "1.9.5"),
        ({"task": "QED"}, "Field required"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        BenchPmo(settings, UNPACKED.parent)


def test_no_score_is_given_away_without_a_call() -> None:
    assert verifier().glance(parse_molecule("CCO"), ("pmo_score",)) is None
