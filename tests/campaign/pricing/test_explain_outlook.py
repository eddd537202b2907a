"""What `explain` says of candidates of a priced campaign: on a small one that has run, read and never written."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.create_and_open import create_or_open, open_campaign_for_people
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.campaign.people.verify_calculate_and_add import add
from sciagent.campaign.planning.expected_hits_and_rung_worth import plan
from sciagent.campaign.pricing import explain_outlook
from sciagent.campaign.pricing.explain_outlook import forecasts, outlook_in, sentence
from sciagent.campaign.pricing.pool_law_and_cost_unit import allowances, rebuild_with_law
from sciagent.domain.answers.candidate_and_value_answers import plain
from sciagent.domain.answers.explanation import PropertyForecast
from sciagent.domain.proposer_interfaces import ProposalIn
from sciagent.report.explain_candidate import explain, refused
from sciagent.report.status_best_trace import best
from sciagent.rewards.reward_law import RewardLaw, expectations
from sciagent.scheduling.candidate_indices import expected_payoffs
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from sciagent.store.results.evidence import read_watermark
from sciagent.verification import verifier_registry
from tests.support.campaigns import SMALL, sciagent, write_campaign

BROKEN = "C1CC"  # a ring that does not close


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder: 16 molecules and a text that is none, six places of DFT, so that some wait for good."""
    folder = tmp_path_factory.mktemp("priced")
    file = write_campaign(
        folder, molecules=(*SMALL[:16], BROKEN), scheduler="priced", dft=6, window=(5.0, 9.0), gfn1=True
    )
    sciagent("run", str(file), "--quiet", "--no-report", cwd=folder, expect=None)
    return folder


@pytest.fixture
def ledger(ran: Path) -> Ledger:
    return Ledger(str(ran / "sciagent.db"))


def standing(ledger: Ledger, which: str) -> list[int]:
    cc = t.campaign_candidate.c
    with ledger.read() as connection:
        return list(connection.execute(sa.select(cc.candidate_id).where(cc.standing == which)).scalars())


def told(ledger: Ledger, candidate_id: int, name: str = "small") -> dict[str, Any]:
    with ledger.read() as connection:
        rows = [campaigns.get(connection, name)]
        [story] = explain(connection, candidate_id, rows, ledger).campaigns
    found: dict[str, Any] = plain(story)
    return found


def test_one_that_waits_is_told_with_value_chance_index_price_and_next_rung(ledger: Ledger) -> None:
    waiting = standing(ledger, "open")
    assert waiting
    for id_ in waiting:
        one = told(ledger, id_)["outlook"]
        assert 0 <= one["p_hit"] <= 1 and one["value"] >= 0 and one["index"] > 0 and one["price"] >= 0
        assert one["next_rung"] == "dft" and one["next_cost"]["core_seconds"] > 0
        assert one["next_share"] == pytest.approx(1 / 6) and one["later"] == {}
        assert one["index"] == pytest.approx(6 * one["p_hit"], rel=0.05), "one rung is left: hits for a whole budget"
        assert one["units"]["next_cost"] == {"core_seconds": "s"} and one["units"]["index"] == "hits a budget"
        assert 0 <= one["ahead"] < len(waiting) and one["law_watermark"] <= one["watermark"]
        text = told(ledger, id_)["why"]
        for part in ("chance of a hit", "more for its cost", "Next it would get dft", "6 of 6 places of dft are used"):
            assert part in text, part


def test_what_the_rung_that_decides_would_say_is_foretold_with_interval_and_unit(ledger: Ledger) -> None:
    for id_ in standing(ledger, "open"):
        one = told(ledger, id_)
        [gap] = one["outlook"]["foretold"]
        assert (gap["property"], gap["rung"], gap["unit"]) == ("homo_lumo_gap", "dft", "eV")
        assert gap["low"] < gap["value"] < gap["high"]
        assert gap["value"] == pytest.approx((gap["low"] + gap["high"]) / 2)
        assert 0 < gap["value"] < 20, "in eV, not in the law's unit"
        assert sentence(PropertyForecast(**gap)) in one["why"] and "index" not in one["why"]


