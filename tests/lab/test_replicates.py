"""Several measurements of a molecule: the verdict after enough of them, pooled, each by another person where blind."""

from __future__ import annotations

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.people import hold_release_veto_and_promote
from sciagent.campaign.people.find_candidate import resolve
from sciagent.domain.answers.explanation import Explanation, RungStory
from sciagent.errors import SpecError, UsageError
from sciagent.lab import claims_costs_and_vials, record_answers
from sciagent.lab.record_answers import LabEntry
from sciagent.report.explain_candidate import explain_named
from sciagent.report.explanation_text import VERBOSE, paragraphs
from sciagent.report.page import html_page
from sciagent.store.campaign_state import candidate_standings
from sciagent.store.lab import tasks
from sciagent.store.lab.tasks import LabTask
from sciagent.store.results import candidates, pooled_replicates
from tests.lab.conftest import Make, drive
from tests.lab.test_record_answers import entry, place


def of_first(built: Built) -> list[LabTask]:
    """The tasks of the molecule that is listed first."""
    with built.ledger.read() as connection:
        first = tasks.listed(connection)[0]
        found = tasks.of_candidate(connection, first.candidate_id)
    return sorted(found, key=lambda task: task.replicate)


def test_three_of_five_make_the_verdict_and_the_others_refine_it(make: Make) -> None:
    built = make(lab="{ahead: 10, replicates: 5, decide_after: 3}", budget="{lab_slots: 20}")
    five = of_first(built)
    assert [task.replicate for task in five] == [0, 1, 2, 3, 4]
    with built.ledger.read() as connection:
        assert len(tasks.listed(connection)) == 10, "two molecules, as `ahead` says"
    for task, gap in zip(five[:2], ("4.5 eV", "4.7 eV"), strict=True):
        record_answers.enter(built, task.id, entry(gap))
        drive(built)
        assert place(built, task.id)[0] == "pending"
    record_answers.enter(built, five[2].id, entry("4.9 eV"))
    assert place(built, five[0].id) == ("settled", "fail", False), "their mean is 4.7 eV, and 4.6 the limit"
    record_answers.enter(built, five[3].id, entry("4.1 eV"))
    assert place(built, five[0].id) == ("settled", "pass", True)
    record_answers.enter(built, five[1].id, entry("5.9 eV", why="a digit"))
    assert place(built, five[0].id) == ("settled", "fail", False), "a correction of one of them counts"
    with built.ledger.read() as connection:
        computation = built.asked[0].verifier.computation
        found = pooled_replicates.pooled_answers(connection, [five[0].candidate_id], computation)[five[0].candidate_id]
    [measured] = found.measured
    assert measured.quantity.value == pytest.approx((4.5 + 5.9 + 4.9 + 4.1) / 4) and measured.quantity.n == 4


def test_explain_tells_the_pooled_value_its_verdict_and_each_measurement(make: Make) -> None:
    """4.2 and 4.5 eV pass alone, 4.9 eV does not, and the limit is 4.6 eV."""
    built = make(lab="{ahead: 10, replicates: 3}", budget="{lab_slots: 20}")
    three = of_first(built)
    with built.ledger.read() as connection:
        key = candidates.load(connection, [three[0].candidate_id])[three[0].candidate_id].key

    def told() -> tuple[RungStory, str]:
        answer = explain_named(built.ledger, key, built.row)
        assert isinstance(answer, Explanation) and answer.other_evidence == ()
        return answer.campaigns[0].rungs[-1], "\n".join(map(str, paragraphs(answer, VERBOSE)))

    record_answers.enter(built, three[0].id, entry("4.9 eV"))
    waiting, _ = told()
    assert (waiting.verdict, waiting.detail) == (None, "1 of 3 measurements are in")
    record_answers.enter(built, three[1].id, entry("4.2 eV", who="ben"))
    record_answers.enter(built, three[2].id, entry("4.5 eV", who="cleo"))
    assert place(built, three[0].id) == ("settled", "pass", True)
    rung, text = told()
    assert rung.verdict == "pass" and rung.evidence is not None
    [value] = rung.evidence.values
    assert (value.value, value.n) == (pytest.approx((4.9 + 4.2 + 4.5) / 3), 3)
    assert [replicate.who for replicate in rung.replicates] == ["anna", "ben", "cleo"]
    assert "pooled from 3 measurements:" in text and "4.2 eV, entered by ben" in text
    assert "(mean of 3 measurements, ± its standard error by the scatter)" in text
    assert "± is the standard error of the mean of the several measurements of a candidate (k = 1)" in text
    assert "conformer" not in text
    with built.ledger.read() as connection:
        page = html_page.page(connection, built.row, built.ledger.artifacts)
    assert '<span class="level">mean of 3 measurements, ± its standard error by the scatter</span>' in page
    assert page.count("± is the standard error of the mean of the several measurements of a candidate") == 2
    assert "± is the repeatability" not in page


