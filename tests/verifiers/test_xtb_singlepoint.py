from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.domain.properties_and_levels import DIPOLE, HOMO, HOMO_LUMO_GAP, LUMO
from sciagent.errors import SimulatorError
from sciagent.verification.verifier_contract import Context, Outcome, Reason
from sciagent_simulators.low_conformers_and_search_spread import SearchFreedom
from sciagent_verifiers.simulation.xtb_singlepoint import RIGID, SPREADS, XtbSinglepoint


@pytest.fixture
def context(tmp_path) -> Context:
    return Context(scratch=tmp_path, checkpoint=tmp_path)


def finding(smiles, context, settings=None, multiplicity=None):
    verifier = XtbSinglepoint(settings)
    return next(iter(verifier.verify([parse_molecule(smiles, multiplicity=multiplicity)], context)))


def values(found):
    return {one.property: one.quantity.value for one in found.measured}


def test_gaps_are_the_ones_the_prior_was_measured_with(context):
    """GFN2 gaps, eV, from an independent script with its own geometries: benzene 4.94, thiophene 4.10."""
    for smiles, gap in (("c1ccccc1", 4.94), ("c1ccsc1", 4.10)):
        assert values(finding(smiles, context))["homo_lumo_gap"] == pytest.approx(gap, abs=0.02)


def test_a_finding_holds_five_properties_their_level_and_uncertainty(context):
    found = finding("O", context)
    assert found.outcome is Outcome.OK and found.reason is None
    assert [m.property for m in found.measured] == ["homo", "lumo", "homo_lumo_gap", "dipole", "total_energy"]
    assert {m.level.label for m in found.measured} == {"GFN2-xTB//GFN2-xTB//ETKDGv3x10"}
    assert all(m.quantity.uncertainty for m in found.measured)
    assert {m.property for m in found.measured} == {p.property.name for p in XtbSinglepoint().measures}


def test_gap_is_lumo_minus_homo(context):
    found = values(finding("C=O", context))
    assert found["homo_lumo_gap"] == pytest.approx(found["lumo"] - found["homo"], abs=1e-9)


def test_the_geometry_is_left_as_an_artifact(context):
    (artifact,) = finding("C=O", context).artifacts
    assert Path(artifact.path).parent == context.scratch
    assert Path(artifact.path).read_text().splitlines()[0] == "4"


def test_the_same_candidate_gives_the_same_numbers_and_another_replicate_another_seed(context, tmp_path):
    first, again = finding("OCCO", context), finding("OCCO", context)
    assert values(first) == pytest.approx(values(again), rel=1e-9)  # the order of sums in BLAS may differ
    other = finding("OCCO", Context(scratch=tmp_path, checkpoint=tmp_path, replicate=1))
    assert other.diagnostics["seed"] != first.diagnostics["seed"]


def test_a_rigid_molecule_repeats_within_its_stated_uncertainty(tmp_path):
    gaps = [
        values(finding("c1ccoc1", Context(scratch=tmp_path, checkpoint=tmp_path, replicate=k)))["homo_lumo_gap"]
        for k in range(4)
    ]
    assert np.std(gaps, ddof=1) < 2 * RIGID[HOMO_LUMO_GAP]


def test_radicals_are_computed_with_their_multiplicity(context):
    """Methyl is planar: no dipole."""
    found = values(finding("[CH3]", context))
    assert found["dipole"] == pytest.approx(0.0, abs=0.02)


def test_a_proton_that_jumps_is_reported_with_its_reason(context):
    found = finding("[NH3+]CC(=O)[O-]", context)
    assert (found.outcome, found.reason) == (Outcome.UNSTABLE, Reason.BOND_CHANGED)
    assert found.measured == ()


def test_an_impossible_ring_is_reported_with_its_reason(context):
    assert finding("C1C#C1", context).reason is Reason.EMBEDDING_FAILED


@pytest.mark.parametrize(
    ("smiles", "multiplicity", "settings", "reason"),
    [
        ("CCCC", None, {"max_atoms": 13}, Reason.TOO_LARGE),
        ("F[U](F)(F)F", None, {}, Reason.ELEMENT),
        ("[H+]", 1, {}, Reason.MULTIPLICITY),
    ],
)
def test_refusals(smiles, multiplicity, settings, reason):
    refused = XtbSinglepoint(settings).accepts(parse_molecule(smiles, multiplicity=multiplicity))
    assert refused is not None and refused.reason is reason


def test_what_it_accepts():
    assert XtbSinglepoint().accepts(parse_molecule("CCO")) is None


def test_values_outside_their_bounds_are_no_result():
    verifier, molecule = XtbSinglepoint(), parse_molecule("O")
    with pytest.raises(SimulatorError, match="implausible_value"):
        verifier.measured(molecule, {HOMO_LUMO_GAP: 61.0})
    with pytest.raises(SimulatorError, match="implausible_value"):
        verifier.measured(molecule, {DIPOLE: float("nan")})


def test_what_does_not_exist_is_left_out_and_flexible_molecules_are_less_sure():
    (only,) = XtbSinglepoint().measured(parse_molecule("OCCO"), {HOMO: -10.0, LUMO: None})
    assert only.property == "homo" and only.quantity.uncertainty == SPREADS[SearchFreedom.POLAR][HOMO]


def test_cost_grows_with_size_and_conformers():
    small, large = parse_molecule("CCO"), parse_molecule("CC(C)Cc1ccc(cc1)C(C)C(=O)O")
    cost = XtbSinglepoint().cost
    assert cost(small)["core_seconds"] < 0.2 < cost(large)["core_seconds"] < 5
    dear = XtbSinglepoint({"geometry": {"conformers": 50}})
    assert dear.cost(large)["core_seconds"] > cost(large)["core_seconds"]


@pytest.mark.parametrize("settings", [{"metod": "GFN2-xTB"}, {"method": "GFN3"}, {"geometry": {"conformer": 3}}])
def test_unknown_settings_are_refused(settings):
    with pytest.raises(ValidationError):
        XtbSinglepoint(settings)


def test_settings_from_before_there_were_solvents_keep_their_hash():
    """Evidence in ledgers stands under it; a new setting is left out of it as long as it is not used."""
    before = {"method": "GFN2-xTB", "geometry": {"method": "gfn2", "conformers": 10}, "max_atoms": 200}
    assert XtbSinglepoint().settings_hash == content_hash(before)
    assert XtbSinglepoint({"solvent": None, "second_opinion": False}).settings_hash == content_hash(before)
    hashes = {XtbSinglepoint(s).settings_hash for s in ({}, {"solvent": "water"}, {"second_opinion": True})}
    assert len(hashes) == 3


def test_a_solvent_is_the_phase_of_the_level_and_polarises(context):
    gas, water = finding("CC(C)=O", context), finding("CC(C)=O", context, {"solvent": "water"})
    assert {m.level.label for m in water.measured} == {"GFN2-xTB+ALPB(water)//GFN2-xTB//ETKDGv3x10"}
    assert values(water)["dipole"] > values(gas)["dipole"] + 0.5
    assert values(water)["total_energy"] < values(gas)["total_energy"]
    relaxed = finding("CC(C)=O", context, {"solvent": "water", "geometry": {"solvent": "water"}})
    assert values(relaxed)["total_energy"] < values(water)["total_energy"] + 1e-3