def test_what_is_known_already_is_not_foretold(ledger: Ledger) -> None:
    with ledger.read() as connection:
        made = rebuild_with_law(open_campaign_for_people(ledger, "small"), connection)
    assert made is not None
    schema, scores = made.schema, made.pool.scores
    last = len(schema.columns) - 1
    for row in range(len(scores)):
        found = forecasts(made, row)
        assert bool(found) == bool(np.isnan(scores[row, last]))


def test_a_foretold_value_is_said_to_as_many_digits_as_its_interval_bears() -> None:
    def said(value: float, low: float, high: float, unit: str = "eV") -> str:
        forecast = PropertyForecast(property="gap", rung="dft", value=value, low=low, high=high, unit=unit)
        return sentence(forecast)

    rounded = "dft is expected to say gap = 4.31 eV, nine times in ten between 3.90 and 4.72."
    assert said(4.3123, 3.9017, 4.7229) == rounded
    assert "= 200 eV, nine times in ten between -1000 and 1500." in said(214.0, -1032.0, 1460.0)
    assert "= 0.0 eV" in said(-0.01, -3.0, 2.98), "no minus before a zero"
    assert "gap = 0.50, nine" in said(0.5, 0.3, 0.7, "1")
    assert said(0.97, 1.0, 1.0, "1") == "dft is expected to say gap = 1, nine times in ten.", "a yes or no"


def test_ahead_are_those_with_a_higher_index(ledger: Ledger) -> None:
    found = [told(ledger, id_)["outlook"] for id_ in standing(ledger, "open")]
    ordered = sorted(found, key=lambda one: -one["index"])
    assert [one["ahead"] for one in ordered] == list(range(len(ordered)))


def test_it_is_what_the_scheduler_itself_would_say(ledger: Ledger) -> None:
    """From the same row of the ledger, by the rule's own code."""
    from sciagent.scheduling.rules.priced import Priced

    built = open_campaign_for_people(ledger, "small")
    with ledger.read() as connection:
        made = rebuild_with_law(built, connection)
        assert made is not None
        schema, pool = made.schema, made.pool
        assert {a.name: a.limit for a in allowances(built.spec, schema.paid)} == BudgetTracker(
            built, connection
        ).limits()
        rule = Priced(schema.aims, pool.structures, built.spec.seed, 1.0, schema.trusted)
        assert made.row is not None
        state = made.row.state["priced"]
        rule.restore(state | {"stack": state["stack"] | {"fitted_at": 10**6}})  # hyper-parameters stay as they are
        rule.choose(pool, 0.5)
        for id_ in standing(ledger, "open"):
            row = int(np.flatnonzero(pool.ids == id_)[0])
            one = outlook_in(made, connection, id_)
            assert one.index == pytest.approx(rule.index[row], rel=1e-6)
            assert one.expected == pytest.approx(rule.expected[row], rel=1e-6)


def test_a_reward_expects_what_the_scheduler_expects(ledger: Ledger) -> None:
    """With one fold, which teaches and is asked, and without the doubt about slopes."""
    built = open_campaign_for_people(ledger, "small")
    with ledger.read() as connection:
        made = rebuild_with_law(built, connection)
        assert made is not None and made.row is not None
        pool, scheduler, state = made.pool, made.scheduler, made.row.state["priced"]
        assert scheduler.truths is not None
        units = [truth.state() for truth in scheduler.truths]
        law = RewardLaw(made.schema, read_watermark(connection), {"stack": state["stack"], "truths": units})
        waiting = standing(ledger, "open")
        expected = expectations(built, connection, law, waiting, law.watermark, folds=1, with_slope_doubt=False)
        careful = expectations(built, connection, law, waiting, law.watermark)
    rows = np.array([int(np.flatnonzero(pool.ids == id_)[0]) for id_ in waiting])
    scheduler.evaluate(pool, rows)
    assert [expected[id_] for id_ in waiting] == pytest.approx(scheduler.expected[rows].tolist(), rel=1e-4)
    assert careful != expected, "its own fold teaches a candidate nothing, and slopes are doubted"


def test_what_was_bought_shows_its_law_and_price(ledger: Ledger) -> None:
    settled = [told(ledger, id_) for id_ in standing(ledger, "settled")]
    assert all(one["outlook"] is None for one in settled)
    bought = [d for one in settled for r in one["rungs"] for d in r["decisions"] if d["law_version"]]
    assert bought
    with ledger.read() as connection:
        versions = set(connection.execute(sa.select(t.law.c.version)).scalars())
    assert {d["law_version"] for d in bought} <= versions
    assert all(set(d["price"]) == {"rung 3"} and d["price"]["rung 3"] >= 0 for d in bought)