def test_measurements_with_uncertainties_are_weighted_and_a_reason_stands_beside_them(make: Make) -> None:
    built = make(
        lab="{ahead: 10, replicates: 2}",
        budget="{lab_slots: 20}",
        quantities="homo_lumo_gap, melting_point",
        wanted="  - {property: melting_point, maximise: [250, 400], unit: K}\n",
    )
    first, second = of_first(built)
    said = {"values": {"homo_lumo_gap": "4.3 eV"}, "uncertainties": {"homo_lumo_gap": "0.1"}, "limit": ""}
    decomposed = said | {"reasons": {"melting_point": "decomposed"}, "not_obtained": ""}
    record_answers.enter(built, first.id, LabEntry(decomposed, "anna"))
    values = {"homo_lumo_gap": "4.5 eV", "melting_point": "300 K"}
    record_answers.enter(built, second.id, LabEntry(said | {"values": values, "not_obtained": ""}, "ben"))
    answer = explain_named(built.ledger, first.text, built.row)
    assert isinstance(answer, Explanation)
    rung = answer.campaigns[0].rungs[-1]
    assert rung.evidence is not None and rung.evidence.unobtained == {}, "the value of one counts before the reason"
    assert [replicate.unobtained for replicate in rung.replicates] == [{"melting_point": "decomposed"}, {}]
    text = "\n".join(line.text for line in paragraphs(answer))
    weighted = "mean of 2 measurements, weighted by 1/σ², ± the larger of its propagated σ and its standard error"
    assert f"homo_lumo_gap = 4.4 ± 0.1 eV ({weighted}" in text
    assert "homo_lumo_gap = 4.3 ± 0.1 eV, melting_point: no value (decomposed), entered by anna" in text
    assert "\nmelting_point = 300 K, uncertainty unknown" in text, "an objective without limits is of interest, too"


def test_without_more_to_come_the_verdict_is_made_of_what_is_there(make: Make) -> None:
    built = make(lab="{ahead: 6, replicates: 3}", budget="{lab_slots: 20}")
    first, second, third = of_first(built)
    record_answers.enter(built, first.id, entry("4.3 eV"))
    record_answers.enter(built, second.id, entry(not_obtained="insoluble"))
    assert place(built, first.id)[0] == "pending"
    record_answers.enter(built, third.id, entry("4.3 eV"))
    assert place(built, first.id) == ("settled", "pass", True)


def test_blind_measurements_are_made_by_different_people(make: Make) -> None:
    built = make(lab="{ahead: 6, replicates: 2, blind: true}", budget="{lab_slots: 20}")
    first, second = of_first(built)
    claims_costs_and_vials.claim(built, first.id, "anna")
    with pytest.raises(UsageError, match="for another person"):
        claims_costs_and_vials.claim(built, second.id, "anna")
    record_answers.enter(built, first.id, entry("4.3 eV"))
    with pytest.raises(UsageError, match="for another person"):
        record_answers.enter(built, second.id, entry("4.3 eV"))
    record_answers.enter(built, second.id, entry("4.35 eV", who="ben"))
    assert place(built, first.id) == ("settled", "pass", True)


def test_more_answers_than_there_are_replicates_are_not_waited_for(make: Make) -> None:
    with pytest.raises(SpecError, match="decide_after = 3, but there are only 2 replicates"):
        make(lab="{replicates: 2, decide_after: 3}")


