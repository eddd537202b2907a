from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from sciagent.chemistry.molecule import parse_molecule
from sciagent.verification.verifier_contract import Context, Outcome
from sciagent_verifiers.high_fidelity.pyscf_orbitals_dipole_energy import PyscfScf
from sciagent_verifiers.simulation.xtb_singlepoint import XtbSinglepoint
from tests.verifiers.ground_states import QUICK, context, finding, values

__all__ = ["context"]


@pytest.mark.long
def test_the_gap_of_thiophene_is_the_one_the_prior_was_measured_with(context):
    """6.65 eV, PBE0/def2-SVP on a GFN2 geometry, grid 2, by an independent script."""
    found = finding("c1ccsc1", context, {"grid": 2, "spin_check": "off"})
    assert values(found)["homo_lumo_gap"] == pytest.approx(6.65, abs=0.01)
    assert found.diagnostics["basis_functions"] == PyscfScf().basis_functions(parse_molecule("c1ccsc1")) == 94


def test_a_finding_holds_five_properties_at_the_level_of_its_settings(context):
    found = finding("O", context, QUICK | {"dispersion": "d3bj"})
    assert found.outcome is Outcome.OK
    assert [m.property for m in found.measured] == ["homo", "lumo", "homo_lumo_gap", "dipole", "total_energy"]
    assert {m.level.label for m in found.measured} == {"PBE0-D3(BJ)/def2-SVP//GFN2-xTB//ETKDGv3x10"}
    assert found.diagnostics["spin_check"]["triplet_tda"] > 5


def test_both_rungs_of_the_ladder_see_the_same_geometry(context, tmp_path):
    """Whichever runs first, in whichever folder."""
    dear = finding("OC=O", context, QUICK | {"spin_check": "off"})
    texts = [Path(dear.artifacts[0].path).read_text()]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    cheap = next(iter(XtbSinglepoint().verify([parse_molecule("OC=O")], Context(elsewhere, elsewhere))))
    texts.append(Path(cheap.artifacts[0].path).read_text())
    assert texts[0] == texts[1]
    assert dear.diagnostics["seed"] == cheap.diagnostics["seed"]


def test_a_checkpoint_is_left_where_the_next_attempt_finds_it(context):
    assert not finding("O", context, QUICK).diagnostics["resumed"]
    assert finding("O", context, QUICK).diagnostics["resumed"]


def test_force_field_geometry_is_another_level(context):
    found = finding("O", context, QUICK | {"geometry": {"method": "mmff94", "conformers": 1}})
    assert found.measured[0].level.geometry == "MMFF94//ETKDGv3x1"


@pytest.mark.parametrize(
    ("smiles", "low", "high"), [("CCO", 2, 9), ("c1ccccc1", 10, 20), ("O=C1C=CC(=O)c2ccccc12", 40, 80)]
)
def test_cost_is_near_what_was_measured(smiles, low, high):
    """6.6, 14 and about 66 core-seconds."""
    assert low < PyscfScf().cost(parse_molecule(smiles))["core_seconds"] < high


@pytest.mark.parametrize(
    "settings",
    [{"functonal": "PBE0"}, {"functional": "PBE00"}, {"functional": "M06-2X", "dispersion": "d4"}, {"grid": 9}],
)
def test_wrong_settings_are_refused(settings):
    with pytest.raises(ValidationError):
        PyscfScf(settings)