def test_nothing_is_written(ledger: Ledger) -> None:
    def everything() -> dict[str, int]:
        with ledger.read() as connection:
            return {
                name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
                for name, table in t.metadata.tables.items()
            }

    before = everything()
    for id_ in standing(ledger, "open")[:2]:
        told(ledger, id_)
    assert everything() == before


def test_the_limit_of_verifications_is_told_and_the_budget_is_not_called_enough_beside_it(ledger: Ledger) -> None:
    [id_, *others] = standing(ledger, "open")
    n_open = len(others) + 1
    built = open_campaign_for_people(ledger, "small")

    def said(limit: int | None) -> str:
        spec = built.spec
        built.spec = spec.model_copy(update={"budget": spec.budget.model_copy(update={"verifications": limit})})
        with ledger.read() as connection:
            rebuilt = rebuild_with_law(built, connection)
            assert rebuilt is not None
            rebuilt.scheduler.price = 0.0  # as where no other limit is scarce
            text = outlook_in(rebuilt, connection, id_).text
        built.spec = spec
        return text

    enough = "The budget is enough"
    assert enough in said(None) and "verifications" not in said(None)
    assert "But all 6 verifications by dft are used, so nothing more is bought for it." in said(6)
    assert f"But 2 of 8 verifications by dft are left for {n_open} open candidates." in said(8)
    assert enough not in said(6) and enough not in said(8)
    assert enough in said(6 + n_open) and "verifications" not in said(6 + n_open)


