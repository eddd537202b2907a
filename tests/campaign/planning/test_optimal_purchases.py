"""What a budget is expected to buy: against what is known exactly, and within every limit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import multivariate_normal

from tests.campaign.planning.fake_ladder import Dipole, Good, Maker, Top, Unknown, rung


@pytest.mark.parametrize(
    ("budget", "runs"), [("{rungs: {top: 37}}", 37), ("{proposals: 60}", 60), ("{core_seconds: 50}", 5)]
)
def test_with_one_rung_the_hits_are_runs_times_rate(planned: Maker, budget: str, runs: int) -> None:
    found = planned((Top, 10.0), budget=budget)
    for case in found["cases"]:
        assert case["runs"]["top"] == pytest.approx(runs)
        assert case["hits"]["middle"] == case["hits"]["low"] == pytest.approx(runs * case["hit_rate"])
        assert case["terminal_alone"] == pytest.approx(runs * case["hit_rate"])


@pytest.mark.parametrize(
    "budget",
    [
        "{core_seconds: 3000}",
        "{core_seconds: 3000, rungs: {top: 20}}",
        "{core_seconds: 3000, rungs: {good: 100}, proposals: 400}",
        "{wall_minutes: 20, rungs: {top: 50, unknown: 30}}",
    ],
)
def test_what_is_bought_stays_within_every_limit(planned: Maker, budget: str) -> None:
    found = planned((Good, 1.0), (Unknown, 5.0), (Top, 60.0), budget=budget)
    for case in found["cases"]:
        runs = case["runs"]
        assert max(runs.values()) <= found["candidates"] * (1 + 1e-6)
        seconds = runs["good"] + 5 * runs["unknown"] + 60 * runs["top"]
        for limit in found["limits"]:
            name, used = limit["name"], case["used"][limit["name"]]
            assert used <= limit["limit"] * (1 + 1e-6)
            assert used == pytest.approx(runs[name[6:]] if name.startswith("rungs.") else seconds)
        assert case["hits"]["low"] <= case["hits"]["middle"] <= case["hits"]["high"] <= runs["top"] + 1e-6


@pytest.mark.parametrize("other", ["", "core_seconds: 30000, "])
def test_a_limit_of_verifications_buys_what_the_same_limit_of_the_terminal_rung_buys(
    planned: Maker, other: str
) -> None:
    rungs = ((Good, 1.0), (Top, 60.0))
    by_count = planned(*rungs, budget=f"{{{other}proposals: 300, verifications: 24}}")
    by_rung = planned(*rungs, budget=f"{{{other}proposals: 300, rungs: {{top: 24}}}}")
    smaller_holds = planned(*rungs, budget=f"{{{other}proposals: 300, verifications: 24, rungs: {{top: 40}}}}")
    assert by_count["limits"][-1] == {"name": "verifications", "limit": 24.0, "unit": "runs"}
    for counted, limited, both in zip(by_count["cases"], by_rung["cases"], smaller_holds["cases"], strict=True):
        assert counted["runs"]["top"] == pytest.approx(24)
        assert counted["runs"] == pytest.approx(limited["runs"])
        assert counted["hits"] == pytest.approx(limited["hits"])
        assert both["used"]["verifications"] == pytest.approx(24)
        assert both["hits"]["middle"] == pytest.approx(counted["hits"]["middle"], rel=0.02)
    assert any("What runs out first: verifications" in text for text in by_count["sentences"])


@pytest.mark.parametrize("rate", [0, 1, 2])
def test_a_cheap_rung_before_a_scarce_one_finds_what_ranking_by_it_finds(planned: Maker, rate: int) -> None:
    """Of a joint Gaussian: all get the rung, the best tenth the terminal one."""
    n, top = 4000, 400
    found = planned((Good, 0.001), (Top, 60.0), budget=f"{{rungs: {{top: {top}}}}}", n=n)
    case, r = found["cases"][rate], rung(found, "good")["tells"][0]["middle"]
    assert r == pytest.approx(2 * np.sin(np.pi * 0.9 / 6), abs=1e-3)
    wanted = [ndtri(top / n), ndtri(case["hit_rate"])]  # both tails, mirrored
    exact = n * multivariate_normal([0, 0], [[1, r], [r, 1]]).cdf(wanted)
    assert case["hits"]["middle"] == pytest.approx(exact, rel=0.03)
    assert case["runs"]["top"] == pytest.approx(top, rel=1e-6)
    assert found["first"] == 4 and any(text.startswith("The first 4 candidates") for text in found["assumptions"])


def test_more_budget_buys_more_and_never_more_hits_than_there_are(planned: Maker) -> None:
    found = [planned((Good, 1.0), (Top, 60.0), budget=f"{{core_seconds: {b}}}", n=500) for b in (1e3, 1e4, 1e6)]
    for cases in zip(*(one["cases"] for one in found), strict=True):
        hits = [case["hits"]["middle"] for case in cases]
        assert hits == sorted(hits) and hits[-1] == pytest.approx(500 * cases[0]["hit_rate"], rel=1e-3)
        assert cases[-1]["price"]["core_seconds"] == pytest.approx(0, abs=1e-9)


DIPOLE_TOO = "  - {property: dipole, min: 1, unit: D}\n"


@pytest.mark.parametrize("top", [8, 20, 400])
def test_no_run_is_planned_for_a_candidate_that_missed_at_a_lower_rung(planned: Maker, top: int) -> None:
    """The lower rung decides one of two independent objectives; the share that passes is the root of the hit rate."""
    n = 400
    budget = f"{{rungs: {{top: {top}}}, proposals: {n}}}"
    found = planned((Dipole, 0.001), (Top, 60.0), budget=budget, n=n, objectives=DIPOLE_TOO)
    for case in found["cases"]:
        share = case["hit_rate"] ** 0.5
        runs = min(top, share * n)
        assert case["runs"]["top"] == pytest.approx(runs, rel=1e-3)
        assert case["hits"]["low"] == pytest.approx(runs * share, rel=0.02), "the dipole may tell nothing of the gap"
    assert "A candidate that misses at dipole gets no later run." in found["assumptions"]
    best = planned((Dipole, 0.001), (Top, 60.0), budget=budget, n=n, objectives=DIPOLE_TOO, goal="{kind: best}")
    assert best["cases"][0]["runs"]["top"] > min(0.8 * top, 0.2 * n), "no miss ends a search for the best"
