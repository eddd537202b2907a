"""Improbable answers: each way in asks once, keeps everything, and records what the person confirms."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import Level, properties
from sciagent.domain.quantities import Quantity, to_canonical
from sciagent.domain.states_and_needs import CampaignState
from sciagent.errors import ImprobableValuesError, UsageError
from sciagent.lab import record_answers, review_and_sign_answers
from sciagent.lab.improbable_values import digest_of, is_far, odd_day, odd_distances, odd_values
from sciagent.lab.record_answers import LabEntry
from sciagent.lab.typed_answers import typed
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab import submissions
from sciagent.store.results import candidates
from tests.lab.conftest import CAMPAIGN, Make, drive
from tests.lab.pages.test_api_of_tasks_results_and_vials import instrument, post
from tests.lab.pages.test_csv_answer_sheets_and_vial_labels import kept, sent
from tests.lab.pages.test_task_pages import count
from tests.lab.test_record_answers import task_ids
from tests.lab.test_replicates import of_first
from tests.lab.test_review_and_sign_answers import waiting
from tests.support.served_pages import Serve, make, serve  # noqa: F401

MELTING = "melting_point"
TOMORROW = (datetime.now(UTC) + timedelta(days=3)).date().isoformat()


def odd(name: str, text: str) -> list[str]:
    quantity = typed(name, text)
    measured = Measured(name, Level("DSC"), to_canonical(quantity, properties()[name]))
    return odd_values([measured], {name: quantity})


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (MELTING, "57 K", "melting_point: 57 K is outside 100 to 1000 K, where nearly all values lie; 57 °C would"),
        (MELTING, "1500 °C", "1500 degC, which is 1773 K, is outside 100 to 1000 K"),
        (MELTING, "350 ± 5000 K", "the uncertainty of 5000 K is larger than the range of 100 to 1000 K"),
        ("log_molar_solubility", "1.9", "log_molar_solubility: 1.9 is outside -12 to 1.3"),
    ],
)
def test_what_lies_outside_the_usual_range_is_named_with_its_value(name: str, text: str, words: str) -> None:
    [sentence] = odd(name, text)
    assert words in sentence


@pytest.mark.parametrize(("name", "text"), [(MELTING, "57 °C"), (MELTING, ">1200 K"), ("homo_lumo_gap", "40 eV")])
def test_usual_values_and_limits_and_properties_without_a_range_are_not(name: str, text: str) -> None:
    assert odd(name, text) == []


def test_each_usual_range_lies_within_what_is_possible() -> None:
    ranged = [prop for prop in properties().values() if prop.usual is not None]
    assert len(ranged) > 20
    for prop in ranged:
        assert prop.usual is not None
        low, high = prop.usual
        assert low < high and (prop.low is None or prop.low <= low) and (prop.high is None or high <= prop.high)


def test_two_values_are_far_by_their_uncertainties_and_never_within_a_tenth_of_the_range() -> None:
    melting, gap = properties()[MELTING], properties()["homo_lumo_gap"]
    assert is_far(Quantity(500.0, "K", 1.0), Quantity(400.0, "K", 1.0), melting)
    assert not is_far(Quantity(480.0, "K", 1.0), Quantity(400.0, "K", 1.0), melting), "a tenth of 900 K"
    assert not is_far(Quantity(600.0, "K", 50.0), Quantity(400.0, "K", 1.0), melting), "four standard deviations"
    assert is_far(Quantity(600.0, "K"), Quantity(400.0, "K"), melting)
    assert not is_far(Quantity(4.0, "eV"), Quantity(6.0, "eV"), gap), "nothing says what is far"
    assert is_far(Quantity(4.0, "eV", 0.1), Quantity(6.0, "eV"), gap)


def test_a_day_to_come_is_named_and_what_is_no_day_is_refused() -> None:
    assert odd_day(TOMORROW) == [f"measured on {TOMORROW}: this day has not come yet"]
    assert odd_day("2020-02-29") == [] and odd_day("") == []
    with pytest.raises(UsageError, match=r'the day of the measurement "29.2.2020" is no date; write it as 20'):
        odd_day("29.2.2020")


def melting(text: str, **more: Any) -> LabEntry:
    said = {"values": {"homo_lumo_gap": "4.31 eV", MELTING: text}, "uncertainties": {}, "limit": "", "not_obtained": ""}
    return LabEntry(said, more.pop("who", "anna"), **more)


def confirmed(built: Built, task: int) -> Any:
    with built.ledger.read() as connection:
        return submissions.of_job(connection, task)[-1].said.get("confirmed")


def test_a_person_confirms_what_was_shown_and_nothing_else(make: Make) -> None:  # noqa: F811
    built = make(quantities=f"homo_lumo_gap, {MELTING}", lab="{ahead: 3, review: true}")
    first = task_ids(built)[0]
    with pytest.raises(ImprobableValuesError, match=r"57 °C would lie inside\. Nothing is recorded yet") as asked:
        record_answers.enter(built, first, melting("57 K"))
    assert asked.value.text.endswith("is it right?") and str(asked.value).endswith("add --sure")
    shown = digest_of(asked.value.odd)
    with pytest.raises(ImprobableValuesError):
        record_answers.enter(built, first, melting("56 K", confirmed=shown))
    answer = melting("57 K", confirmed=shown)
    for _ in range(2):
        assert record_answers.enter(built, first, answer).in_review
    assert confirmed(built, first) == list(asked.value.odd)
    review_and_sign_answers.accept(built, first, "ben", waiting(built, first))
    corrected = {"values": {"homo_lumo_gap": "4.2 eV", MELTING: "57 K"}, "uncertainties": {}, "limit": ""}
    done = record_answers.enter(built, first, LabEntry(corrected | {"not_obtained": ""}, "anna", why="a digit"))
    assert done.in_review, "what is recorded, and stays as it is, is not asked about again"


def test_a_value_far_from_an_earlier_measurement_is_asked_about(make: Make) -> None:  # noqa: F811
    built = make(lab="{ahead: 6, replicates: 2}", budget="{lab_slots: 20}", quantities=f"homo_lumo_gap, {MELTING}")
    first, second = of_first(built)
    record_answers.enter(built, first.id, melting("410 K"))
    with pytest.raises(ImprobableValuesError, match="melting_point: 310 K is far from 410 K, the value of lab"):
        record_answers.enter(built, second.id, melting("310 K", who="ben"))


def test_what_is_known_is_not_told_to_a_person_who_measures_blind(make: Make) -> None:  # noqa: F811
    built = make(
        lab="{ahead: 6, replicates: 2, blind: true}", budget="{lab_slots: 20}", quantities=f"homo_lumo_gap, {MELTING}"
    )
    first, second = of_first(built)
    record_answers.enter(built, first.id, melting("410 K"))
    assert record_answers.enter(built, second.id, melting("310 K", who="ben")).state == "done"


def test_another_campaign_does_not_tell_a_value_that_is_blind_still(make: Make) -> None:  # noqa: F811
    quantities = f"homo_lumo_gap, {MELTING}"
    built = make(lab="{ahead: 6, replicates: 2, blind: true}", budget="{lab_slots: 20}", quantities=quantities)
    first, second = of_first(built)
    record_answers.enter(built, first.id, melting("410 K"))
    reuses = make(name="reuses", lab="{ahead: 6}", budget="{lab_slots: 20}", quantities=quantities)
    task = replace(second, campaign="reuses")
    measured = [Measured(MELTING, Level("experiment"), Quantity(310.0, "K"))]

    def asked() -> list[str]:
        with built.ledger.read() as connection:
            candidate = candidates.load(connection, [task.candidate_id])[task.candidate_id]
            return odd_distances(connection, reuses, task, candidate, measured)

    assert asked() == []
    record_answers.enter(built, second.id, melting("412 K", who="ben"))
    assert len(asked()) == 1 and "melting_point: 310 K is far from" in asked()[0]


def test_a_value_far_from_a_computed_one_is_asked_about_by_the_error_of_the_method(
    ledger: Ledger, tmp_path: Path
) -> None:
    (tmp_path / "molecules.csv").write_text("smiles\nO\n", encoding="utf-8")
    text = CAMPAIGN.format(name="dipoles", lab="{}", budget="{lab_slots: 9}", high=4.6)
    text = text.replace("homo_lumo_gap", "dipole").replace("unit: eV", "unit: D").replace("4.0, 4.6", "0, 9")
    text = text.replace("  - rung: lab\n", "  - {rung: xtb, verifier: xtb.singlepoint}\n  - rung: lab\n")
    built = create_or_open(ledger, parse_spec(text, base=tmp_path), text, "test").built
    assert drive(built) is CampaignState.WAITING
    [task] = task_ids(built)
    said = {"values": {"dipole": "7.9 D"}, "uncertainties": {}, "limit": "", "not_obtained": ""}
    with pytest.raises(
        ImprobableValuesError, match=r"dipole: 7.9 D is far from 1\.\d ± 0\.5 D, the value of xtb \(GFN2"
    ):
        record_answers.enter(built, task, LabEntry(said, "anna"))
    record_answers.enter(built, task, LabEntry(said | {"values": {"dipole": "1.86 D"}}, "anna"))


def test_the_page_comes_back_with_everything_and_one_button(serve: Serve) -> None:  # noqa: F811
    server = serve(quantities=f"homo_lumo_gap, {MELTING}")
    anna, first = server.person("anna"), task_ids(server.built)[0]
    fields = {f"value.{MELTING}": "57", f"unit.{MELTING}": "K", "measured_on": TOMORROW, "comment": "the new lamp"}
    asked = anna.post(f"/tasks/{first}/enter", fields)
    page = html.unescape(asked.text)
    assert asked.status_code == 409 and count(server, t.submission) == 0
    assert "Is this right?" in page and "this day has not come yet" in page and "57 °C would lie inside" in page
    assert ">the new lamp</textarea>" in page and page.count("It is right: record it</button>") == 1
    assert re.search(r'id="measured_on"[^>]*aria-invalid="true"[^>]*autofocus', page)
    [digest] = re.findall(r'name="confirmed" value="(\w+)"', page)
    script = anna.post(f"/tasks/{first}/enter", fields, headers={"accept": "application/json"})
    assert script.status_code == 409 and script.json()["confirmed"] == digest
    assert anna.post(f"/tasks/{first}/enter", fields | {"confirmed": digest}).status_code == 303
    shown = html.unescape(anna.client.get(f"/tasks/{first}").text)
    assert "Asked, and confirmed: melting point: 57 K is outside" in shown


def test_an_instrument_is_told_what_to_confirm(serve: Serve) -> None:  # noqa: F811
    server = serve(quantities=f"homo_lumo_gap, {MELTING}")
    client, first = instrument(server), task_ids(server.built)[0]
    result = {"values": {MELTING: "57 K"}, "measured_on": TOMORROW}
    refused = post(client, first, result)
    problem = refused.json()
    assert refused.status_code == 409 and problem["type"].endswith("improbable")
    assert [text.partition(":")[0] for text in problem["confirm"]] == [f"measured on {TOMORROW}", MELTING]
    assert count(server, t.submission) == 0
    assert post(client, first, result | {"confirmed": True}).status_code == 200
    assert "confirm" not in post(client, first, {"values": {MELTING: "a"}}, key="balance-0002").json()


def test_odd_rows_of_a_sheet_need_a_tick(serve: Serve) -> None:  # noqa: F811
    server = serve(quantities=f"homo_lumo_gap, {MELTING}")
    anna, [first, second, third] = server.person("anna"), task_ids(server.built)
    text = f"task,value.{MELTING},unit.{MELTING}\n{first},57,K\n{second},410,K\n{third},90,K\n"
    status, page = sent(anna, text)
    assert status == 200 and page.count('<tr class="odd">') == 2 and "Record the 2 odd ones, too" in page
    assert "Is it right? melting point: 57 K is outside" in page and "Record the 1 good row<" in page
    [rows] = kept(page)
    saved = anna.post("/sheet", {"write": "yes", "text": rows})
    assert (
        saved.status_code == 303 and saved.headers["location"] == f"/sheet/saved?tasks={second}&odd={first}%2C{third}"
    )
    told = anna.client.get(saved.headers["location"]).text
    assert "1 answer of the sheet is saved" in told and "2 improbable rows were left out" in told
    anna.post("/sheet", {"write": "yes", "text": rows, "odd": "yes"})
    assert count(server, t.submission) == 3
    assert confirmed(server.built, second) is None and "57 K is outside" in confirmed(server.built, first)[0]