@pytest.fixture
def without_xtb(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    points = {name: point for name, point in verifier_registry._points().items() if name != "xtb.singlepoint"}
    monkeypatch.setattr(verifier_registry, "_points", lambda: points)
    verifier_registry.verifier_class.cache_clear()
    yield
    verifier_registry.verifier_class.cache_clear()


@pytest.mark.usefixtures("without_xtb")
def test_a_verifier_that_is_gone_gets_a_sentence(ledger: Ledger) -> None:
    one = told(ledger, standing(ledger, "open")[0])
    assert "cannot be worked out here" in one["why"] and "xtb.singlepoint" in one["why"]
    assert one["outlook"]["p_hit"] is None and one["outlook"]["foretold"] is None and one["outlook"]["text"]


def test_a_campaign_too_large_to_be_worked_out_in_seconds_says_so(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain_outlook, "MAX_CANDIDATES", 3)
    assert "is not worked out here" in told(ledger, standing(ledger, "open")[0])["why"]


def test_where_too_many_are_open_to_be_compared_nobody_is_counted(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = told(ledger, id_ := standing(ledger, "open")[0])["outlook"]
    monkeypatch.setattr(explain_outlook, "MAX_COMPARED", 0)
    alone = told(ledger, id_)["outlook"]
    assert alone["ahead"] is None and "more for its cost" not in alone["text"]
    assert alone["p_hit"] == pytest.approx(whole["p_hit"], rel=1e-5)


def test_best_shows_the_chance_of_each_that_waits(ledger: Ledger) -> None:
    with ledger.read() as connection:
        row = campaigns.get(connection, "small")
        listed = best(connection, row, 20)
        ids = candidates.ids_of(connection, [candidate.key for candidate in listed])
        waiting = standing(ledger, "open")
    with_chance = {candidate.key: candidate.p_hit for candidate in listed if not candidate.verified}
    assert with_chance and {ids[key] for key in with_chance} == set(waiting)
    for key, p_hit in with_chance.items():
        assert p_hit == pytest.approx(told(ledger, ids[key])["outlook"]["p_hit"], rel=1e-3)


def test_before_there_is_a_law_and_under_another_rule(ran: Path, tmp_path: Path) -> None:
    shutil.copy(ran / "sciagent.db", tmp_path / "sciagent.db")
    ledger = Ledger(str(tmp_path / "sciagent.db"))
    for name, scheduler in (("young", "priced"), ("gated", "thresholds")):
        file = write_campaign(tmp_path / name, name=name, molecules=("CO",), scheduler=scheduler)
        built = create_or_open(ledger, load_spec(file), file.read_text(), "ann").built
        [added] = add(built, [ProposalIn("CCO")], "ann", "to see")
        with ledger.read() as connection:
            id_ = connection.execute(sa.select(t.candidate.c.id).where(t.candidate.c.key == added.key)).scalar_one()
        one = told(ledger, id_, name)
        if name == "young":
            assert "no law yet" in one["why"] and one["outlook"]["index"] is None
        else:
            assert one["outlook"] is None and "it waits for xtb" in one["why"]


def test_a_text_that_was_refused_is_found_with_its_reason(ledger: Ledger) -> None:
    with ledger.read() as connection:
        answer = refused(connection, BROKEN, None)
        assert answer is not None and refused(connection, BROKEN, "small") == answer
        assert refused(connection, "nobody proposed this", None) is None
    [proposal] = answer.refused
    assert proposal.campaign == "small" and proposal.by == "screen" and proposal.reason and proposal.detail


def test_explain_prints_both(ran: Path) -> None:
    said = sciagent("explain", BROKEN, cwd=ran)
    assert "proposed and refused" in said.stdout and "refused: " in said.stdout
    assert sciagent("explain", BROKEN, "--json", cwd=ran)["refused"][0]["campaign"] == "small"
    assert "no candidate" in sciagent("explain", "C1CCC", cwd=ran, expect=2).stderr
    found = sciagent("best", "small", "-n", "20", "--json", cwd=ran)
    texts = [
        " ".join(sciagent("explain", one["key"][:12], "--verbose", cwd=ran).stdout.split())
        for one in found
        if one["verified"]
    ]
    assert any("by law " in text and "for one dft" in text for text in texts), "the first were bought before any law"


def test_a_plan_learns_from_the_ledger(ledger: Ledger, ran: Path) -> None:
    spec = load_spec(ran / "small.yaml")
    alone, taught = plan(spec), plan(spec, ledger)
    assert (alone.learnt_from, taught.learnt_from) == (None, "small")
    assert [r.cost_is for r in alone.rungs] == ["declared", "declared"]
    for one, other in zip(alone.rungs, taught.rungs, strict=True):
        assert other.cost_is == "learnt"
        assert other.costs["core_seconds"].median == pytest.approx(other.cost_ratio * one.costs["core_seconds"].median)
    assert taught.candidates == pytest.approx(17 * 16 / 17), "one text is no molecule"
    assert [c.hit_rate_is for c in taught.cases][:3] == ["assumed"] * 3


def test_expected_utilities_in_the_ledger_are_of_the_laws_forecasts(ledger: Ledger) -> None:
    """They are those of the distributions that give the chance, and differ where a straight line tells nothing."""
    cc = t.campaign_candidate.c
    with ledger.read() as connection:
        by_law = sa.select(cc.candidate_id, cc.expected_utility).where(cc.basis == "law")
        utilities = {id_: utility for id_, utility in connection.execute(by_law)}
        rebuilt = rebuild_with_law(open_campaign_for_people(ledger, "small"), connection)
    assert set(utilities) == set(standing(ledger, "open")) and len(set(utilities.values())) > 1
    assert rebuilt is not None
    scheduler, pool = rebuilt.scheduler, rebuilt.pool
    aims = replace(rebuilt.schema.aims, kind="graded")
    [rows] = np.nonzero(np.isin(pool.ids, list(utilities)))
    graded = aims.payoff(scheduler.truths, pool.scores)
    expected = expected_payoffs(scheduler.laws, rows, aims, scheduler.truths, pool.scores, graded)
    for row, utility in zip(rows.tolist(), expected.tolist(), strict=True):
        assert utilities[int(pool.ids[row])] == pytest.approx(utility, abs=0.005)


def test_best_says_the_chance_that_explain_says(ran: Path, ledger: Ledger) -> None:
    listed = {one["key"]: one["p_hit"] for one in sciagent("best", "small", "-n", "30", "--json", cwd=ran)}
    with ledger.read() as connection:
        keys = {id_: key for id_, key in connection.execute(sa.select(t.candidate.c.id, t.candidate.c.key))}
    open_ = standing(ledger, "open")
    assert open_
    for id_ in open_:
        assert listed[keys[id_]] == pytest.approx(told(ledger, id_)["outlook"]["p_hit"], rel=1e-6)
    assert {listed[keys[id_]] for id_ in standing(ledger, "settled")} <= {0.0, 1.0}
