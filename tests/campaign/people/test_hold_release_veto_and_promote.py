"""A person's word on a candidate, with and without a driver, on SQLite and PostgreSQL; real engines, tiny molecules."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open, open_campaign_for_people
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.campaign.people import amend_pause_stop_and_resume, hold_release_veto_and_promote
from sciagent.campaign.people.find_candidate import FoundCandidate, resolve
from sciagent.campaign.people.verify_calculate_and_add import add
from sciagent.campaign.proposing import briefing_and_workbench, proposal_novelty
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.answers.status_and_comparison import CampaignCounts, RungCounts
from sciagent.domain.proposer_interfaces import ProposalIn
from sciagent.domain.states_and_needs import CampaignState, JobState, Standing, Verb
from sciagent.errors import UsageError
from sciagent.report.status_best_trace import best
from sciagent.store.campaign_state import campaigns, candidate_standings, directives
from sciagent.store.database import tables as t
from sciagent.store.database.condition_for_part_of_candidates import WHOLE
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs, leases, reservations_and_bookings
from sciagent.store.results import candidates
from sciagent.store.views import campaign_counts_and_remarks
from tests.support.campaigns import write_campaign

MOLECULES = ("C", "O", "N", "CO", "CF")


@pytest.fixture
def built(ledger: Ledger, tmp_path: Path) -> Built:
    """A campaign that is entered and has not begun; by gates, five molecules, two at DFT."""
    file = write_campaign(tmp_path, molecules=MOLECULES, scheduler="thresholds", dft=2, window=(1.0, 40.0), gfn1=True)
    return create_or_open(ledger, load_spec(file), file.read_text(), "ann").built


def named(built: Built, text: str) -> FoundCandidate:
    with built.ledger.read() as connection:
        return resolve(connection, campaigns.get(connection, built.row.name), text)


def stands(built: Built, text: str) -> dict[str, Any]:
    one = named(built, text)
    with built.ledger.read() as connection:
        return dict(candidate_standings.get(connection, built.row.id, one.id))


def jobs_of(built: Built, text: str) -> dict[str, str]:
    """{rung: state of the candidate's job there}"""
    labels, one = {r.id: r.spec.rung for r in built.rungs}, named(built, text)
    with built.ledger.read() as connection:
        return {labels[r]: s for _, r, s, _ in jobs.of_candidate(connection, built.row.id, one.id, list(labels))}


def people(built: Built) -> Built:
    """The campaign as another process opens it."""
    return open_campaign_for_people(built.ledger, built.row.name)


def enter(built: Built, *texts: str) -> list[Any]:
    return list(add(people(built), [ProposalIn(x, operation="person") for x in texts], "ann", "my own"))


def status(built: Built) -> CampaignCounts:
    with built.ledger.read() as connection:
        return campaign_counts_and_remarks.counts(connection, campaigns.get(connection, built.row.name))


def at(built: Built, label: str) -> Any:
    """The rung of that label; its position counts whatever the platform puts before it."""
    return next(r for r in built.rungs if r.spec.rung == label)


def counts(built: Built, label: str) -> RungCounts:
    return next(rung for rung in status(built).rungs if rung.rung == label)


def step_until(driver: Driver, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert driver.step(0.05) is None and time.monotonic() < deadline


def run(built: Built) -> CampaignState:
    with Driver(built, workers=1) as driver:
        return driver.run()


def test_what_a_person_adds_goes_the_way_of_any_proposal(built: Built) -> None:
    new, bad, twice, radical = enter(built, "OC", "C1CC", "CO", "C[CH2]")
    assert (new.status, new.standing) == ("new", "open")
    assert (bad.status, bad.standing, bad.reason) == ("refused", None, "unparsable")
    assert (twice.status, twice.key) == ("duplicate", new.key)
    assert (radical.standing, radical.reason) == ("dropped", "radical")  # the fast rungs have run
    with built.ledger.read() as connection:
        said = directives.directives_since(connection, built.row.id, 0)
        assert {(d.verb, d.who, d.why) for d in said} == {(Verb.ADD, "ann", "my own")} and len(said) == 2
        texts = connection.execute(sa.select(t.proposal.c.text, t.proposal.c.operation)).all()
        assert [tuple(x) for x in texts] == [(x, "person") for x in ("OC", "C1CC", "CO", "C[CH2]")]
    assert run(built) is CampaignState.BUDGET_SPENT  # and the proposer's own CO is a duplicate of it
    assert status(built).candidates == 6
    assert jobs_of(built, "CO")["xtb"] == JobState.DONE


def test_a_held_candidate_waits_until_it_is_released(built: Built) -> None:
    enter(built, "CO")
    done = hold_release_veto_and_promote.hold(people(built), named(built, "CO"), "ann", "wait for the NMR")
    assert (done.standing, done.running) == ("held", ())
    with pytest.raises(UsageError, match="held already, by ann: wait for the NMR"):
        hold_release_veto_and_promote.hold(people(built), named(built, "CO"), "bob", "me too")
    run(built)
    assert jobs_of(built, "CO") == {} and stands(built, "CO")["standing"] == Standing.HELD
    assert stands(built, "CO")["detail"] == "by ann: wait for the NMR"
    assert hold_release_veto_and_promote.release(people(built), named(built, "CO"), "bob", "it came").standing == "open"
    with pytest.raises(UsageError, match="neither held nor vetoed; it is open"):
        hold_release_veto_and_promote.release(people(built), named(built, "CO"), "bob", "again")


def test_a_hold_and_its_release_keep_what_the_law_has_forecast(built: Built) -> None:
    enter(built, "CO")
    forecast = {"p_hit": 0.58, "chance": 58, "expected_utility": 0.89, "margin": 0.0, "basis": "law"}
    with built.ledger.begin() as connection:
        candidate_standings.update(connection, built.row.id, named(built, "CO").id, **forecast)
    hold_release_veto_and_promote.hold(people(built), named(built, "CO"), "ann", "wait for the NMR")
    with built.ledger.read() as connection:
        [held] = best(connection, built.row, 1)
        [told] = briefing_and_workbench._best_lines(connection, built, WHOLE)
        [shown] = proposal_novelty.best_candidates(connection, built, 1).values()
    assert told == "#1 CO: P(hit) 58 %, expected utility 0.89, held by a person: nothing is run for it"
    assert shown.is_held
    assert (held.standing, held.verified, held.p_hit, held.basis) == ("held", False, 0.58, "law")
    hold_release_veto_and_promote.release(people(built), named(built, "CO"), "bob", "it came")
    now = stands(built, "CO")
    assert {name: now[name] for name in forecast} == forecast and now["standing"] == Standing.OPEN
    hold_release_veto_and_promote.veto(people(built), named(built, "CO"), "ann", "smells")
    assert stands(built, "CO")["p_hit"] is None
    hold_release_veto_and_promote.release(people(built), named(built, "CO"), "bob", "not at all")
    now = stands(built, "CO")
    assert {name: now[name] for name in forecast} == forecast and now["standing"] == Standing.OPEN


def test_a_veto_takes_a_hit_out_and_a_release_brings_it_back(built: Built) -> None:
    run(built)
    before = status(built)
    assert before.hits == 2
    with built.ledger.read() as connection:
        hit = next(r for r in best(connection, campaigns.get(connection, "small"), 9) if r.hit)
    one, was = named(built, hit.key[:10]), stands(built, hit.key[:10])
    assert hold_release_veto_and_promote.veto(people(built), one, "ann", "explodes").standing == "vetoed"
    after = status(built)
    assert (after.hits, sum(after.hits_by_tier.values())) == (1, 1)
    assert after.rungs[-1].done == before.rungs[-1].done  # its evidence is still counted
    with built.ledger.read() as connection:
        row = campaigns.get(connection, "small")
        assert hit.key not in {r.key for r in best(connection, row, 9)}
        assert hit.key not in {
            r["key"] for r in candidate_standings.best_with_worth(connection, row.id, 9)
        }  # no parent either
    hold_release_veto_and_promote.release(people(built), one, "ann", "it was the other flask")
    again = stands(built, one.key)
    assert {k: again[k] for k in was if k != "updated_at"} == {k: was[k] for k in was if k != "updated_at"}
    assert status(built).hits == 2


def test_a_vetoed_candidate_that_no_evidence_speaks_for_stands_again_as_it_stood(built: Built) -> None:
    """A limit that was hit is no evidence: it cannot be worked out again, so it is remembered."""
    run(built)
    one = next(x for x in MOLECULES if "dft" not in jobs_of(built, x))
    fallen: dict[str, Any] = {
        "standing": "dropped",
        "verdict": "inconclusive",
        "reason": "wall_limit",
        "detail": "60 s",
    }
    fallen["position"] = at(built, "dft").rules.position
    with built.ledger.begin() as connection:
        candidate_standings.update(connection, built.row.id, named(built, one).id, **fallen)
        new = jobs.NewJob(built.row.id, at(built, "dft").id, named(built, one).id, 0, "e" * 64, 0.0)
        [made] = jobs.create_many(connection, [new])
        connection.execute(sa.update(t.job).where(t.job.c.id == made).values(state="failed", outcome="timeout"))
    hold_release_veto_and_promote.veto(people(built), named(built, one), "ann", "no")
    hold_release_veto_and_promote.release(people(built), named(built, one), "ann", "yes")
    assert {k: stands(built, one)[k] for k in fallen} == fallen


def test_a_promotion_jumps_the_gates_and_is_served_first(built: Built, tmp_path: Path) -> None:
    enter(built, "CF")
    done = hold_release_veto_and_promote.promote(
        people(built), named(built, "CF"), "ann", "GFN2 cannot judge it", to="dft"
    )
    assert (done.standing, done.rung) == ("pending", "dft")
    assert jobs_of(built, "CF") == {"dft": JobState.QUEUED}
    with built.ledger.read() as connection:
        one = connection.execute(sa.select(t.decision).where(t.decision.c.action == "promote")).mappings().one()
        assert (one["chooser"], one["why"], one["propensity"]) == ("person:ann", "GFN2 cannot judge it", 1.0)
        assert reservations_and_bookings.reserved(connection, built.row.id)["core_seconds"] > 0
    assert run(built) is CampaignState.BUDGET_SPENT
    with built.ledger.read() as connection:
        query = sa.select(t.attempt.c.job_id).where(t.attempt.c.job_id.is_not(None)).order_by(t.attempt.c.id).limit(1)
        first = connection.execute(query).scalar()
        assert connection.execute(sa.select(t.job.c.candidate_id).where(t.job.c.id == first)).scalar() == (
            named(built, "CF").id
        )
        assert reservations_and_bookings.reserved(connection, built.row.id) == {}
    found = stands(built, "CF")
    assert (
        found["standing"] == Standing.SETTLED and found["depth"] == at(built, "dft").rules.position and found["is_hit"]
    )
    assert jobs_of(built, "CF") == {"dft": JobState.DONE}  # xtb was jumped, and stays so
    assert status(built).rungs[-1].jobs == 2  # within the budget by count
    with pytest.raises(UsageError, match="is settled"):
        hold_release_veto_and_promote.promote(people(built), named(built, "CF"), "ann", "again")


def test_a_gate_that_failed_is_waived_by_a_promotion(built: Built, tmp_path: Path) -> None:
    enter(built, "C[CH2]")
    assert stands(built, "C[CH2]")["reason"] == "radical"
    done = hold_release_veto_and_promote.promote(people(built), named(built, "C[CH2]"), "ann", "radicals matter here")
    assert (done.standing, done.rung) == ("pending", "xtb")  # the next after where it fell
    run(built)
    found = stands(built, "C[CH2]")
    assert jobs_of(built, "C[CH2]")["xtb"] == JobState.DONE
    assert found["depth"] == at(built, "xtb").rules.position and found["reason"] != "radical"


def test_a_promotion_is_refused_where_it_cannot_be(built: Built, tmp_path: Path) -> None:
    enter(built, "CF", "CO")
    with pytest.raises(UsageError, match='--to "nmr": a candidate can be promoted to xtb, dft'):
        hold_release_veto_and_promote.promote(people(built), named(built, "CF"), "ann", "x", to="nmr")
    hold_release_veto_and_promote.hold(people(built), named(built, "CF"), "ann", "wait")
    with pytest.raises(UsageError, match="held by ann: wait; release it first"):
        hold_release_veto_and_promote.promote(people(built), named(built, "CF"), "ann", "x")
    enter(built, "N", "O")
    for text in ("N", "O"):
        hold_release_veto_and_promote.promote(people(built), named(built, text), "ann", "x", to="dft")
    with pytest.raises(UsageError, match=r"all 2 places of dft are used; .*sciagent amend small --budget rungs\.dft=N"):
        hold_release_veto_and_promote.promote(people(built), named(built, "CO"), "ann", "x", to="dft")
    assert jobs_of(built, "CO") == {} and stands(built, "CO")["standing"] == Standing.OPEN  # nothing was half done
    with built.ledger.read() as connection:
        row = campaigns.get(connection, "small")
    source = amend_pause_stop_and_resume.amended_source(row, budget=["rungs.dft=9", "verifications=2"])
    spec, changes = amend_pause_stop_and_resume.differences(row, source, "x", tmp_path)
    amend_pause_stop_and_resume.amend(built.ledger, spec, source, "ann", "fewer", changes)
    with pytest.raises(UsageError, match=r"all 2 verifications by dft are used; .*--budget verifications=N"):
        hold_release_veto_and_promote.promote(people(built), named(built, "CO"), "ann", "x", to="dft")


def test_a_veto_cancels_what_waits_and_gives_its_place_back(built: Built) -> None:
    enter(built, "CF", "CO")
    hold_release_veto_and_promote.promote(people(built), named(built, "CF"), "ann", "x", to="dft")
    done = hold_release_veto_and_promote.veto(people(built), named(built, "CF"), "bob", "no")
    assert (done.standing, done.cancelled) == ("vetoed", ("dft",))
    with built.ledger.read() as connection:
        assert reservations_and_bookings.reserved(connection, built.row.id) == {}
        assert campaign_counts_and_remarks.jobs_by_rung(connection, built.row.id).get(at(built, "dft").id, 0) == 0
    hold_release_veto_and_promote.release(people(built), named(built, "CF"), "bob", "yes")
    assert stands(built, "CF")["position"] == at(built, "xtb").rules.position  # a veto ends a promotion
    run(built)
    assert jobs_of(built, "CF")["xtb"] == JobState.DONE
    assert status(built).rungs[-1].jobs == 2


def test_a_cancelled_job_is_run_after_a_release_and_a_new_promotion(built: Built) -> None:
    enter(built, "CF")
    for step in range(2):
        hold_release_veto_and_promote.promote(people(built), named(built, "CF"), "ann", "x", to="dft")
        if step == 0:
            hold_release_veto_and_promote.veto(people(built), named(built, "CF"), "bob", "no")
            hold_release_veto_and_promote.release(people(built), named(built, "CF"), "bob", "yes")
    run(built)
    assert jobs_of(built, "CF") == {"dft": JobState.DONE}


def test_words_reach_a_driver_that_runs(built: Built) -> None:
    """Beside a driver: what runs is finished and kept, what is vetoed is placed so, budgets are read again."""
    with Driver(built, workers=1) as driver:
        while not driver.session.crews[0].by_id:
            driver.step(0.0)
        [ticket] = driver.session.crews[0].by_id.values()
        running = ticket.candidate.text
        done = hold_release_veto_and_promote.veto(people(built), named(built, running), "ann", "no more of this")
        assert (done.running, done.standing) == (("xtb",), "pending")
        hold_release_veto_and_promote.promote(people(built), named(built, "CF"), "ann", "mine", to="dft")
        driver.run()
        assert driver.session.budget._reserved.get("core_seconds", 0.0) == pytest.approx(0.0, abs=1e-9)
    assert stands(built, running)["standing"] == Standing.VETOED
    assert stands(built, running)["depth"] == at(built, "xtb").rules.position
    assert jobs_of(built, running) == {"xtb": JobState.DONE}
    assert stands(built, "CF")["standing"] == Standing.SETTLED
    assert status(built).rungs[-1].jobs == 2


def test_a_job_that_came_back_is_not_run_again_for_a_candidate_that_was_vetoed_meanwhile(built: Built) -> None:
    """Its driver died; the next one finds the veto before it takes the job up."""
    enter(built, "CF")
    hold_release_veto_and_promote.promote(people(built), named(built, "CF"), "ann", "x", to="dft")
    with built.ledger.begin() as connection:
        [(job_id, *_)] = jobs.queued(connection, built.row.id)
        assert leases.claim(connection, job_id, "elsewhere:1:0:dead")
    assert hold_release_veto_and_promote.veto(people(built), named(built, "CF"), "ann", "no").running == ("dft",)
    run(built)
    assert jobs_of(built, "CF") == {"dft": JobState.CANCELLED}
    assert stands(built, "CF")["standing"] == Standing.VETOED
    with built.ledger.read() as connection:
        assert reservations_and_bookings.reserved(connection, built.row.id) == {}


def test_pause_go_on_amend_and_stop_are_obeyed_by_a_running_driver(built: Built, tmp_path: Path) -> None:

    def tell(verb: Verb, **payload: Any) -> None:
        with built.ledger.begin() as connection:
            directives.write(connection, built.row.id, verb, "ann", "because", payload=payload)

    with Driver(built, workers=1) as driver:
        while not driver.session.crews[0].by_id:
            driver.step(0.0)
        tell(Verb.PAUSE)
        step_until(driver, lambda: not driver.session.crews[0].by_id and status(built).state == "paused")
        assert status(built).stop_reason == "paused by ann: because"
        before, wall = status(built).rungs, status(built).spent["wall_minutes"]
        for _ in range(20):
            assert driver.step(0.05) is None
        driver.heart._once()
        assert status(built).rungs == before, "a paused campaign starts nothing"
        assert status(built).spent["wall_minutes"] == wall, "a pause is no wall time"
        with built.ledger.read() as connection:
            row = campaigns.get(connection, "small")
        source = amend_pause_stop_and_resume.amended_source(row, budget=["rungs.dft=1"], goal_count=4, workers=1)
        spec, changes = amend_pause_stop_and_resume.differences(row, source, "x", tmp_path)
        assert set(changes) == {"goal.count: null -> 4", "budget.rungs.dft: 2 -> 1"}
        amend_pause_stop_and_resume.amend(built.ledger, spec, source, "ann", "less", changes)
        tell(Verb.RESUME)
        ended = driver.run()
        assert ended is CampaignState.BUDGET_SPENT
        assert driver.built.spec.goal.count == 4
    assert status(built).rungs[-1].jobs == 1
    with built.ledger.read() as connection:
        log = connection.execute(sa.select(t.campaign_amendment.c.who, t.campaign_amendment.c.why)).all()
        assert {tuple(one) for one in log} == {("ann", "less")}


def test_a_stop_ends_the_driver_and_names_who_said_so(built: Built) -> None:
    with Driver(built, workers=1) as driver:
        while not driver.session.crews[0].by_id:
            driver.step(0.0)
        with built.ledger.begin() as connection:
            directives.write(connection, built.row.id, Verb.STOP, "ann", "enough")
        assert driver.run() is CampaignState.INTERRUPTED
    found = status(built)
    assert (found.state, found.stop_reason) == ("interrupted", "stopped by ann: enough")
    assert counts(built, "xtb").jobs == counts(built, "xtb").done <= 2 and counts(built, "dft").jobs == 0
    assert run(built) is CampaignState.BUDGET_SPENT  # what was said to an earlier driver does not stop the next


def test_what_the_safety_screen_blocks_cannot_be_promoted(built: Built) -> None:
    [one] = enter(built, "Cc1c(cc(cc1[N+](=O)[O-])[N+](=O)[O-])[N+](=O)[O-]")  # TNT
    assert one.standing == "dropped"
    with pytest.raises(UsageError, match="blocked by the safety screen"):
        hold_release_veto_and_promote.promote(people(built), named(built, one.key), "ann", "for science", to="dft")
    assert jobs_of(built, one.key) == {}
    with built.ledger.read() as connection:
        kinds = connection.execute(sa.select(t.event.c.payload).where(t.event.c.kind == "safety_blocked")).scalars()
        assert "promote" in [payload.get("asked") for payload in kinds]


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_candidate_that_a_filter_dropped_is_added_and_goes_to_the_first_paid_rung(built: Built) -> None:
    with built.ledger.begin() as connection:
        ids = candidates.enter(connection, [parse_molecule("CC")])
        values = {"campaign_id": built.row.id, "candidate_id": next(iter(ids.values())), "text": "CC"}
        connection.execute(sa.insert(t.proposal).values(values | {"status": "filtered", "at": db_now(connection)}))
    with pytest.raises(UsageError, match="is not in campaign"):
        named(built, "CC")
    with built.ledger.read() as connection:
        dropped = resolve(connection, built.row, "CC", with_filtered=True)
    result = hold_release_veto_and_promote.promote(built, dropped, "ann", "I trust it more than the law does")
    assert (result.standing, result.rung) == ("pending", built.paid[0].spec.rung)
    assert jobs_of(built, "CC") == {built.paid[0].spec.rung: "queued"}
