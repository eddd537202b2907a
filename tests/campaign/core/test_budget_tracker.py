"""Stocks and rates from the YAML to the ledger: what the file may say, and what a driver makes of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sciagent.campaign.core import budget_tracker
from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.campaign.core.create_and_open import create_or_open, open_stored
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import CampaignSpec, parse_spec
from sciagent.campaign.people import amend_pause_stop_and_resume
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.answers.candidate_and_value_answers import plain
from sciagent.domain.answers.status_and_comparison import CampaignCounts
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.states_and_needs import CampaignState
from sciagent.errors import SpecError, UsageError
from sciagent.store.campaign_state import campaigns
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import campaign_counts_and_remarks
from tests.campaign.fake_verifiers import CAMPAIGN, make_folder  # noqa: F401

# What the file may say


def spec(folder: Path, core_seconds: str = "3600") -> CampaignSpec:
    text = CAMPAIGN.replace("core_seconds: 3600", f"core_seconds: {core_seconds}")
    return parse_spec(text, "dyes.yaml", folder)


def test_a_resource_takes_a_number_or_a_rate(folder: Path) -> None:
    found = spec(folder, "{amount: 3600, per: week}").budget
    assert (dict(found.stocks()), dict(found.rates())) == ({}, {"core_seconds": 3600.0})
    assert spec(folder).budget.stocks() == {"core_seconds": 3600.0}


def test_an_amount_for_the_campaign_is_a_plain_number_in_every_respect(folder: Path) -> None:
    plain, long = spec(folder), spec(folder, "{amount: 3600, per: campaign}")
    assert plain.canonical()["budget"] == long.canonical()["budget"] == {"core_seconds": 3600.0, "rungs": {"dft": 12}}
    assert plain.hash == long.hash


def test_a_rate_is_another_budget_of_the_same_campaign(folder: Path) -> None:
    plain, rate = spec(folder), spec(folder, "{amount: 3600, per: week}")
    assert rate.canonical()["budget"]["core_seconds"] == {"amount": 3600.0, "per": "week"}
    assert rate.hash != plain.hash and rate.identity_hash == plain.identity_hash
    assert rate.diff(plain.canonical()) == ['budget.core_seconds: 3600.0 -> {"amount": 3600.0, "per": "week"}']
    more = spec(folder, "{amount: 7200, per: week}")
    assert more.diff(rate.canonical()) == ["budget.core_seconds.amount: 3600.0 -> 7200.0"]
    assert CampaignSpec.model_validate(rate.model_dump(exclude_unset=True)).budget == rate.budget


@pytest.mark.parametrize(
    ("text", "place", "fault"),
    [
        ("{amount: 5}", "24:3: budget.core_seconds.per: ", "required, and missing"),
        ("{per: week}", "24:3: budget.core_seconds.amount: ", "required, and missing"),
        ("{amount: 5, per: month}", "24:34: budget.core_seconds.per: ", "allowed: campaign, week"),
        ("{amount: 5, pre: week, per: week}", "24:29: budget.core_seconds.pre: ", 'did you mean "per"'),
        ("{amount: -5, per: week}", "24:26: budget.core_seconds.amount: ", "at least 0, not -5"),
        ("{amount: five, per: week}", "24:26: budget.core_seconds.amount: ", "must be a number"),
        ("5/week", "24:17: budget.core_seconds: ", "such as 5, or {amount: 5, per: week}"),
        ("[5, week]", "24:17: budget.core_seconds: ", "must be a number or a mapping, not a list"),
        ("true", "24:17: budget.core_seconds: ", "must be a number or a mapping, not true"),
        ("-5", "24:17: budget.core_seconds: ", "at least 0, not -5"),
    ],
)
def test_a_wrong_amount_is_refused_at_its_place(text: str, place: str, fault: str, folder: Path) -> None:
    with pytest.raises(SpecError) as caught:
        spec(folder, text)
    said = str(caught.value)
    assert said.startswith(f"dyes.yaml:{place}") and fault in said
    assert len([line for line in said.splitlines() if not line.startswith("  ")]) == 1, said


# Amendments


def row_of(folder: Path, core_seconds: str) -> CampaignRow:
    found = spec(folder, core_seconds)
    text = CAMPAIGN.replace("core_seconds: 3600", f"core_seconds: {core_seconds}  # a word")
    identity: dict[str, Any] = {"spec": found.canonical(), "spec_hash": found.hash}
    return CampaignRow(
        id=1,
        name="dyes",
        identity_hash=found.identity_hash,
        base=str(folder),
        source=text,
        state=CampaignState.RUNNING,
        stop_reason=None,
        wall_seconds=0.0,
        driver_core_seconds=0.0,
        hosted=False,
        created_at=datetime.now(UTC),
        updated_at=datetime.now(UTC),
        **identity,
    )


@pytest.mark.parametrize(
    ("before", "given", "change"),
    [
        ("3600", "9/week", 'core_seconds: 3600.0 -> {"amount": 9.0, "per": "week"}'),
        ("3600", "9/campaign", "core_seconds: 3600.0 -> 9.0"),
        ("{amount: 3600, per: week}", "9/week", "core_seconds.amount: 3600.0 -> 9.0"),
        ("{amount: 3600, per: week}", "9 / campaign", 'core_seconds: {"amount": 3600.0, "per": "week"} -> 9.0'),
        ("{amount: 3600, per: week}", "none", 'core_seconds: {"amount": 3600.0, "per": "week"} -> nothing'),
    ],
)
def test_a_rate_may_be_amended(before: str, given: str, change: str, folder: Path) -> None:
    row = row_of(folder, before)
    source = amend_pause_stop_and_resume.amended_source(row, budget=[f"core_seconds={given}"])
    assert ("# a word" in source) is (given != "none")
    assert amend_pause_stop_and_resume.differences(row, source, "dyes.yaml", folder)[1] == [f"budget.{change}"]


@pytest.mark.parametrize(
    ("before", "text", "fault"),
    [
        ("{amount: 3600, per: week}", "core_seconds=9", "3600 per week so far; write core_seconds=9/week or"),
        ("3600", "core_seconds=9/month", '"/month" is not known here'),
        ("3600", "wall_minutes=9/week", "everything else KEY=NUMBER"),
        ("3600", "rungs.dft=9/week", "everything else KEY=NUMBER"),
        ("3600", "core_seconds=x/week", '"x" is no number'),
    ],
)
def test_an_amendment_must_say_what_it_means(before: str, text: str, fault: str, folder: Path) -> None:
    with pytest.raises(UsageError, match=fault):
        amend_pause_stop_and_resume.amended_source(row_of(folder, before), budget=[text])


# A driver

MOLECULES = tuple(f"{'C' * a}O{'C' * b}" for a in range(1, 16) for b in range(1, 5) if a >= b)
TEXT = """
campaign: weekly
subject: molecule
objectives: [{{property: logp, max: 5}}]
ladder:
  - {{rung: quick, verifier: bad.quick, settings: {{burn: 0.01}}}}
