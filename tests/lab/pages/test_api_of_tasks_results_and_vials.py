"""Tasks, claims, results, files and vials over HTTP, as an instrument with a token asks for them."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from sciagent.domain.people import Right, Role
from sciagent.lab import claims_costs_and_vials
from sciagent.store.database import tables as t
from sciagent.store.people import persons, sessions_and_tokens
from sciagent.store.people.sessions_and_tokens import AccessKind
from tests.lab.pages.test_task_pages import count
from tests.lab.test_record_answers import place, task_ids
from tests.support.served_pages import HOST, Serve, Server

GAP = "homo_lumo_gap"
KEY = {"idempotency-key": "balance-0001"}
RESULT: dict[str, Any] = {"values": {GAP: {"value": 4.31, "unit": "eV", "uncertainty": 0.1}}}


def instrument(server: Server, *scopes: Right, login: str = "balance") -> TestClient:
    server.person(login)
    client = server.token(login, *(scopes or (Right.READ, Right.WORK))).client
    client.base_url = f"{HOST}/api/v1"  # type: ignore[assignment]
    return client


def post(client: TestClient, task: int, result: dict[str, Any] = RESULT, key: str = "balance-0001") -> Response:
    return client.post(f"/tasks/{task}/results", json=result, headers={"idempotency-key": key})


def pages(client: TestClient, path: str) -> list[list[int]]:
    """The numbers of the tasks on each page of a list."""
    found: list[list[int]] = []
    following: str | None = path
    while following:
        page = client.get(following.removeprefix("/api/v1")).json()
        found.append([task["task"] for task in page["tasks"]])
        following = page["next"]
    return found


def test_a_result_is_recorded_once_however_often_it_is_sent(serve: Serve) -> None:
    server = serve()
    client, [first, second, _] = instrument(server), task_ids(server.built)
    replies = [post(client, first) for _ in range(2)]
    assert replies[0].json() == replies[1].json() and replies[0].json()["state"] == "answered"
    assert place(server.built, first) == ("settled", "pass", True) and count(server, t.submission) == 1
    quoted = post(client, first, key='"balance-0001"')
    assert quoted.status_code == 200
    for other in (RESULT | {"values": {GAP: "5 eV"}}, RESULT | {"comment": "again"}):
        refused = post(client, first, other)
        assert refused.status_code == 409 and refused.json()["type"].endswith("key-was-used")
    assert post(client, second).status_code == 409, "a key belongs to one task"
    without = client.post(f"/tasks/{second}/results", json=RESULT)
    assert without.status_code == 400 and without.json()["field"] == "Idempotency-Key"
    assert count(server, t.submission) == 1


def test_another_vial_under_the_same_key_is_another_answer(serve: Serve) -> None:
    server = serve()
    client, [first, *_] = instrument(server), task_ids(server.built)
    one, two = (claims_costs_and_vials.register(server.built, first, "anna", "free base", "made") for _ in range(2))
    assert post(client, first, RESULT | {"sample": one.code}).status_code == 200
    assert post(client, first, RESULT | {"sample": one.code.lower()}).status_code == 200
    assert post(client, first, RESULT | {"sample": two.code}).status_code == 409
    assert post(client, first).status_code == 409


def test_a_task_is_claimed_and_given_back(serve: Serve) -> None:
    server = serve()
    client, other, [first, *_] = instrument(server), instrument(server, login="hplc"), task_ids(server.built)
    for _ in range(2):  # the second one is a repetition
        claimed = client.post(f"/tasks/{first}/claim", json={})
        assert claimed.json() == {"task": first, "state": "claimed", "claimed_by": "balance", "cost_given_back": None}
    for refused in (other.post(f"/tasks/{first}/claim", json={}), post(other, first)):
        assert refused.status_code == 409 and "is with balance" in refused.json()["detail"]
        assert refused.json()["type"].endswith("task-state")
    assert [len(page) for page in pages(client, "/tasks?claimed_by=me")] == [1]
    assert pages(other, "/tasks?claimed_by=me") == [[]]
    assert client.post(f"/tasks/{first}/release", json={"why": ""}).json()["field"] == "why"
    released = client.post(f"/tasks/{first}/release", json={"why": "the vial broke"})
    assert released.json()["state"] == "queued" and released.json()["cost_given_back"] is True
    assert client.post(f"/tasks/{first}/release", json={"why": "the vial broke"}).status_code == 409
    assert other.post(f"/tasks/{first}/claim", json={}).status_code == 200
    taken = client.post(f"/tasks/{first}/claim", json={"take_over": True})
    assert taken.json()["claimed_by"] == "balance"


def test_tasks_are_listed_page_by_page_and_filtered(serve: Serve) -> None:
    server = serve()
    client, numbers = instrument(server), task_ids(server.built)
    first, second, third = numbers
    assert pages(client, "/tasks") == [numbers]
    assert pages(client, "/tasks?limit=2") == pages(client, "/tasks?limit=2&order=number") == [numbers[:2], [third]]
    # the order of numbers misses none, although a task of the page before is answered meanwhile
    page = client.get("/tasks?limit=2&order=number").json()
    assert post(client, first).status_code == 200
    following = client.get(page["next"].removeprefix("/api/v1")).json()
    assert [task["task"] for task in following["tasks"]] == [third] and following["next"] is None
    client.post(f"/tasks/{second}/claim", json={})
    for state, expected in {"queued": [third], "claimed": [second], "answered": [first], "waiting": []}.items():
        assert [*chain(*pages(client, f"/tasks?state={state}&limit=1"))] == expected, state
    assert pages(client, "/tasks?campaign=gaps") == [[second, third]]
    unknown = client.get("/tasks?campaign=others")
    assert unknown.status_code == 400 and unknown.json()["field"] == "campaign"


def test_tasks_that_wait_for_approval_or_review_are_found(serve: Serve) -> None:
    server = serve(lab="{ahead: 3, approve: true, review: true}")
    client, numbers = instrument(server), task_ids(server.built)
    assert pages(client, "/tasks?state=waiting") == [numbers] and pages(client, "/tasks?state=queued") == [[]]
    refused = post(client, numbers[0])
    assert refused.status_code == 409 and "waits for the word of a chemist" in refused.json()["detail"]
    claims_costs_and_vials.approve(server.built, numbers[0], "carla")
    assert post(client, numbers[0]).json()["state"] == "in_review"
    assert pages(client, "/tasks?state=in_review") == [numbers[:1]]


def test_files_belong_to_the_answer_and_are_read_by_their_hash(serve: Serve) -> None:
    server = serve()
    client, [first, second, _] = instrument(server), task_ids(server.built)
    parts = [("result", (None, json.dumps(RESULT), "application/json")), ("files", ("run 7.csv", b"1,2\n", "text/csv"))]
    for _ in range(2):
        reply = client.post(f"/tasks/{first}/results", files=parts, headers=KEY)
        assert reply.status_code == 200, reply.text
    [answer] = client.get(f"/tasks/{first}").json()["answers"]
    [file] = answer["files"]
    assert (file["name"], file["size"], file["type"]) == ("run 7.csv", 4, "text/plain")
    assert (answer["who"], answer["text"]) == ("balance", "homo_lumo_gap 4.31 eV ± 0.1")
    read = client.get(f"/tasks/{first}/files/{file['sha256']}")
    assert read.content == b"1,2\n" and read.headers["content-disposition"].startswith("attachment")
    assert client.get(f"/tasks/{second}/files/{file['sha256']}").status_code == 404, "it is of another task"
    assert post(client, first).status_code == 409, "without its file it is another answer"
    no_result = client.post(f"/tasks/{second}/results", files=parts[1:], headers={"idempotency-key": "balance-0002"})
    assert no_result.status_code == 400 and no_result.json()["field"] == "result"


def test_a_correction_needs_a_reason_and_may_name_what_was_seen(serve: Serve) -> None:
    server = serve()
    client, [first, *_] = instrument(server), task_ids(server.built)
    assert post(client, first, RESULT | {"seen": 0}).status_code == 200
    again = RESULT | {"values": {GAP: "4.9 eV"}}
    refused = post(client, first, again, "balance-0002")
    assert refused.status_code == 409 and "a correction needs a reason" in refused.json()["detail"]
    blind = post(client, first, again | {"why": "lamp", "seen": 0}, "balance-0002")
    assert blind.status_code == 409 and blind.json()["type"].endswith("answered-meanwhile")
    [answer] = client.get(f"/tasks/{first}").json()["answers"]
    corrected = post(client, first, again | {"why": "lamp", "seen": answer["answer"]}, "balance-0002")
    assert corrected.json()["revision"] == 1 and place(server.built, first)[1] == "fail"


def test_a_result_beyond_the_slots_of_the_week_is_recorded_and_says_so(serve: Serve) -> None:
    server = serve(budget="{lab_slots: {amount: 1, per: week}}")
    client, [first, second, third] = instrument(server), task_ids(server.built)
    assert "overdrawn" not in post(client, first).json()
    assert "lab_slots: 2 of 1 in seven days" in post(client, second, key="balance-0002").json()["overdrawn"]
    refused = client.post(f"/tasks/{third}/claim", json={})
    assert refused.status_code == 409 and "no slot is left this week" in refused.json()["detail"]


def test_a_vial_is_looked_up_by_its_code_and_another_compound_is_refused(serve: Serve) -> None:
    server = serve()
    client, [first, second, _] = instrument(server), task_ids(server.built)
    vial = claims_costs_and_vials.register(server.built, first, "anna", "HCl, 1 H2O", "made", purity=0.98, lot="AB-12")
    found = client.get(f"/vials/{vial.code.lower()}").json()
    assert (found["code"], found["task"], found["form"], found["purity"]) == (vial.code, first, "HCl, 1 H2O", 0.98)
    assert [task["task"] for task in found["tasks"]] == [first] and found["smiles"] == found["tasks"][0]["smiles"]
    assert pages(client, f"/tasks?vial={vial.code}") == [[first]]
    wrong = post(client, second, RESULT | {"sample": vial.code})
    assert wrong.status_code == 409 and wrong.json()["type"].endswith("wrong-vial")
    misread = client.get(f"/vials/{vial.code[:-1]}{'0' if vial.code[-1] != '0' else '1'}")
    assert misread.status_code == 400 and "was misread" in misread.json()["detail"]
    assert client.get("/vials/00000000000").status_code == 404
    others = serve(name="others", smiles=("CCN", "CCS"))
    elsewhere = server.person("eve", Role.CHEMIST, others.built.row.id)
    assert elsewhere.get(f"/api/v1/vials/{vial.code}").status_code == 404


def test_a_token_with_the_scope_work_alone_posts_and_reads_nothing(serve: Serve) -> None:
    server = serve()
    client, [first, *_] = instrument(server, Right.WORK), task_ids(server.built)
    assert post(client, first).status_code == 200
    for path in ("/tasks", f"/tasks/{first}", "/campaigns/gaps", "/openapi.json"):
        refused = client.get(path)
        assert refused.status_code == 403 and "lacks the scope read" in refused.json()["detail"], path


def test_a_token_of_one_campaign_opens_no_other(serve: Serve) -> None:
    server = serve()
    theirs = serve(name="others", smiles=("c1ccncc1", "CCN", "CCS", "CCCO"))
    server.person("balance")
    with server.ledger.begin() as connection:
        person = persons.get(connection, "balance")
        secret, _ = sessions_and_tokens.create(
            connection, "root", person.id, AccessKind.TOKEN, scopes=(Right.READ, Right.WORK),
            campaign_id=server.built.row.id,
        )  # fmt: skip
    client = server.nobody().client
    client.base_url = f"{HOST}/api/v1"  # type: ignore[assignment]
    client.headers["authorization"] = f"Bearer {secret}"
    own, other = task_ids(server.built)[0], task_ids(theirs.built)[-1]
    assert {task["campaign"] for task in client.get("/tasks").json()["tasks"]} == {"gaps"}
    assert [row["campaign"] for row in client.get("/campaigns").json()["campaigns"]] == ["gaps"]
    assert post(client, other).status_code == 404 and client.get("/campaigns/others").status_code == 404
    assert post(client, own).status_code == 200


@pytest.mark.parametrize("has_csrf", [True, False])
def test_a_page_may_use_the_routes_with_its_session(serve: Serve, has_csrf: bool) -> None:
    server = serve()
    anna, [first, *_] = server.person("anna"), task_ids(server.built)
    headers = {"origin": HOST, **KEY, **({"x-csrf-token": anna.csrf} if has_csrf else {})}
    reply = anna.client.post(f"/api/v1/tasks/{first}/results", json=RESULT, headers=headers)
    assert reply.status_code == (200 if has_csrf else 403), reply.text
    assert anna.client.get("/api/v1/tasks").status_code == 200


def test_an_instrument_that_measures_one_of_two_quantities_leaves_the_other_open(serve: Serve) -> None:
    server = serve(quantities=f"{GAP}, melting_point")
    client, first = instrument(server), task_ids(server.built)[0]
    half = post(client, first).json()
    assert (half["state"], half["open_quantities"], half["revision"]) == ("part_answered", ["melting_point"], 0)
    [task] = client.get("/tasks?state=part_answered").json()["tasks"]
    assert (task["task"], task["open_quantities"]) == (first, ["melting_point"])
    for reasons, field in (
        ({"melting_point": "lost"}, "reasons.melting_point"),
        ({"dipole": "impure"}, "reasons.dipole"),
    ):
        refused = post(client, first, {"reasons": reasons}, key="balance-0002")
        assert refused.status_code == 400 and refused.json()["field"] == field
    whole = post(client, first, {"reasons": {"melting_point": "decomposed"}}, key="balance-0002").json()
    assert whole["state"] == "answered" and whole["revision"] == 1 and "open_quantities" not in whole
    assert place(server.built, first) == ("settled", "pass", True), "no objective is of the melting point"
