"""The list of tasks: its groups for each person, search, filters, order and pages."""

from __future__ import annotations

import html
import re
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from sciagent.domain.lab_messages_and_codes import LENGTH, with_check
from sciagent.domain.people import Role
from sciagent.lab import claims_costs_and_vials, record_answers, review_and_sign_answers
from sciagent.store.database import tables as t
from sciagent.store.lab import tasks
from sciagent.store.people import audit
from tests.lab.test_record_answers import entry, task_ids
from tests.support.served_pages import Browser, Serve, Server

LINK = r'class="task" href="/tasks/(\d+)"'


def headings(browser: Browser, query: str = "") -> list[str]:
    """The headings of the groups, and of those that are folded."""
    text = browser.client.get(f"/tasks{query}").text
    live = text.partition('id="lists"')[2]
    return [html.unescape(each) for each in re.findall(r"<(?:h2|summary)[^>]*>([^<]*)<", live)]


def numbers(browser: Browser, query: str = "") -> list[int]:
    """The tasks of a list in their order."""
    reply = browser.client.get(f"/tasks{query}")
    assert reply.status_code == 200, reply.text
    return [int(number) for number in re.findall(LINK, reply.text)]


def test_what_a_person_cannot_begin_with_stands_below_what_is_next(serve: Serve) -> None:
    server = serve()
    anna, ben, [first, *others] = server.person("anna"), server.person("ben"), task_ids(server.built)
    ben.post(f"/tasks/{first}/claim")
    free, _, below = anna.client.get("/tasks").text.partition("<h2>With others, or waiting for a chemist")
    link = r'class="task" href="/tasks/(\d+)"'
    assert re.findall(link, free) == [str(task) for task in others] and re.findall(link, below) == [str(first)]
    assert headings(ben) == ["Yours", "Next, the most valuable first"]


def test_several_tasks_are_approved_at_once(serve: Serve) -> None:
    server = serve(lab="{ahead: 3, approve: true}")
    chemist, [first, second, third] = server.person("carla", Role.CHEMIST), task_ids(server.built)
    assert 'name="task"' not in server.person("anna").client.get("/tasks").text, "a lab member approves nothing"
    assert re.findall(r'name="task" value="(\d+)"', chemist.client.get("/tasks").text) == [
        str(task) for task in (first, second, third)
    ]
    assert chemist.post("/approve").status_code == chemist.post("/approve", {"task": "\u00b2"}).status_code == 400
    eve = server.person("eve", Role.CHEMIST, serve(name="others").built.row.id)
    assert eve.post("/approve", {"task": str(first)}).status_code == 403, "she is a chemist elsewhere"
    claims_costs_and_vials.approve(server.built, first, "dora")
    both = {"task": [str(first), str(second)]}
    reply = chemist.post("/approve", both)  # type: ignore[arg-type]
    assert reply.headers["location"] == "/tasks?approved=1&left=1"
    text = chemist.client.get(reply.headers["location"]).text
    assert "1 task is approved. 1 had been approved or withdrawn before." in text
    with server.ledger.read() as connection:
        found = [tasks.find(connection, task) for task in (first, second, third)]
        assert [task and task.approved_by for task in found] == ["dora", "carla", None]
        assert audit.check(connection).fault is None
    assert chemist.client.get("/tasks").text.count('name="task"') == 1


