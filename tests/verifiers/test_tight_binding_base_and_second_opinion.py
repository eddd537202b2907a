"""What all tight-binding verifiers share: the second opinion, the spread over conformers, and the geometry."""

from __future__ import annotations

import numpy as np
import pytest

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.properties_and_levels import DIPOLE, HOMO, HOMO_LUMO_GAP
from sciagent.verification.verifier_contract import Context
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


def test_a_second_opinion_on_the_dipole_enters_its_uncertainty_and_on_orbitals_does_not(context):
    found = finding("CC(C)=O", context, {"second_opinion": True})
    told = found.diagnostics["second_opinion"]
    assert told["method"] == "GFN1-xTB"
    uncertainty = {m.property: m.quantity.uncertainty for m in found.measured}
    apart = abs(told["dipole"] - values(found)["dipole"])
    assert uncertainty["dipole"] == pytest.approx(np.hypot(apart, RIGID[DIPOLE]))
    assert uncertainty["homo"] == RIGID[HOMO] and uncertainty["homo_lumo_gap"] == RIGID[HOMO_LUMO_GAP]
    assert told["homo"] < values(found)["homo"] - 0.5  # GFN1 lies lower by an offset that says nothing of the molecule
    assert abs(told["homo_deviations"]) < 3 and abs(told["homo_lumo_gap_deviations"]) < 3


def test_a_saturated_molecule_lies_outside_the_lines_of_its_lumo(context):
    told = finding("CC", context, {"second_opinion": True}).diagnostics["second_opinion"]
    assert "homo_deviations" in told and "lumo" in told and "lumo_deviations" not in told


def test_the_repeatability_of_this_molecule_changes_the_uncertainty_alone(tmp_path):
    """1,2-dimethoxyethane, whose gauche and anti conformers differ by 1 D."""
    of_class, own = (
        finding("COCCOC", Context(scratch=tmp_path, checkpoint=tmp_path), s)
        for s in ({}, {"repeatability": "molecule"})
    )
    assert values(own) == pytest.approx(values(of_class), rel=1e-6)
    assert {m.quantity.uncertainty for m in of_class.measured} == set(SPREADS[SearchFreedom.TURNING].values())
    assert set(of_class.diagnostics["uncertainty_kind"].values()) == {"class"}
    assert set(own.diagnostics["uncertainty_kind"].values()) == {"molecule"}
    assert own.diagnostics["conformers_compared"] == 4
    dipole = next(m.quantity for m in own.measured if m.property == "dipole")
    assert RIGID[DIPOLE] < dipole.uncertainty < 2.0
    rigid = finding("c1ccccc1", Context(scratch=tmp_path, checkpoint=tmp_path), {"repeatability": "molecule"})
    homo = next(m.quantity for m in rigid.measured if m.property == "homo")
    assert homo.uncertainty == pytest.approx(RIGID[HOMO], rel=0.2)


def test_the_setting_enters_the_hash_only_where_it_is_given():
    assert XtbSinglepoint().settings_hash == XtbSinglepoint({"repeatability": "class"}).settings_hash
    assert XtbSinglepoint({"repeatability": "molecule"}).settings_hash != XtbSinglepoint().settings_hash
    assert "repeatability" not in XtbSinglepoint().settings.model_dump(mode="json")
