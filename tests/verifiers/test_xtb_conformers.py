from __future__ import annotations

from pathlib import Path

import pytest
from ase.io import read
from pydantic import ValidationError

from sciagent.chemistry.molecule import parse_molecule
from sciagent.verification.verifier_contract import Context, Outcome, Reason
from sciagent_verifiers.simulation.xtb_conformers import XtbConformers


@pytest.fixture
def context(tmp_path) -> Context:
    return Context(scratch=tmp_path, checkpoint=tmp_path)


def finding(smiles, context, settings=None):
    return next(iter(XtbConformers(settings).verify([parse_molecule(smiles)], context)))


def values(found):
    return {one.property: one.quantity.value for one in found.measured}


def test_butane_at_room_temperature(context):
    """Anti and two gauche 0.6 kcal/mol above: 59 % anti; -kT ln(1 + 2 exp(-0.62/0.593)) = -0.32 kcal/mol."""
    found = finding("CCCC", context)
    assert found.outcome is Outcome.OK
    assert values(found)["conformers"] == 3
    assert values(found)["lowest_conformer_weight"] == pytest.approx(0.59, abs=0.02)
    assert values(found)["conformational_free_energy"] == pytest.approx(-0.32 * 0.04336, abs=5e-4)
    assert values(found)["dipole"] < 0.1
    assert values(found)["total_energy"] == pytest.approx(-13.66512773 * 27.211386, abs=1e-3)
    assert {m.level.label for m in found.measured} == {
        "GFN2-xTB//GFN2-xTB//ETKDGv3, ensemble of 4 kcal/mol at 298.15 K"
    }
    assert {m.property for m in found.measured} == {p.property.name for p in XtbConformers().measures}


def test_all_structures_are_in_one_file_with_their_weights(context):
    found = finding("ClCCCl", context, {"embed": 20})
    (artifact,) = found.artifacts
    assert Path(artifact.path).parent == context.scratch
    frames = read(artifact.path, index=":", format="extxyz")
    assert len(frames) == values(found)["conformers"] == 3
    assert frames[0].info["weight"] == pytest.approx(values(found)["lowest_conformer_weight"], abs=1e-4)
    assert sum(frame.info["weight"] for frame in frames) == pytest.approx(1, abs=1e-4)


def test_temperature_and_window_are_part_of_the_level_and_do_something(context):
    cold = finding("CCCC", context, {"temperature": 50, "embed": 20})
    assert values(cold)["lowest_conformer_weight"] > 0.99
    narrow = finding("CCCC", context, {"window": 0.3, "embed": 20})
    assert values(narrow)["conformers"] == 1 and values(narrow)["conformational_free_energy"] == 0
    assert narrow.measured[0].level != cold.measured[0].level


def test_the_same_candidate_gives_the_same_ensemble(context):
    first, again = (finding("CCO", context, {"embed": 10}) for _ in range(2))
    assert values(first) == pytest.approx(values(again), rel=1e-9)
    assert first.diagnostics["seed"] == again.diagnostics["seed"]


def test_what_cannot_turn_has_one_conformer_and_no_free_energy(context):
    found = finding("c1ccccc1", context)
    assert values(found)["conformers"] == 1
    assert values(found)["conformational_free_energy"] == 0
    assert {m.quantity.uncertainty for m in found.measured if m.property.startswith("conform")} == {0.0}


def test_open_diastereomers_are_refused_and_a_racemate_is_not():
    refused = XtbConformers().accepts(parse_molecule("CC(O)C(N)CC"))
    assert refused is not None and refused.reason is Reason.UNDEFINED_STEREO
    assert XtbConformers().accepts(parse_molecule("CC(F)Cl")) is None


def test_a_zwitterion_needs_its_solvent(context):
    gas = finding("[NH3+]CC(=O)[O-]", context, {"embed": 4})
    assert (gas.outcome, gas.reason) == (Outcome.UNSTABLE, Reason.BOND_CHANGED)
    water = finding("[NH3+]CC(=O)[O-]", context, {"embed": 4, "solvent": "water"})
    assert water.outcome is Outcome.OK and values(water)["dipole"] > 10
    assert water.measured[0].level.label.startswith("GFN2-xTB+ALPB(water)//GFN2-xTB(water)//ETKDGv3x4")


def test_cost_grows_with_size_and_embedding():
    small, large = parse_molecule("CCO"), parse_molecule("CC(C)Cc1ccc(cc1)C(C)C(=O)O")
    cost = XtbConformers().cost
    assert cost(small)["core_seconds"] < 1 < cost(large)["core_seconds"] < 60
    assert XtbConformers({"embed": 1000}).cost(large)["core_seconds"] > cost(large)["core_seconds"]


@pytest.mark.parametrize("settings", [{"window": 0}, {"embed": 0}, {"temperature": -1}, {"conformers": 3}])
def test_settings_out_of_bounds_are_refused(settings):
    with pytest.raises(ValidationError):
        XtbConformers(settings)
