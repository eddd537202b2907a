"""What a budget is expected to buy: against what is known exactly, and within every limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import multivariate_normal

from sciagent.campaign.planning.inputs import UNKNOWN
from sciagent.campaign.planning.plan import plan
from sciagent.campaign.spec.load import load_spec
from sciagent.domain.properties import DIPOLE, HOMO_LUMO_GAP, Property
from sciagent.errors import UsageError
from sciagent.verification import registry
from sciagent.verification.contract import (
    Context,
    Cost,
    Finding,
    Level,
    Prior,
    PropertyAtLevel,
    Settings,
    Tier,
    Verifier,
    at,
)
from tests.campaign.fake_verifiers import Point


class Priced(Settings):
    """seconds: of one run."""

    seconds: float = 1.0


class Fake(Verifier[Any]):
    """Computes nothing."""

    version = "1"
    tier = Tier.SIMULATION
    Settings = Priced
    of: tuple[Property, ...] = (HOMO_LUMO_GAP,)

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(Level(self.name), *self.of)

    def cost(self, candidate: Any) -> Cost:
        return Cost(core_seconds=self.settings.seconds)

    def verify(self, batch: Sequence[Any], context: Context) -> Iterator[Finding]:
        yield from ()


def prior(spearman: float, n: int = 100_000, level: str = "fake.top") -> tuple[Prior, ...]:
    return (Prior("homo_lumo_gap", level, spearman, None, n, "made up"),)


class Top(Fake):
    name, tier = "fake.top", Tier.HIGH_FIDELITY


class Useless(Fake):
    name, priors = "fake.useless", prior(0.0)


class Good(Fake):
    name, priors = "fake.good", prior(0.9)


class Elsewhere(Fake):
    name, priors = "fake.elsewhere", prior(0.9, 40, "fake.other")


class Unknown(Fake):
    name = "fake.unknown"


class Dipole(Fake):
    name, of = "fake.dipole", (DIPOLE,)


LADDER = (Useless, Good, Elsewhere, Unknown, Dipole, Top)
Maker = Callable[..., dict[str, Any]]


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maker:
    """`plan` of a ladder: (verifier, seconds) in order; the rest as in YAML."""
    monkeypatch.setattr(registry, "_points", lambda: {one.name: Point(one) for one in LADDER})

    def make(
        *rungs: tuple[type[Fake], float], budget: str, n: int = 1000, objectives: str = "", goal: str = "{kind: hits}"
    ) -> dict[str, Any]:
        (tmp_path / "all.csv").write_text("smiles\n" + "".join(f"{'C' * (1 + i % 30)}O\n" for i in range(n)))
        ladder = "".join(
            f"  - {{rung: {one.name.split('.')[1]}, verifier: {one.name}, settings: {{seconds: {cost}}}}}\n"
            for one, cost in rungs
        )
        text = (
            "campaign: made\nsubject: molecule\nobjectives:\n"
            "  - {property: homo_lumo_gap, min: 4, unit: eV}\n"
            f"{objectives}ladder:\n{ladder}goal: {goal}\nbudget: {budget}\n"
            "proposer: {kind: screen, file: all.csv}\nworkers: 2\n"
            "safety: {screen: false, reason: the fake verifiers stand alone in these tests}\n"
        )
        (tmp_path / "made.yaml").write_text(text)
        return plan(load_spec(tmp_path / "made.yaml"))

    return make


def rung(found: dict[str, Any], name: str) -> dict[str, Any]:
    [one] = [r for r in found["rungs"] if r["rung"] == name]
    return one


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


def test_a_rung_that_tells_nothing_looks_worthless_and_a_good_one_pays(planned: Maker) -> None:
    found = planned((Useless, 1.0), (Good, 1.0), (Top, 60.0), budget="{core_seconds: 3000}")
    useless, good = rung(found, "useless"), rung(found, "good")
    assert useless["verdict"] == "looks worthless"
    assert all(
        one["middle"] < 0.02 * case["hits"]["middle"]
        for one, case in zip(useless["delta"], found["cases"], strict=True)
    )
    assert good["verdict"] == "pays for itself" and all(one["low"] > 0 for one in good["delta"])
    assert found["cases"][0]["hits"]["middle"] > 3 * found["cases"][0]["terminal_alone"]
    assert any(text.startswith("useless looks worthless") for text in found["sentences"])


def test_a_rung_nearly_as_dear_as_the_terminal_one_is_not_worth_its_lessons(planned: Maker) -> None:
    found = planned((Good, 55.0), (Top, 60.0), budget="{core_seconds: 30000}")
    assert rung(found, "good")["verdict"] == "looks worthless"
    assert min(one["low"] for one in rung(found, "good")["delta"]) < 0


def test_where_no_correlation_is_known_it_says_so_and_does_not_decide(planned: Maker) -> None:
    found = planned((Unknown, 15.0), (Top, 60.0), budget="{core_seconds: 6000}")
    [tells] = rung(found, "unknown")["tells"]
    assert (tells["kind"], tells["low"], tells["high"]) == ("unknown", *UNKNOWN)
    assert rung(found, "unknown")["verdict"] == "cannot be said"
    assert any("Where no correlation is declared" in text for text in found["assumptions"])


def test_a_prior_against_another_level_is_told_and_trusted_less(planned: Maker) -> None:
    found = planned((Elsewhere, 1.0), (Top, 60.0), budget="{core_seconds: 6000}")
    [tells] = rung(found, "elsewhere")["tells"]
    assert tells["kind"] == "elsewhere" and tells["low"] == UNKNOWN[0] and 0.9 < tells["high"] < 1
    assert "fake.other" in tells["why"] and "fake.top" in tells["why"]


def test_a_rung_that_decides_an_objective_is_needed_and_bought_for_all_that_go_up(planned: Maker) -> None:
    also = "  - {property: dipole, max: 2, unit: D}\n"
    found = planned((Dipole, 5.0), (Top, 60.0), budget="{core_seconds: 3000}", objectives=also)
    dipole = rung(found, "dipole")
    assert dipole["verdict"] == "is needed" and dipole["delta"][0]["middle"] is None
    for case in found["cases"]:
        assert case["runs"]["dipole"] >= case["runs"]["top"]
        assert case["hits"]["middle"] > case["hit_rate"] * 3000 / 65, "some fall at the dipole, at its lower price"


def test_more_budget_buys_more_and_never_more_hits_than_there_are(planned: Maker) -> None:
    found = [planned((Good, 1.0), (Top, 60.0), budget=f"{{core_seconds: {b}}}", n=500) for b in (1e3, 1e4, 1e6)]
    for cases in zip(*(one["cases"] for one in found), strict=True):
        hits = [case["hits"]["middle"] for case in cases]
        assert hits == sorted(hits) and hits[-1] == pytest.approx(500 * cases[0]["hit_rate"], rel=1e-3)
        assert cases[-1]["price"]["core_seconds"] == pytest.approx(0, abs=1e-9)


def test_where_nothing_can_be_planned_it_says_why(planned: Maker, tmp_path: Path) -> None:
    (found,) = [planned((Top, 60.0), budget="{rungs: {top: 0}}")]
    assert all(case["hits"]["middle"] == 0 for case in found["cases"])
    (tmp_path / "all.csv").write_text("smiles\nnot a molecule\n")
    with pytest.raises(UsageError, match="none of its 1 structures can be read"):
        plan(load_spec(tmp_path / "made.yaml"))