def test_the_list_pages(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sciagent.lab.pages.task_list_page.PAGE_TASKS", 2)
    server = serve()
    anna = server.person("anna")
    first = anna.client.get("/tasks").text
    assert 'href="/tasks?group=free&amp;skip=2">More: Next</a>' in first
    second = anna.client.get("/tasks?group=free&skip=2").text
    on = [re.findall(r'class="task" href="/tasks/(\d+)"', page) for page in (first, second)]
    assert [int(number) for page in on for number in page] == task_ids(server.built) and len(on[0]) == 2


def named(server: Server, task_id: int, name: str) -> str:
    """Gives the molecule of a task an identifier, as a column of the library does; returns its InChIKey."""
    with server.ledger.begin() as connection:
        task = tasks.find(connection, task_id)
        assert task is not None
        row = {"candidate_id": task.candidate_id, "campaign_id": task.campaign_id, "row_hash": "0" * 16}
        connection.execute(sa.insert(t.candidate_name).values(**row, field="ID", text=name))
        query = sa.select(t.candidate.c.inchikey).where(t.candidate.c.id == task.candidate_id)
        return str(connection.execute(query).scalar_one())


def test_a_task_is_found_by_molecule_vial_and_number(serve: Serve) -> None:
    server = serve()
    anna = server.person("anna")
    first, second, third = task_ids(server.built)
    inchikey = named(server, third, "LIB-0042")
    vial = claims_costs_and_vials.register(server.built, second, "ben", "free base", "made")
    listed = anna.client.get("/tasks").text
    assert "homo lumo gap of LIB-0042</strong>" in listed and f"Task {third} ·" in listed
    for text, found in (
        ("LIB-0042", [third]),
        ("OCC", [third]),  # another SMILES of ethanol
        (inchikey, [third]),
        (vial.code.lower(), [second]),
        (f"http://testserver/s/{vial.code}", [second]),
        (str(first), [first]),
        (f"task {first}", [first]),
        ("c1ccccc1", []),
        ("no such thing", []),
        ("<script>", []),
        ("9" * 15, []),
    ):
        assert (text, numbers(anna, f"?find={quote(text)}")) == (text, found)
    assert "No task fits. A task is found by" in anna.client.get("/tasks?find=nothing").text
    assert numbers(anna, "?find=OCC&campaign=gaps&rung=lab&quantity=homo_lumo_gap&sort=newest") == [third]


def test_the_filter_by_campaign_names_the_campaign_whose_tasks_go_first(serve: Serve) -> None:
    server = serve(lab="{ahead: 3}")
    again = serve(name="again", lab="{ahead: 3}")
    anna = server.person("anna")
    page = anna.client.get("/tasks?campaign=again").text
    assert "again: 3 of its measurements are on the list of campaign gaps, and count here, too." in page
    assert '<a href="/tasks?campaign=gaps">Show them</a>' in page and "No task fits" not in page
    assert "on the list of campaign" not in anna.client.get("/tasks?campaign=gaps").text
    shown = anna.client.get("/campaigns/again").text
    assert "0 on the list" in shown and '3 more on the <a href="/tasks?campaign=again">' in shown
    assert "on the list of campaign" not in anna.client.get("/tasks").text
    of_one = server.person("ben", campaign_id=again.built.row.id)
    assert "on the list of campaign that you may not see" in of_one.client.get("/tasks?campaign=again").text


def test_filters_and_orders(serve: Serve) -> None:
    server = serve(lab="{ahead: 3, cost: {money: 40}}")
    cheap = serve(name="cheap", lab="{ahead: 3, cost: {money: 5}}", quantities="melting_point, homo_lumo_gap")
    anna = server.person("anna")
    dear_ids, cheap_ids = task_ids(server.built), task_ids(cheap.built)
    assert len(dear_ids) == len(cheap_ids) == 3
    assert numbers(anna, "?sort=newest") == sorted(dear_ids + cheap_ids, reverse=True)
    assert numbers(anna, "?sort=oldest") == sorted(dear_ids + cheap_ids)
    assert numbers(anna, "?sort=price") == [*sorted(cheap_ids), *sorted(dear_ids)]
    assert numbers(anna) == [dear_ids[0], cheap_ids[0], dear_ids[1], cheap_ids[1], dear_ids[2], cheap_ids[2]]
    assert numbers(anna, "?campaign=cheap") == numbers(anna, "?quantity=melting_point") == cheap_ids
    assert numbers(anna, "?rung=checks") == [] and numbers(anna, "?rung=lab&sort=oldest") == dear_ids + cheap_ids
    assert " · 40 €" in anna.client.get("/tasks").text
    anna.post(f"/tasks/{cheap_ids[1]}/claim")
    assert numbers(anna, "?group=mine") == numbers(anna, "?group=own") == [cheap_ids[1]]
    assert cheap_ids[1] not in numbers(anna, "?group=free")
    for wrong in ("sort=fastest", "group=all", "skip=-1", "skip=1000000000", f"find={'x' * 2001}", f"rung={'x' * 65}"):
        assert anna.client.get(f"/tasks?{wrong}").status_code == 400, wrong
    other = server.person("eve", Role.LAB, cheap.built.row.id)
    assert sorted(numbers(other)) == sorted(cheap_ids), "another campaign is not listed"
    assert '<option value="gaps">' not in other.client.get("/tasks").text


def test_each_task_stands_in_one_group(serve: Serve) -> None:
    server = serve(
        lab="{ahead: 6, review: true}", count=6, smiles=("Oc1ccccc1", "Cc1ccccc1O", "CCO", "CCN", "CCCO", "CCCN")
    )
    anna, ben = server.person("anna"), server.person("ben")
    back, own, of_ben, waits, *free = task_ids(server.built)
    record_answers.enter(server.built, back, entry("4.31 eV"))
    review_and_sign_answers.send_back(server.built, back, "ben", "which lamp?")
    anna.post(f"/tasks/{own}/claim")
    record_answers.enter(server.built, of_ben, entry("4.31 eV", who="ben"))
    record_answers.enter(server.built, waits, entry("4.31 eV"))
    groups = {"sent_back": [back], "own": [own], "review": [of_ben], "free": free, "own_review": [waits]}
    for group, expected in groups.items():
        assert (group, numbers(anna, f"?group={group}")) == (group, expected)
    assert numbers(anna, "?group=mine") == [back, own, waits]
    assert headings(anna) == [
        "Sent back to you", "Yours", "Waiting for your review", "Next, the most valuable first",
        "Yours, waiting for another person's review",
    ]  # fmt: skip
    assert numbers(ben, "?group=review") == [waits] and numbers(ben, "?group=others") == [back, own]
    assert numbers(server.person("vera", Role.VIEWER), "?group=others") == [back, own, of_ben, waits]
    chemist = server.person("carla", Role.CHEMIST)
    assert headings(chemist)[0] == "Waiting for your review"
    approving = serve(name="approving", lab="{ahead: 3, approve: true}", quantities="homo_lumo_gap, melting_point")
    assert headings(chemist)[:2] == ["For your approval", "Waiting for your review"]
    assert numbers(anna, "?group=others&campaign=approving") == task_ids(approving.built)


def test_what_has_no_slot_left_comes_last_and_says_why(serve: Serve) -> None:
    server = serve(budget="{lab_slots: {amount: 1, per: week}}")
    anna = server.person("anna")
    first, *others = task_ids(server.built)
    assert headings(anna) == ["Next, the most valuable first"]
    anna.post(f"/tasks/{first}/claim")
    assert headings(anna) == ["Yours", "Not now: the slots of the week are used"]
    assert numbers(anna, "?group=later") == others and "no slot before <time" in anna.client.get("/tasks").text


def test_a_blind_task_of_another_person_is_not_offered(serve: Serve) -> None:
    server = serve(lab="{ahead: 3, replicates: 3, blind: true}", budget="{lab_slots: 20}", smiles=("Oc1ccccc1",))
    anna, ben = server.person("anna"), server.person("ben")
    first, second, third = task_ids(server.built)
    token = server.token("anna", *(right for right in ("read", "work")))  # type: ignore[arg-type]
    record_answers.enter(server.built, first, entry("4.31 eV"))
    assert headings(anna) == ["Not for you: measured blind by another person"]
    assert numbers(anna, "?group=free") == [] and numbers(anna, "?group=not_yours") == [second, third]
    assert numbers(ben, "?group=free") == [second, third]
    assert token.client.get("/api/v1/tasks").json()["tasks"] == []
    page = anna.client.get(f"/tasks/{second}").text
    assert "This task is for another person: you have measured this molecule already" in page
    assert "/enter" not in page and "/claim" not in page, "it is refused when it is opened"
    vial = claims_costs_and_vials.register(server.built, second, "ben", "free base", "made")
    assert ben.get(f"/s/{vial.code}").headers["location"].startswith(f"/tasks/{second}?")
    claims_costs_and_vials.claim(server.built, second, "carl")
    assert ben.get(f"/s/{vial.code}").headers["location"].startswith(f"/tasks/{third}?"), "the one that he may measure"


def test_a_vial_opens_the_task_for_which_it_was_registered_and_otherwise_the_choice(serve: Serve) -> None:
    """The same molecule is measured in two campaigns; the task of the second is the newer one."""
    crys = serve(name="crys", smiles=("Oc1ccccc1",))
    solo = serve(name="solo", smiles=("Oc1ccccc1",), quantities="homo_lumo_gap, melting_point")
    [registered_for] = task_ids(crys.built)
    [other] = task_ids(solo.built)
    anna = crys.person("anna")
    vials = [claims_costs_and_vials.register(crys.built, registered_for, "ben", "free base", "made") for _ in range(2)]
    claims_costs_and_vials.claim(solo.built, other, "anna")
    for vial in vials:  # the second is what the row of the task names
        for path in (f"/s/{vial.code}", f"/scan?code={vial.code}"):
            assert anna.get(path).headers["location"] == f"/tasks/{registered_for}?vial={vial.code}"
        answer = anna.client.get(f"/api/v1/vials/{vial.code}").json()
        assert answer["task"] == registered_for
        assert [task["task"] for task in answer["tasks"]] == [registered_for, other]
        assert f"task {registered_for}" in anna.get(f"/labels?codes={vial.code}").text.lower()
    claims_costs_and_vials.claim(crys.built, registered_for, "ben")
    chosen = anna.client.get(f"/s/{vials[0].code}").text
    assert f"which was registered for task {registered_for}. Choose the one that you measure" in chosen
    for number in (registered_for, other):
        assert f'href="/tasks/{number}?vial={vials[0].code}"' in chosen
    only_solo = solo.person("eve", Role.CHEMIST, solo.built.row.id)
    assert only_solo.get(f"/s/{vials[0].code}").headers["location"] == f"/tasks/{other}?vial={vials[0].code}"
    assert only_solo.client.get(f"/api/v1/vials/{vials[0].code}").json()["task"] is None
    label = only_solo.get(f"/labels?codes={vials[0].code}").text
    assert vials[0].code in label and "task " not in label.partition('<ul class="labels')[2]


def test_a_vial_of_a_campaign_that_one_may_not_see_is_answered_as_one_that_is_not_there(serve: Serve) -> None:
    crys = serve(name="crys", smiles=("Oc1ccccc1",))
    solo = serve(name="solo", smiles=("CCO",))
    vial = claims_costs_and_vials.register(crys.built, task_ids(crys.built)[0], "ben", "free base", "made")
    eve = solo.person("eve", Role.LAB, solo.built.row.id)
    unknown = with_check("A" * LENGTH)
    for path in ("/s/{}", "/scan?code={}", "/labels?codes={}"):
        hidden = eve.get(path.format(vial.code))
        missing = eve.get(path.format(unknown))
        assert hidden.status_code == missing.status_code == 400
        for answer, code in ((hidden, vial.code), (missing, unknown)):
            assert f"o vial has the code {code}, or you may not see it" in answer.text
        assert "crys" not in hidden.text
