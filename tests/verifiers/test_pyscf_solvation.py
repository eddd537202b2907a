from __future__ import annotations

import pytest
from pydantic import ValidationError

from sciagent.chemistry.molecule import parse_molecule
from sciagent.verification.verifier_contract import Context, Outcome
from sciagent_verifiers.high_fidelity.pyscf_solvation import PyscfSolvation

QUICK = {"basis": "def2-SVP", "grid": 1, "spin_check": "off", "geometry": {"method": "gfn2", "conformers": 1}}
KCAL = 23.060547830619


@pytest.fixture
def context(tmp_path) -> Context:
    return Context(scratch=tmp_path, checkpoint=tmp_path)


def solvation(smiles, context, settings=None) -> float:
    """kcal/mol."""
    found = next(iter(PyscfSolvation(QUICK | (settings or {})).verify([parse_molecule(smiles)], context)))
    assert found.outcome is Outcome.OK
    return found.measured[0].quantity.value * KCAL


@pytest.fixture(scope="module")
def water(tmp_path_factory) -> float:
    """That of water in water, kcal/mol."""
    folder = tmp_path_factory.mktemp("water")
    return solvation("O", Context(scratch=folder, checkpoint=folder))


@pytest.mark.parametrize(("smiles", "experiment"), [("C", 2.00), ("CO", -5.10)])
def test_small_solutes_lie_near_experiment(context, smiles, experiment):
    """FreeSolv (Mobley, Guthrie 2014; water: Marenich et al. 2009), kcal/mol, 1 M to 1 M; largest error seen 1.7."""
    assert solvation(smiles, context) == pytest.approx(experiment, abs=1.5)


def test_water_lies_near_experiment(water):
    """From the same source, kcal/mol."""
    assert water == pytest.approx(-6.31, abs=1.5)


def test_electrostatic_models_agree_with_each_other_and_say_what_they_are(context):
    found = {model: solvation("O", context, {"solvent_model": model}) for model in ("IEF-PCM", "C-PCM", "ddCOSMO")}
    assert found["IEF-PCM"] == pytest.approx(found["C-PCM"], abs=0.1)
    assert found["ddCOSMO"] == pytest.approx(found["C-PCM"], abs=2.5)  # other radii
    assert PyscfSolvation({"solvent_model": "C-PCM"}).settings.level.method == "B3LYP+C-PCM electrostatic"
    assert PyscfSolvation().settings.level.label == "B3LYP+SMD/def2-SVPD(water)//GFN2-xTB//ETKDGv3x10"


def test_hexane_holds_water_less_than_water_does(context, water):
    """SMD in the alkane: experiment, water in hexadecane, about 0 kcal/mol."""
    assert solvation("O", context, {"solvent": "hexane"}) > water + 3


def test_settings():
    with pytest.raises(ValidationError):
        PyscfSolvation({"solvent": None})
    with pytest.raises(ValidationError):
        PyscfSolvation({"solvent": "aqua regia"})
    molecule = parse_molecule("CC(C)=O")
    assert 15 < PyscfSolvation({"basis": "def2-SVP"}).cost(molecule)["core_seconds"] < 60
