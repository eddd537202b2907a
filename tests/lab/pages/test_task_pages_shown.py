"""A task as its page shows it."""

from __future__ import annotations

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.domain.people import Rights
from sciagent.lab import claims_costs_and_vials, record_answers, review_and_sign_answers
from sciagent.lab.displayed_lab_tasks_claims_and_samples import TaskReader
from sciagent.lab.pages.task_pages import TaskPage, read_task
from sciagent.store.lab import tasks
from sciagent.store.lab.blind_measurements import Viewer
from tests.lab import conftest as lab
from tests.lab.test_record_answers import entry, task_ids
from tests.support.served_pages import Serve

make = lab.make


def test_a_page_has_what_is_known_and_what_was_answered(make: lab.Make) -> None:
    built = make(lab="{ahead: 3, review: true}")
    first = task_ids(built)[0]
    vial = claims_costs_and_vials.register(built, first, "ben", "free base", "made")
    page = page_of(built, first)
    assert page.labels == {"homo_lumo_gap": "homo lumo gap"} and page.last_id == 0 and page.last_answer is None
    assert {each.rung for each in page.known} == {"molecule_safety", "checks"}, "not the rung that is asked"
    assert [each.code for each in page.vials] == [vial.code]
    record_answers.enter(built, first, entry("4.31 eV"))
    page = page_of(built, first)
    assert page.waiting is not None and page.waiting.who == "anna" and page.last_id == page.waiting.id
    review_and_sign_answers.send_back(built, first, "ben", "which lamp?")
    page = page_of(built, first)
    assert (
        page.waiting is None
        and page.last_answer is not None
        and page.last_answer.who == "anna"
        and page.last_id > page.last_answer.id
    )


def page_of(built: Built, task_id: int) -> TaskPage:
    with built.ledger.read() as connection:
        task = tasks.find(connection, task_id)
    assert task is not None
    return read_task(built.ledger, task, TaskReader(built.ledger), Viewer("ben", Rights()))


def test_the_form_begins_with_the_unit_of_the_campaign_and_keeps_the_one_that_was_chosen(serve: Serve) -> None:
    server = serve(quantities="homo_lumo_gap, melting_point", lab="{ahead: 3, units: {melting_point: degC}}")
    anna, first = server.person("anna"), task_ids(server.built)[0]
    begun = anna.client.get(f"/tasks/{first}").text
    assert '<option value="degC" selected>°C</option><option value="K">K</option>' in begun
    assert '<option value="eV">eV</option>' in begun, "without a word of the campaign nothing is chosen"
    asks = anna.get(f"/api/v1/tasks/{first}").json()["asks"]
    assert [each.get("unit") for each in asks] == [None, "degC"] and asks[1]["units"] == ["degC", "K"]
    chosen = anna.post(f"/tasks/{first}/enter", {"value.melting_point": "a", "unit.melting_point": "K"})
    assert chosen.status_code == 400 and '<option value="K" selected>K</option>' in chosen.text
    bare = anna.post(f"/tasks/{first}/enter", {"value.melting_point": "57"})
    assert bare.status_code == 400 and "melting point: the number has no unit; one of: °C, K" in bare.text
