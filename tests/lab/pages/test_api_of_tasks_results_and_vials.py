"""Results of instruments, posted with a token."""

from __future__ import annotations

import pytest

from sciagent.domain.people import Right
from sciagent.store.database import tables as t
from tests.lab.pages.test_task_pages import count
from tests.lab.test_record_and_review_answers import place, task_ids
from tests.support.served_pages import Browser, Serve, Server

RESULT = {"key": "balance-0001", "values": {"homo_lumo_gap": "4.31 eV"}, "uncertainties": {"homo_lumo_gap": "0.1"}}


def instrument(server: Server) -> Browser:
    server.person("balance")
    return server.token("balance", Right.READ, Right.WORK)


def test_a_result_is_posted_once(serve: Serve) -> None:
    server = serve()
    client, first = instrument(server).client, task_ids(server.built)[0]
    [task, *_] = client.get("/api/tasks").json()
    assert (task["task"], task["asks"][0]["property"]) == (first, "homo_lumo_gap")
    for _ in range(2):
        reply = client.post(f"/api/tasks/{first}/results", json=RESULT)
        assert reply.status_code == 200 and reply.json()["state"] == "answered" and reply.json()["revision"] == 0
    assert place(server.built, first) == ("settled", "pass", True) and count(server, t.submission) == 1
    other = client.post(f"/api/tasks/{first}/results", json=RESULT | {"values": {"homo_lumo_gap": "5 eV"}})
    assert other.status_code == 409 and "was used for another answer" in other.json()["detail"]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"values": {"homo_lumo_gap": 4.31}}, 400),
        ({"values": {"homo_lumo_gap": "4.31"}}, 400),
        ({"values": {"homo_lumo_gap": "1e999 eV"}}, 400),
        ({"values": {"homo_lumo_gap": "4.31 eV"}, "uncertainties": {"homo_lumo_gap": "1e999"}}, 400),
        ({"key": "short"}, 400),
        ({"role": "admin"}, 400),
        ({"values": {}}, 400),
        ({"values": {"homo_lumo_gap": "4.31 eV" + " " * 5000}}, 400),
        ({"sample": "00000000000"}, 400),
    ],
)
def test_a_result_that_does_not_fit_is_refused_with_its_fault(
    serve: Serve, change: dict[str, object], status: int
) -> None:
    server = serve()
    client, first = instrument(server).client, task_ids(server.built)[0]
    reply = client.post(f"/api/tasks/{first}/results", json=RESULT | change)
    assert reply.status_code == status and reply.json()["detail"] and count(server, t.submission) == 0
    assert (
        client.post(
            f"/api/tasks/{first}/results", content=b"{", headers={"content-type": "application/json"}
        ).status_code
        == 400
    )


def test_a_result_beyond_the_slots_of_the_week_is_recorded_and_says_so(serve: Serve) -> None:
    server = serve(budget="{lab_slots: {amount: 1, per: week}}")
    client, [first, second, _] = instrument(server).client, task_ids(server.built)
    assert "overdrawn" not in client.post(f"/api/tasks/{first}/results", json=RESULT).json()
    reply = client.post(f"/api/tasks/{second}/results", json=RESULT | {"key": "balance-0002"})
    assert reply.status_code == 200, reply.text
    assert "lab_slots: 2 of 1 in seven days" in reply.json()["overdrawn"]
