from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from sciagent.chemistry.molecule import parse_molecule
from sciagent.verification.contract import Context, Outcome, Reason
from sciagent_verifiers.high_fidelity.pyscf_scf import PyscfScf
from sciagent_verifiers.simulation.xtb_singlepoint import XtbSinglepoint

QUICK = {"grid": 1}


@pytest.fixture
def context(tmp_path) -> Context:
    return Context(scratch=tmp_path, checkpoint=tmp_path)


def finding(smiles, context, settings=None, multiplicity=None):
    verifier = PyscfScf(settings)
    return next(iter(verifier.verify([parse_molecule(smiles, multiplicity=multiplicity)], context)))


def values(found):
    return {one.property: one.quantity.value for one in found.measured}


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
    ("smiles", "multiplicity", "reason"),
    [
        ("O=O", 1, Reason.TRIPLET_GROUND_STATE),
        ("N=O", None, Reason.SCF_UNSTABLE),
        ("[OH-]", None, Reason.ANION_UNBOUND),
    ],
)
def test_what_is_no_ground_state_is_unstable_with_its_reason(context, smiles, multiplicity, reason):
    found = finding(smiles, context, QUICK, multiplicity)
    assert (found.outcome, found.reason) == (Outcome.UNSTABLE, reason)
    assert found.detail and found.diagnostics and found.measured == ()


@pytest.mark.parametrize(
    ("smiles", "multiplicity", "settings", "reason"),
    [
        ("CCCC", 1, {"max_atoms": 13}, Reason.TOO_LARGE),
        ("Cl[Ce](Cl)Cl", 2, {}, Reason.ELEMENT),
        ("F[U](F)(F)F", 3, {}, Reason.ELEMENT),
    ],
)
def test_refusals(smiles, multiplicity, settings, reason):
    refused = PyscfScf(settings).accepts(parse_molecule(smiles, multiplicity=multiplicity))
    assert refused is not None and refused.reason is reason


def test_a_spin_that_does_not_fit_never_becomes_a_calculation(context):
    molecule = parse_molecule("[H+]", multiplicity=1)
    refused = PyscfScf().accepts(molecule)
    assert refused is not None and refused.reason is Reason.MULTIPLICITY


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


@pytest.mark.parametrize(
    "functional", ["B3LYP", "CAM-B3LYP", "M06-2X", "TPSSh", "r2SCAN0", "PBE", "BLYP", "BP86", "HF"]
)
def test_every_functional_on_the_list_runs(context, functional):
    found = finding("[HH]", context, QUICK | {"functional": functional, "spin_check": "off"})
    assert found.outcome is Outcome.OK
    assert values(found)["total_energy"] == pytest.approx(-31.96, abs=1.5)  # H2: -1.1745 hartree, exactly
