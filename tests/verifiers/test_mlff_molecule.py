"""The verifier mlff.molecule: ensembles by SO3LR, what it refuses, and models of the user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ase.io import read
from pydantic import ValidationError

pytest.importorskip("so3krates_torch")

from sciagent.chemistry.molecule import parse_molecule
from sciagent.errors import UsageError
from sciagent.verification.verifier_contract import Context, Finding, Outcome, Reason
from sciagent_verifiers.simulation.mlff_molecule import MlffMolecule, atomic_numbers

GFN2 = {
    "name": "GFN2", "package": "tblite", "calculator": "tblite.ase:TBLite",
    "arguments": {"method": "GFN2-xTB", "verbosity": 0}, "elements": ["H", "C", "O"], "functional": "GFN2-xTB",
}  # fmt: skip


def finding(smiles: str, folder: Path, settings: Any = None) -> Finding:
    context = Context(scratch=folder, checkpoint=folder)
    return next(iter(MlffMolecule(settings).verify([parse_molecule(smiles)], context)))


def values(found: Finding) -> dict[str, float]:
    return {row.property: row.quantity.value for row in found.measured}


def test_ethanol_has_three_conformers_of_nearly_one_energy(tmp_path: Path) -> None:
    """Experiment: anti and two gauche forms within 0.12 kcal/mol, so that -kT ln 3 = -0.65 kcal/mol is the bound."""
    found = finding("CCO", tmp_path, {"embed": 6})
    assert found.outcome is Outcome.OK, found.detail
    assert values(found)["conformers"] == 3
    assert values(found)["conformational_free_energy"] == pytest.approx(-0.62 * 0.04336, abs=4e-3)
    assert values(found)["dipole"] == pytest.approx(1.6, abs=0.2)
    assert {row.level.label for row in found.measured} == {
        "SO3LR/PBE0+MBD//SO3LR//ETKDGv3x6, ensemble of 4 kcal/mol at 298.15 K"
    }
    assert all(row.quantity.uncertainty > 0 for row in found.measured)
    assert found.versions["So3krates-torch"]
    (artifact,) = found.artifacts
    assert len(read(artifact.path, index=":", format="extxyz")) == 3


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("C[Si](C)(C)C", Reason.ELEMENT),
        ("CBr", Reason.ELEMENT),
        ("C[Zn]C", Reason.ELEMENT),
        ("CC(=O)[O-]", Reason.CHARGE),
        ("C[NH3+]", Reason.CHARGE),
        ("[CH3]", Reason.RADICAL),
        ("C" * 60, Reason.TOO_LARGE),
        ("CC=CC(O)C", Reason.UNDEFINED_STEREO),
    ],
)
def test_what_the_model_does_not_know_is_refused_by_name(smiles: str, reason: Reason) -> None:
    refusal = MlffMolecule().accepts(parse_molecule(smiles))
    assert refusal is not None and refusal.reason is reason


def test_ordinary_molecules_are_accepted_and_priced() -> None:
    verifier = MlffMolecule()
    small = parse_molecule("CCO")
    large = parse_molecule("CCCCCCCCOC(=O)c1ccccc1")
    assert verifier.accepts(small) is None and verifier.accepts(large) is None
    assert 1 < verifier.cost(small)["core_seconds"] < verifier.cost(large)["core_seconds"] < 200
    assert sorted(atomic_numbers(small)) == [1] * 6 + [6, 6, 8]
    assert verifier.lacks() is None and verifier.runs_in is None


def test_a_model_of_the_user_has_its_own_level_and_domain(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(json.dumps(GFN2))
    settings = {"model": "file", "weights": str(tmp_path / "model.json"), "embed": 4}
    verifier = MlffMolecule(settings)
    assert verifier.level.method.startswith("GFN2:") and verifier.level.basis == "GFN2-xTB"
    assert "dipole" not in {row.property.name for row in verifier.measures}
    refusal = verifier.accepts(parse_molecule("CN"))
    assert refusal is not None and refusal.reason is Reason.ELEMENT
    found = finding("CO", tmp_path, settings)
    assert values(found)["conformers"] == 1 and values(found)["total_energy"] == pytest.approx(-223.6, abs=0.5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "so3"}, "so3lr"),
        ({"model": "file"}, "weights: FILE"),
        ({"weights": "FILE"}, "model: file"),
        ({"model": "file", "weights": "FILE"}, "declares no model"),
    ],
)
def test_settings_that_fit_no_model_are_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("{}")
    if "weights" in settings:
        settings = settings | {"weights": str(tmp_path / "empty.json")}
    with pytest.raises((ValidationError, UsageError), match=message):
        MlffMolecule(settings)
