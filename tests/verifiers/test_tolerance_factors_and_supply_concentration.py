"""Tolerance factors and scarcity against published values."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.verification.verifier_contract import Context, Finding
from sciagent_verifiers.fast.compounds.tolerance_factors_and_supply_concentration import (
    ionic_radius,
    scarcity,
    tolerance_factors,
)
from sciagent_verifiers.fast.crystal_checks import CrystalChecks


def finding(crystal: str | Crystal, **settings: object) -> Finding:
    one = read_crystal(crystal) if isinstance(crystal, str) else crystal
    (found,) = CrystalChecks(settings).verify([one], Context(Path(), Path()))
    return found


def values(crystal: str | Crystal, **settings: object) -> dict[str, float]:
    found = finding(crystal, **settings)
    assert found.outcome is Outcome.OK, found.detail
    return {measured.property: measured.quantity.value for measured in found.measured}


def test_scarcity_is_the_mean_by_mass_of_the_published_table() -> None:
    """Gaultois et al. 2013, table 1: Pb 2700 and 1800, Te 2900 and 4900."""
    telluride = values("rocksalt: Pb Te")
    share = 207.2 / (207.2 + 127.6)
    assert telluride["hhi_production"] == pytest.approx(2700 * share + 2900 * (1 - share), abs=1)
    assert telluride["hhi_reserve"] == pytest.approx(1800 * share + 4900 * (1 - share), abs=1)


@pytest.mark.parametrize(
    ("text", "goldschmidt", "octahedral", "tau"),
    [
        ("perovskite: Sr Ti O", 1.002, 0.432, 3.80),  # by hand from Shannon's 1.44, 0.605, 1.40 angstrom
        ("perovskite: Cs Pb I", 0.851, 0.541, 4.30),  # 1.88, 1.19, 2.20
        ("perovskite: Na Mg F", 0.938, 0.541, 3.78),  # XII of Na 1.39, 0.72, 1.33
    ],
)
def test_tolerance_factors_follow_from_the_radii(text: str, goldschmidt: float, octahedral: float, tau: float) -> None:
    found = values(text)
    assert found["goldschmidt_tolerance_factor"] == pytest.approx(goldschmidt, abs=2e-3)
    assert found["octahedral_factor"] == pytest.approx(octahedral, abs=2e-3)
    assert found["bartel_tau"] == pytest.approx(tau, abs=0.02)


def test_other_formulas_and_alloys_have_no_tolerance_factors() -> None:
    for text in ("spinel: Mg Al O", "antiperovskite: Li O Cl", "Cu3Au: Cu Au"):
        assert "bartel_tau" not in values(text)


@pytest.mark.parametrize(
    "formula",
    [
        {"Sr": 1, "Ti": 1, "O": 2},  # no ABX3
        {"Og": 1, "Ts": 1, "O": 3},  # without oxidation states
        {"Li": 1, "O": 1, "Cl": 3},
        {"Cs": 1, "Fr": 1, "F": 3},
    ],
)
def test_what_has_no_radii_or_states_has_no_tolerance_factors(formula: dict[str, int]) -> None:
    assert tolerance_factors(formula) is None


def test_a_radius_is_that_of_high_spin_and_of_the_nearest_lower_number() -> None:
    """Shannon (1976): iron(II) has 0.78 angstrom in high spin; oxide is in no site of twelve neighbours, and has 1.42
    with eight."""
    assert ionic_radius("Fe", 2, "VI") == pytest.approx(0.78)
    assert ionic_radius("O", -2, "XII") == ionic_radius("O", -2, "VIII") == pytest.approx(1.42)
    assert ionic_radius("Og", 2, "VI") is None


def test_an_element_without_reserves_has_no_scarcity() -> None:
    assert scarcity({"Tc": 1, "O": 2}) is None
