"""What is taken for what a rung tells."""

from __future__ import annotations

from sciagent.campaign.planning.plan_inputs import UNKNOWN_CORRELATION
from tests.campaign.planning.fake_ladder import Dipole, Elsewhere, Maker, Top, Unknown, rung


def test_where_no_correlation_is_known_it_says_so_and_does_not_decide(planned: Maker) -> None:
    found = planned((Unknown, 15.0), (Top, 60.0), budget="{core_seconds: 6000}")
    [tells] = rung(found, "unknown")["tells"]
    assert (tells["kind"], tells["low"], tells["high"]) == ("unknown", *UNKNOWN_CORRELATION)
    assert rung(found, "unknown")["verdict"] == "cannot be said"
    assert any("Where no correlation is declared" in text for text in found["assumptions"])


def test_a_prior_against_another_level_is_told_and_trusted_less(planned: Maker) -> None:
    found = planned((Elsewhere, 1.0), (Top, 60.0), budget="{core_seconds: 6000}")
    [tells] = rung(found, "elsewhere")["tells"]
    assert tells["kind"] == "elsewhere" and tells["low"] == UNKNOWN_CORRELATION[0] and 0.9 < tells["high"] < 1
    assert "fake.other" in tells["why"] and "fake.top" in tells["why"]


def test_a_rung_that_decides_an_objective_is_needed_and_bought_for_all_that_go_up(planned: Maker) -> None:
    also = "  - {property: dipole, max: 2, unit: D}\n"
    found = planned((Dipole, 5.0), (Top, 60.0), budget="{core_seconds: 3000}", objectives=also)
    dipole = rung(found, "dipole")
    assert dipole["verdict"] == "is needed" and dipole["delta"][0]["middle"] is None
    for case in found["cases"]:
        assert case["runs"]["dipole"] >= case["runs"]["top"]
        assert case["hits"]["middle"] > case["hit_rate"] * 3000 / 65, "some fall at the dipole, at its lower price"