goal: {{kind: graded}}
budget: {budget}
proposer: {{kind: screen, file: molecules.smi, batch: 100}}
scheduler: {{kind: exhaustive}}
workers: 1
"""
RATE = 0.3


def enter(ledger: Ledger, folder: Path, budget: str) -> Built:
    (folder / "molecules.smi").write_text("\n".join(MOLECULES) + "\n")
    text = TEXT.format(budget=budget)
    return create_or_open(ledger, parse_spec(text, base=folder), text, "test").built


def run(ledger: Ledger) -> CampaignCounts:
    """Resume it, to its end; returns its status."""
    with Driver(open_stored(ledger, "weekly", "test").built) as driver:
        driver.run()
    with ledger.read() as connection:
        return campaign_counts_and_remarks.counts(connection, campaigns.get(connection, "weekly"))


def test_a_resumed_campaign_counts_what_was_spent_in_the_last_seven_days(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(ledger, tmp_path, f"{{core_seconds: {{amount: {RATE}, per: week}}}}")
    began = datetime.now().astimezone()
    first = run(ledger)
    spent, done = first.spent["core_seconds"], first.rungs[-1].done
    assert first.state == CampaignState.BUDGET_SPENT
    start, _, when = str(first.stop_reason).removesuffix(" UTC").partition("; more on ")
    assert start.startswith("core_seconds: 0.") and start.endswith(f" of {RATE} in seven days")
    assert timedelta(days=7) - timedelta(seconds=1) <= datetime.fromisoformat(f"{when}+00:00") - began
    assert first.budget == {"rungs": {}}
    assert plain(first)["rates"] == {"core_seconds": {"amount": RATE, "per": "week", "used": pytest.approx(spent)}}
    assert 0 < spent < 2 * RATE and 0 < done < len(MOLECULES)

    with ledger.read() as connection:
        purse = BudgetTracker(open_stored(ledger, "weekly", "test").built, connection)
    assert purse.limits() == {"core_seconds": RATE}
    assert purse.used() == {"core_seconds": pytest.approx(spent)}
    assert purse.exhausted() is None and not purse.fits(Cost(core_seconds=RATE))

    again = run(ledger)
    assert (again.state, again.rungs[-1].done) == (CampaignState.BUDGET_SPENT, done)
    assert again.spent["core_seconds"] == spent

    later = timedelta(days=7, minutes=10)  # the ledger's rows stay as they are
    monkeypatch.setattr(budget_tracker, "db_now", lambda connection: db_now(connection) + later)
    third = run(ledger)
    assert third.rungs[-1].done > done
    assert spent < third.spent["core_seconds"] < 4 * RATE


def stop_reason(built: Built) -> str:
    with built.ledger.read() as connection:
        return str(campaigns.get(connection, "weekly").stop_reason)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_rate_that_is_used_up_holds_back_only_what_takes_it(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first thirty would take a slot in the laboratory, and there is none before next week; the others go on."""
    built = enter(ledger, tmp_path, "{core_seconds: 100, lab_slots: {amount: 1, per: week}}")
    core_seconds, slotted = BuiltRung.declared_cost, {parse_molecule(text).text for text in MOLECULES[:30]}

    def declared_cost(self: BuiltRung, candidate: Any) -> Cost:
        return (core_seconds(self, candidate) or Cost()) + Cost(lab_slots=float(candidate.text in slotted))

    monkeypatch.setattr(BuiltRung, "declared_cost", declared_cost)
    with Driver(built) as driver:
        driver.session.budget.spend(Cost(lab_slots=1))
        assert driver.run() is CampaignState.BUDGET_SPENT
    with ledger.read() as connection:
        done = campaign_counts_and_remarks.counts(connection, campaigns.get(connection, "weekly")).rungs[-1].done
    assert done == len(MOLECULES) - len(slotted)
    assert stop_reason(built).startswith("lab_slots: 1 of 1 in seven days; more on 20")


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_no_proposer_is_asked_while_nothing_is_left_for_its_turn(ledger: Ledger, tmp_path: Path) -> None:
    built = enter(ledger, tmp_path, "{core_seconds: {amount: 1, per: week}}")
    with Driver(built) as driver:
        driver.session.budget.spend(Cost(core_seconds=1))
        assert driver.run() is CampaignState.BUDGET_SPENT
        assert driver.intake.n_proposals == 0
    assert stop_reason(built).startswith("core_seconds: 1 of 1 in seven days; more on 20")
