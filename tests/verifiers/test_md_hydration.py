"""`md.hydration`: what it refuses, its level, its price, and how results become a value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.errors import SimulatorError
from sciagent.verification.verifier_contract import Context
from sciagent_simulators.dynamics.hydration import HydrationValues
from sciagent_verifiers.high_fidelity.md_hydration import MdHydration


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [("CC(=O)[O-]", "charge"), ("C[CH2]", "radical"), ("CB(O)O", "element"), ("C" * 20, "too_large")],
)
def test_what_has_no_parameters_is_refused_before_it_is_paid(smiles: str, reason: str) -> None:
    refusal = MdHydration().accepts(parse_molecule(smiles))
    assert refusal is not None and refusal.reason == reason
    assert MdHydration().accepts(parse_molecule("C")) is None


def test_what_is_too_wide_for_its_box_is_refused_before_its_charges_are_paid(tmp_path: Path) -> None:
    for name in ("scratch", "checkpoint"):
        (tmp_path / name).mkdir()
    context = Context(scratch=tmp_path / "scratch", checkpoint=tmp_path / "checkpoint")
    with pytest.raises(SimulatorError, match="angstrom wide") as caught:
        MdHydration({"box": 20}).finding(parse_molecule("CCCCCCCCCCCC"), context)
    assert caught.value.reason == "too_large"
    assert not list(tmp_path.rglob("charges.json"))


@pytest.mark.parametrize("settings", [{"windows": 5}, {"water": "spce"}, {"box": 15}, {"replicas": 0}])
def test_settings_that_cannot_be_run_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MdHydration(settings)


def test_its_level_names_force_field_water_and_windows() -> None:
    verifier = MdHydration({"force_field": "gaff2", "windows": 12})
    [measure] = verifier.measures
    assert measure.property.name == "solvation_free_energy"
    expected = "GAFF2/AM1-BCC+TIP3P(water)//NPT 12 windows 0.05+0.25 ns x3, 24 angstrom, 298.15 K, 1.01325 bar"
    assert verifier.level.label == expected


def test_its_price_is_that_of_all_windows() -> None:
    methane = parse_molecule("C")
    price = MdHydration().cost(methane)["core_seconds"]
    assert 2 * 3600 < price / 3 < 10 * 3600, "hours for each replica"
    assert MdHydration({"windows": 32}).cost(methane)["core_seconds"] == pytest.approx(2 * price, rel=0.05)
    assert MdHydration({"replicas": 1}).cost(methane)["core_seconds"] == pytest.approx(price / 3, rel=0.01)


def test_its_price_is_what_a_run_took() -> None:
    """15.0 core-seconds a chunk of 794 atoms, mean of the first 30 of methane's on a busy machine of two cores."""
    settings = {"box": 20, "windows": 8, "equilibration": 0.02, "nanoseconds": 0.05, "start": 0.05}
    taken = 3 * (5 + 8 * 7) * 15.0
    price = MdHydration(settings).cost(parse_molecule("C"))["core_seconds"]
    assert taken / 1.5 < price < taken * 1.5


def test_kilojoules_become_electronvolts_with_their_uncertainty() -> None:
    values = HydrationValues(
        free_energy=8.368,
        uncertainty=0.8368,
        mbar_uncertainty=0.4,
        scatter=0.8368,
        replicas=(8.0, 8.7),
        charges=-0.1,
        smallest_overlap=0.2,
        samples=900,
        solvent_molecules=450,
    )
    finding = MdHydration()._finding(parse_molecule("C"), values)
    assert finding.outcome is Outcome.OK
    [measured] = finding.measured
    assert measured.quantity.unit == "eV"
    assert measured.quantity.value == pytest.approx(2.0 * 0.0433641, rel=1e-5), "2 kcal/mol; 1 is 0.0433641 eV"
    assert measured.quantity.uncertainty == pytest.approx(0.1 * measured.quantity.value)