def standing(built: Built, candidate_id: int) -> tuple[str, str | None]:
    with built.ledger.read() as connection:
        row = candidate_standings.get(connection, built.row.id, candidate_id)
    return row["standing"], row["verdict"]


def states(built: Built, candidate_id: int) -> list[str]:
    """The states of the campaign's own tasks of a candidate."""
    with built.ledger.read() as connection:
        of_candidate = tasks.of_candidate(connection, candidate_id)
    own = sorted((task for task in of_candidate if task.campaign_id == built.row.id), key=lambda task: task.replicate)
    return [str(task.state) for task in own]


def test_answers_of_another_campaign_make_a_verdict_when_enough_of_them_are_in(make: Make) -> None:
    """4.9 eV alone fails, and the mean of all passes."""
    first = make("first", lab="{ahead: 3, replicates: 3}", budget="{lab_slots: 20}")
    shared = make("shared", lab="{ahead: 3, replicates: 3}", budget="{lab_slots: 20}")
    early = make("early", lab="{ahead: 3, replicates: 3, decide_after: 2}", budget="{lab_slots: 20}")
    three = [task for task in of_first(first) if task.campaign_id == first.row.id]
    id_ = three[0].candidate_id
    record_answers.enter(first, three[0].id, entry("4.9 eV"))
    assert standing(shared, id_) == standing(early, id_) == ("pending", None)
    assert states(shared, id_) == states(early, id_) == ["cancelled", "queued", "queued"]
    with first.ledger.read() as connection:
        assert id_ not in {task.candidate_id for task in tasks.untouched_tasks(connection, shared.row.id)}, "it stays"
        answered = pooled_replicates.answered_replicates(connection, [id_], shared.asked[0].verifier.computation)
        assert set(answered[id_]) == {0}
    drive(shared)
    record_answers.enter(first, three[0].id, entry("4.8 eV", why="a digit"))
    drive(shared)
    assert standing(shared, id_) == ("pending", None) and states(shared, id_) == ["cancelled", "queued", "queued"]
    record_answers.enter(first, three[1].id, entry("4.1 eV"))
    assert standing(shared, id_) == ("pending", None) and states(shared, id_) == ["cancelled", "cancelled", "queued"]
    assert standing(early, id_) == ("settled", "pass"), "4.45 eV"
    late = make("late", lab="{ahead: 3, replicates: 3}", budget="{lab_slots: 20}")
    assert states(late, id_) == ["queued"], "only what is missing is to be measured"
    record_answers.enter(first, three[2].id, entry("4.2 eV"))
    for built in (first, shared, late):
        assert standing(built, id_) == ("settled", "pass")


def test_a_correction_before_the_last_measurement_makes_no_verdict(make: Make) -> None:
    built = make(lab="{ahead: 3, replicates: 3}", budget="{lab_slots: 20}")
    three = of_first(built)
    record_answers.enter(built, three[0].id, entry("4.9 eV"))
    record_answers.enter(built, three[0].id, entry("4.3 eV", why="a digit"))
    drive(built)
    assert place(built, three[0].id)[:2] == ("pending", None)
    assert states(built, three[0].candidate_id) == ["done", "queued", "queued"]


def test_a_held_candidate_has_no_task_and_a_promoted_one_has_all_of_them(make: Make) -> None:
    built = make(lab="{ahead: 3, replicates: 3}", budget="{lab_slots: {amount: 1, per: week}}")
    id_ = of_first(built)[0].candidate_id
    with built.ledger.read() as connection:
        named = resolve(connection, built.row, candidates.load(connection, [id_])[id_].key)
    hold_release_veto_and_promote.hold(built, named, "carla", "no sample")
    assert states(built, id_) == ["cancelled", "cancelled", "cancelled"]
    hold_release_veto_and_promote.release(built, named, "carla", "it came")
    hold_release_veto_and_promote.promote(built, named, "carla", "first")
    drive(built)
    assert states(built, id_) == ["queued", "queued", "queued"]
    with built.ledger.read() as connection:
        assert [task.candidate_id for task in tasks.listed(connection)][:3] == [id_, id_, id_]
