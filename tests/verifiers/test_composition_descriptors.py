"""Tolerance factors and scarcity against published values."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.crystals.notation import read_crystal
from sciagent.domain.outcomes_and_verdicts import Outcome
from sciagent.verification.verifier_contract import Context, Finding
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
