"""Several measurements of a molecule: the verdict after enough of them, pooled, each by another person where blind."""

from __future__ import annotations

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.domain.answers.explanation import Explanation, RungStory
from sciagent.errors import SpecError, UsageError
from sciagent.lab import claims_costs_and_vials, record_answers
from sciagent.lab.record_answers import LabEntry
from sciagent.report.explain_candidate import explain_named
from sciagent.report.explanation_text import VERBOSE, paragraphs
from sciagent.report.page import html_page
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
