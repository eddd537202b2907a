"""Half an answer: quantities that are open, those that have a reason in place of a value, and what completes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.domain.answers.explanation import CampaignStory, Explanation
from sciagent.domain.states_and_needs import CampaignState, JobState, Verb
from sciagent.errors import EvidenceConflictError, UsageError
from sciagent.lab import claims_costs_and_vials, record_answers, review_and_sign_answers
from sciagent.lab.displayed_lab_tasks_claims_and_samples import LabTaskAnswer, TaskReader
from sciagent.lab.record_answers import LabEntry, Recorded
from sciagent.report import status_best_trace
from sciagent.report.explain_candidate import explain_named
from sciagent.report.explanation_text import paragraphs
from sciagent.report.page import html_page
from sciagent.rewards.candidate_states_lots_and_episode_starts import states
from sciagent.store.campaign_state import directives
from sciagent.store.database import tables as t
from sciagent.store.lab import submissions, tasks
from sciagent.store.lab.tasks import LabTask
from sciagent.store.people import audit
from sciagent.store.results import evidence, pooled_replicates
from sciagent.store.views import campaign_counts_and_remarks, check_evidence
from tests.lab.conftest import Make, drive
from tests.lab.test_record_answers import place, task_ids
from tests.lab.test_review_and_sign_answers import waiting

GAP = "homo_lumo_gap"
MELTING = "melting_point"
BOTH = f"{GAP}, {MELTING}"
WANTED = "  - {property: melting_point, window: [250, 400], unit: K}\n"
REVIEW = "{ahead: 3, review: true}"


def entry(
    values: Mapping[str, str] | None = None,
    who: str = "anna",
    reasons: Mapping[str, str] | None = None,
    not_obtained: str = "",
    **more: Any,
) -> LabEntry:
    said = {"values": dict(values or {}), "uncertainties": {}, "limit": "", "not_obtained": not_obtained}
    if reasons:
        said["reasons"] = dict(reasons)
    return LabEntry(said, who, **more)


def enter(built: Built, task_id: int, *args: Any, **more: Any) -> Recorded:
    return record_answers.enter(built, task_id, entry(*args, **more))


def task_of(built: Built, task_id: int) -> LabTask:
    with built.ledger.read() as connection:
        task = tasks.find(connection, task_id)
    assert task is not None
    return task


def displayed(built: Built, task_id: int) -> LabTaskAnswer:
    with built.ledger.read() as connection:
        [answer] = TaskReader(built.ledger).shown(connection, [task_of(built, task_id)])
    return answer


def evidence_rows(built: Built) -> list[tuple[int, bool, dict[str, str | None]]]:
    """(revision, whether it may answer a question, {property: text as typed}) of the evidence of people."""
    with built.ledger.read() as connection:
        query = sa.select(t.evidence).where(t.evidence.c.verifier == "lab.measurement").order_by(t.evidence.c.id)
        rows = connection.execute(query).all()
        measured = evidence.measured_of(connection, [row.id for row in rows])
    found = []
    for row in rows:
        typed = {each.property: each.quantity.as_typed for each in measured.get(row.id, ())}
        found.append((row.revision, row.reusable, typed))
    return found


def slots(built: Built) -> float:
    with built.ledger.read() as connection:
        return campaign_counts_and_remarks.spent(connection, built.row.id).get("lab_slots", 0.0)


def test_what_was_measured_is_evidence_at_once_and_the_task_stays_open(make: Make) -> None:
    built = make(quantities=BOTH, wanted=WANTED, smiles=("CCO",), count=1)
    [task] = task_ids(built)
    half = enter(built, task, {GAP: "4.310 eV"}, key="half")
    assert (half.state, half.open_quantities, half.revision) == (JobState.RUNNING, (MELTING,), 0)
    assert evidence_rows(built) == [(0, False, {GAP: "4.310 eV"})]
    assert place(built, task) == ("pending", None, False), "no verdict follows from half an answer"
    listed = displayed(built, task)
    assert (listed.state, listed.open_quantities, listed.claimed_by) == ("part_answered", (MELTING,), "anna")
    assert drive(built) is CampaignState.WAITING, "the campaign does not end while a quantity is open"
    again = enter(built, task, {GAP: "4.310 eV"}, key="half")
    assert again.was_known and again.open_quantities == (MELTING,) and len(evidence_rows(built)) == 1
    whole = enter(built, task, {MELTING: "300 K"}, key="rest")
    assert (whole.state, whole.open_quantities, whole.revision) == (JobState.DONE, (), 1)
    assert evidence_rows(built)[1:] == [(1, True, {GAP: "4.310 eV", MELTING: "300 K"})]
    assert place(built, task) == ("settled", "pass", True) and slots(built) == 1, "the cost is booked once"
    assert enter(built, task, {MELTING: "300 K"}, key="rest").was_known, "what was taken over is not the sender's"
    with pytest.raises(EvidenceConflictError, match="the key rest was used for another answer"):
        enter(built, task, {MELTING: "301 K"}, key="rest")
    with built.ledger.read() as connection:
        [first, second] = connection.execute(sa.select(t.evidence).where(t.evidence.c.verifier == "lab.measurement"))
        assert (second.supersedes_id, second.attempt_id) == (first.id, first.attempt_id)
        assert second.why == "a quantity that was open was added"
        [_, rest] = submissions.of_job(connection, task)
        assert (rest.said["kept"], rest.why) == ([GAP], None)
        acts = [each.what for each in audit.entries(connection) if each.object == "submission"]
        assert acts == ["entered in part", "entered"]
        attempt = connection.execute(sa.select(t.attempt).where(t.attempt.c.id == first.attempt_id)).one()
        assert (attempt.state, attempt.watermark) == ("done", second.watermark)
        check = check_evidence.check(connection, built.ledger.secret.known_keys())
        assert (check.of_people, check.first_faults) == (2, []), "a person answers for each half"
    assert drive(built) is CampaignState.FINISHED


@pytest.mark.parametrize(
    ("wanted", "expected", "reason"),
    [
        (WANTED, ("settled", "fail", False), "decomposed"),
        ("  - {property: melting_point, maximise: [250, 400], unit: K}\n", ("settled", "fail", False), "decomposed"),
        ("", ("settled", "pass", True), None),
    ],
)
def test_a_reason_stands_beside_the_values_of_others(
    make: Make, wanted: str, expected: tuple[str, str, bool], reason: str | None
) -> None:
    built = make(quantities=BOTH, wanted=wanted, smiles=("CCO", "Oc1ccccc1"))
    task = task_ids(built)[0]
    done = enter(built, task, {GAP: "4.31 eV"}, reasons={MELTING: "decomposed"})
    assert (done.state, done.open_quantities) == (JobState.DONE, ())
    assert evidence_rows(built) == [(0, True, {GAP: "4.31 eV"})]
    assert place(built, task) == expected, "an objective whose quantity was not obtained cannot be met"
    with built.ledger.read() as connection:
        row = connection.execute(sa.select(t.campaign_candidate).where(t.campaign_candidate.c.verdict == expected[1]))
        standing = row.one()
        [made] = connection.execute(sa.select(t.evidence).where(t.evidence.c.verifier == "lab.measurement"))
    assert standing.reason == reason and (standing.utility is None) is (reason is not None)
    assert (made.outcome, made.detail) == ("ok", "melting_point not obtained: decomposed")
    assert made.unobtained == {MELTING: "decomposed"}


def test_what_a_quantity_lacks_is_told_and_the_candidate_is_worth_nothing(make: Make) -> None:
    built = make(
        lab="{ahead: 3, cost: {money: 120}}",
        quantities=BOTH,
        wanted="  - {property: melting_point, maximise: [250, 400], unit: K}\n",
    )
    task = task_ids(built)[0]
    text = task_of(built, task).text
    enter(built, task, {GAP: "4.31 eV"})
    story, lines = explained(built, text)
    assert (story.standing, story.rungs[-1].verdict, story.rungs[-1].detail) == ("pending", None, "a quantity is open")
    assert "It has cost this campaign" in lines and "1 lab slot, 120 EUR so far" in lines
    enter(built, task, reasons={MELTING: "decomposed"})
    story, lines = explained(built, text)
    rung = story.rungs[-1]
    assert (rung.verdict, rung.reason, rung.detail) == ("fail", "decomposed", "melting_point not obtained: decomposed")
    assert (story.utility, story.p_hit, story.expected_utility, story.basis) == (None, 0.0, 0.0, "answered")
    assert "melting_point: no value (decomposed)" in lines and "could not decide" not in lines
    assert "Worth nothing, since not all that decides could be obtained (decomposed); it cost" in lines
    with built.ledger.read() as connection:
        page = html_page.page(connection, built.row, built.ledger.artifacts)
        candidate = task_of(built, task).candidate_id
        assert states(built, connection, [candidate], 10**6)[candidate].payoff == 0.0
    assert "none: decomposed" in page and "melting point not obtained: decomposed" in page


def explained(built: Built, text: str) -> tuple[CampaignStory, str]:
    answer = explain_named(built.ledger, text, built.row)
    assert isinstance(answer, Explanation)
    return answer.campaigns[0], "\n".join(line.text for line in paragraphs(answer))


def test_an_answer_in_review_has_cost_what_is_booked_and_a_hold_is_told(make: Make) -> None:
    built = make(lab="{ahead: 3, review: true, cost: {money: 120}}")
    task = task_ids(built)[0]
    enter(built, task, {GAP: "4.31 eV"})
    with built.ledger.begin() as connection:
        counts = tasks.counts(connection, built.row.id, [built.asked[0].id], [])
        candidate = task_of(built, task).candidate_id
        directives.write(connection, built.row.id, Verb.HOLD, "carla", "wait for the NMR", candidate_id=candidate)
    assert counts is not None and (counts.claimed, counts.in_review) == (0, 1)
    story, lines = explained(built, task_of(built, task).text)
    assert story.why.startswith("lab is at work on it. carla holds it: wait for the NMR.")
    assert story.costs["money"] == 120 and "1 lab slot, 120 EUR so far" in lines


def test_reasons_alone_are_no_values(make: Make) -> None:
    built = make(quantities=BOTH, wanted=WANTED)
    first, second, _ = task_ids(built)
    half = enter(built, first, reasons={MELTING: "decomposed"})
    assert half.open_quantities == (GAP,) and evidence_rows(built) == [(0, False, {})]
    enter(built, first, reasons={GAP: "insoluble"})
    assert place(built, first) == ("settled", "fail", False)
    for said, fault in (
        ({"reasons": {"dipole": "impure"}}, '"dipole" is not asked for'),
        ({"reasons": {GAP: "lost"}}, 'homo_lumo_gap: "lost" is no reason'),
        ({"values": {GAP: "4 eV"}, "reasons": {GAP: "impure"}}, "there is a value, and a reason why there is none"),
    ):
        with pytest.raises(UsageError, match=fault):
            enter(built, second, **said)


def test_another_value_of_what_is_recorded_needs_a_reason(make: Make) -> None:
    built = make(quantities=BOTH, wanted=WANTED)
    task = task_ids(built)[0]
    enter(built, task, {GAP: "4.31 eV"})
    with pytest.raises(UsageError, match=f"{GAP} of task {task} is recorded already; another value is a correction"):
        enter(built, task, {GAP: "4.41 eV", MELTING: "300 K"})
    with pytest.raises(UsageError, match=f"{GAP} of task {task} is recorded already"):
        enter(built, task, not_obtained="insoluble")
    half = enter(built, task, {GAP: "4.41 eV"}, why="wrong lamp")
    assert half.open_quantities == (MELTING,) and half.revision == 1
    assert enter(built, task, {GAP: "4.41 eV", MELTING: "300 K"}).revision == 2
    with pytest.raises(UsageError, match="a correction needs a reason"):
        enter(built, task, {MELTING: "310 K"})
    assert enter(built, task, {MELTING: "410 K"}, why="calibrated anew").revision == 3
    assert evidence_rows(built)[-1] == (3, True, {GAP: "4.41 eV", MELTING: "410 K"}), "a correction keeps the rest"
    assert place(built, task) == ("settled", "fail", False)
    assert enter(built, task, reasons={MELTING: "decomposed"}, why="it had turned brown").revision == 4
    assert evidence_rows(built)[-1] == (4, True, {GAP: "4.41 eV"})
    with pytest.raises(UsageError, match="is with anna"):
        second = task_ids(built)[0]
        enter(built, second, {GAP: "4.31 eV"})
        enter(built, second, {MELTING: "300 K"}, who="ben")


def test_whoever_completes_it_the_cost_is_booked_once(make: Make) -> None:
    built = make(quantities=BOTH, wanted=WANTED)
    first, second, _ = task_ids(built)
    enter(built, first, {GAP: "4.31 eV"})
    assert not claims_costs_and_vials.release(built, first, "anna", "the vial is at ben's"), "it was measured"
    listed = displayed(built, first)
    assert (listed.state, listed.open_quantities, listed.slot_at) == ("queued", (MELTING,), None)
    done = enter(built, first, {MELTING: "300 K"}, who="ben")
    assert (done.state, done.revision, slots(built)) == (JobState.DONE, 1, 1)
    enter(built, second, {GAP: "4.31 eV"})
    claims_costs_and_vials.claim(built, second, "ben", take_over=True)
    assert enter(built, second, {MELTING: "300 K"}, who="ben").revision == 1 and slots(built) == 2
    with built.ledger.read() as connection:
        costs = connection.execute(sa.select(t.attempt.c.state, t.attempt.c.cost).order_by(t.attempt.c.id)).all()
        made = connection.execute(sa.select(t.evidence).where(t.evidence.c.verifier == "lab.measurement")).all()
    world = [(state, cost.get("lab_slots", 0)) for state, cost in costs if "core_seconds" not in cost]
    assert world == [("cancelled", 1), ("done", 0), ("cancelled", 1), ("done", 0)]
    assert [row.who for row in made] == ["anna", "ben", "anna", "ben"]


def test_each_half_is_reviewed(make: Make) -> None:
    built = make(quantities=BOTH, wanted=WANTED, lab=REVIEW)
    task = task_ids(built)[0]
    assert enter(built, task, {GAP: "4.31 eV"}).in_review and evidence_rows(built) == []
    review_and_sign_answers.send_back(built, task, "ben", "which lamp?")
    listed = displayed(built, task)
    assert (listed.state, listed.sent_back, listed.sent_back_by) == ("claimed", "which lamp?", "ben")
    enter(built, task, {GAP: "4.32 eV"})
    assert displayed(built, task).sent_back is None
    half = review_and_sign_answers.accept(built, task, "ben", waiting(built, task))
    assert half.open_quantities == (MELTING,) and displayed(built, task).state == "part_answered"
    assert enter(built, task, {MELTING: "300 K"}).in_review and place(built, task)[0] == "pending"
    whole = review_and_sign_answers.accept(built, task, "ben", waiting(built, task))
    assert (whole.state, whole.revision, place(built, task)) == (JobState.DONE, 1, ("settled", "pass", True))
    enter(built, task, {MELTING: "420 K"}, why="calibrated anew")
    review_and_sign_answers.send_back(built, task, "ben", "against which standard?")
    with built.ledger.read() as connection:
        [returned] = tasks.listed(connection, sent_back_to="anna")
        assert (returned.id, returned.sent_back_by, returned.state) == (task, "ben", JobState.DONE)
        assert tasks.listed(connection, sent_back_to="ben") == []
    assert place(built, task) == ("settled", "pass", True)


def test_a_second_half_completes_the_one_that_waits_for_its_review(make: Make) -> None:
    built = make(quantities=BOTH, wanted=WANTED, lab=REVIEW)
    task = task_ids(built)[0]
    first = enter(built, task, {GAP: "4.31 eV"})
    assert (first.in_review, first.open_quantities) == (True, (MELTING,))
    second = enter(built, task, {MELTING: "300 K"})
    assert (second.in_review, second.open_quantities) == (True, ())
    enter(built, task, {GAP: "4.33 eV"})  # nothing is recorded yet, so that no reason is needed
    whole = review_and_sign_answers.accept(built, task, "ben", waiting(built, task))
    assert (whole.state, whole.open_quantities) == (JobState.DONE, ())
    with built.ledger.read() as connection:
        values = campaign_values(connection, built, task_of(built, task).candidate_id)
    assert values == {GAP: pytest.approx(4.33), MELTING: pytest.approx(300)}


def test_half_an_answer_counts_in_no_other_place(make: Make) -> None:
    """Neither as one of the replicates that a verdict waits for, nor in another campaign that asks for the same."""
    built = make(quantities=BOTH, wanted=WANTED, lab="{ahead: 9, replicates: 2, decide_after: 1}", smiles=("CCO",))
    first, second = task_ids(built)
    enter(built, first, {GAP: "4.31 eV"})
    assert place(built, first)[0] == "pending"
    other = make("others", quantities=BOTH, wanted=WANTED, lab="{ahead: 9}", smiles=("CCO",))
    assert place(other, first) == ("pending", None, False), "nothing is reused that is not complete"
    enter(built, second, {GAP: "4.51 eV", MELTING: "320 K"}, who="ben")
    assert place(built, first) == ("settled", "pass", True)
    enter(built, first, {MELTING: "300 K"})
    with built.ledger.read() as connection:
        candidate_id = task_of(built, first).candidate_id
        values = campaign_values(connection, built, candidate_id)
    assert values == {GAP: pytest.approx(4.41), MELTING: pytest.approx(310)}
    assert place(other, first) == ("settled", "pass", True), "the other campaign's task was answered, too"


def test_one_more_measurement_moves_every_campaign_that_uses_the_values_once_it_is_whole(make: Make) -> None:
    """The value that a campaign shows beside its verdict is the mean on which the verdict rests."""
    more = {"quantities": BOTH, "wanted": WANTED, "budget": "{lab_slots: 20}", "smiles": ("CCO",)}
    built = make(lab="{ahead: 9, replicates: 3}", **more)
    other = make("others", lab="{ahead: 9, replicates: 2}", **more)
    first, second, third = task_ids(built)

    def shown() -> tuple[str | None, float]:
        with built.ledger.read() as connection:
            [best] = status_best_trace.best(connection, other.row, 5)
        _, verdict, _ = place(other, first)
        return verdict, round(best.values[GAP].value, 3)

    for task, who in ((first, "anna"), (second, "ben")):
        enter(built, task, {GAP: "4.9 eV", MELTING: "300 K"}, who=who)
    assert place(built, first)[0] == "pending" and shown() == ("fail", 4.9)
    enter(built, third, {GAP: "3.6 eV"}, who="cleo")
    assert shown() == ("fail", 4.9), "half an answer moves nothing"
    enter(built, third, {MELTING: "302 K"}, who="cleo")
    assert place(built, first) == ("settled", "pass", True) and shown() == ("pass", 4.467)


def campaign_values(connection: sa.engine.Connection, built: Built, candidate_id: int) -> dict[str, float]:
    [rung] = built.asked
    values = pooled_replicates.values_of(connection, [candidate_id], rung.verifier.computation)[candidate_id]
    assert values is not None
    return {name: quantity.value for name, quantity in values.items()}
