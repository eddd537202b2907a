"""Against experiment: FreeSolv 0.52 (Mobley, Guthrie, J. Comput.-Aided Mol. Des. 28, 711 (2014)), kcal/mol in water."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.properties_and_levels import SOLVATION_ENERGY
from sciagent.domain.quantities import conversion_factor
from sciagent.verification.verifier_contract import Context, Outcome
from sciagent_verifiers.simulation.xtb_solvation import RIGID, XtbSolvation

BENCHMARKS = Path(__file__).parents[2] / "benchmarks/numbers"
KCAL = conversion_factor("kcal/mol", SOLVATION_ENERGY)
SOLUTES = {
    "C": 2.00, "CC": 1.83, "CO": -5.10, "CCO": -5.00, "CC(C)=O": -3.80, "CC(=O)O": -6.69, "c1ccccc1": -0.90,
    "Cc1ccccc1": -0.90, "Oc1ccccc1": -6.60, "Nc1ccccc1": -5.49, "c1ccncc1": -4.69, "CC#N": -3.88, "COC": -1.91,
    "CN": -4.55,
}  # fmt: skip


@pytest.fixture
def context(tmp_path) -> Context:
    return Context(scratch=tmp_path, checkpoint=tmp_path)


def finding(smiles, context, settings=None):
    return next(iter(XtbSolvation(settings).verify([parse_molecule(smiles)], context)))


def value(found):
    (only,) = found.measured
    assert only.property == "solvation_free_energy" and only.quantity.unit == "eV"
    return only.quantity.value / KCAL


def test_the_table_is_what_the_data_base_says():
    lines = [line for line in (BENCHMARKS / "hydration.csv").read_text().splitlines() if line[0] != "#"]
    known = {parse_molecule(row["smiles"]).key: float(row["value"]) for row in csv.DictReader(lines)}
    assert {known[parse_molecule(smiles).key] == energy for smiles, energy in SOLUTES.items()} == {True}


def test_hydration_lies_near_experiment(context):
    """The benchmark's mean absolute error is 1.1 kcal/mol; a wrong state of the gas would add 1.9 to each."""
    settings = {"geometry": {"conformers": 2}}
    error = np.array([value(finding(smiles, context, settings)) - energy for smiles, energy in SOLUTES.items()])
    assert np.abs(error).mean() < 0.8 and np.abs(error).max() < 2.2
    assert abs(error.mean()) < 0.5


def test_a_finding_has_its_level_and_its_reference_state(context):
    found = finding("CO", context)
    assert found.outcome is Outcome.OK
    assert {m.level.label for m in found.measured} == {"GFN1-xTB+ALPB(water)//GFN2-xTB//ETKDGv3x10"}
    assert found.diagnostics["reference_state"] == "1 mol/L gas to 1 mol/L solution"
    assert {m.property for m in found.measured} == {p.property.name for p in XtbSolvation().measures}


def test_the_benchmark_computed_what_the_verifier_computes(context):
    told = json.loads((BENCHMARKS / "xtb_solvation.json").read_text(encoding="utf-8"))
    row = next(row for row in told["rows"] if row["name"] == "phenol")
    for kind, settings in (
        ("GFN1-xTB ALPB", {}),
        ("GFN2-xTB GBSA", {"method": "GFN2-xTB", "model": "gbsa"}),
        ("GFN2-xTB ALPB, each state at its own geometry", {"method": "GFN2-xTB", "relax": "solvent"}),
    ):
        assert value(finding(row["smiles"], context, settings)) == pytest.approx(row[kind], abs=0.02)


def test_each_state_may_have_its_own_geometry(context):
    """Relaxing in water can only lower the energy there, up to what the optimiser leaves."""
    fixed, relaxed = (finding("OCC=O", context, {"method": "GFN2-xTB", "relax": r}) for r in ("gas", "solvent"))
    assert value(relaxed) < value(fixed) + 0.05
    assert {m.level.geometry for m in relaxed.measured} == {"GFN2-xTB(gas|water)//ETKDGv3x10"}
    assert [Path(a.path).name[16:] for a in relaxed.artifacts] == [".xyz", "-dissolved.xyz"]


def test_a_second_opinion_widens_the_uncertainty_by_what_it_differs(context):
    alone, asked = finding("CC#N", context), finding("CC#N", context, {"second_opinion": True})
    other = asked.diagnostics["second_opinion"]
    assert other["method"] == "GFN2-xTB" and value(asked) == pytest.approx(value(alone))
    apart = abs(other["solvation_free_energy"] - asked.measured[0].quantity.value)
    assert asked.measured[0].quantity.uncertainty == pytest.approx(np.hypot(apart, RIGID[SOLVATION_ENERGY]))
    assert alone.measured[0].quantity.uncertainty == RIGID[SOLVATION_ENERGY]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"solvent": "mercury"}, "Input should be 'acetone'"),
        ({"solvent": "octanol", "model": "gbsa"}, "GBSA has no parameters"),
        ({"solvent": "hexane", "model": "gbsa", "method": "GFN2-xTB", "second_opinion": True}, "second_opinion: false"),
        ({"geometry": {"solvent": "water"}}, "relax: solvent"),
        ({"relax": "solvent", "geometry": {"method": "mmff94"}}, "needs geometry"),
    ],
)
def test_settings_that_cannot_be_are_refused_with_the_way_out(settings, message):
    with pytest.raises(ValidationError, match=message):
        XtbSolvation(settings)
