"""Refusals of the HTTP API are problem details after RFC 9457; whatever is sent is no error of the server."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI
from httpx2 import Response
from starlette.testclient import TestClient

from sciagent.domain.people import Right
from sciagent.errors import LedgerAwayError
from sciagent.web.problem_answers import API, PROBLEM_TYPE, problem_answer
from sciagent.web.route_rules_and_request_guards import MAX_BODY, READING, rules_of
from tests.lab.test_record_answers import task_ids
from tests.support.served_pages import HOST, Serve, Server, every_page

ODD = (
    "²",
    "-1",
    "0",
    "1e400",
    "9" * 30,
    "\x00",
    "%00",
    "../x",
    "😀",
    "a" * 3000,
    "' or 1=1",
    "null",
    "[]",
    "\u202e",
    " ",
)
"""Texts that are sent in place of numbers, names, codes and keys."""
ODD_BODIES = (
    b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 50_000, b"1" * 5000, b'{"values": {"homo_lumo_gap": NaN}}',
    b'{"values": {"homo_lumo_gap": {"value": 1e999999999999999999999, "unit": "eV"}}}', b'{"why": "\\ud800"}',
    b'{"values": {"homo_lumo_gap": {"value": [], "unit": "eV"}}}', b'{"values": {"\\u0000": "1 eV"}}',
    b'{"values": {"homo_lumo_gap": "1 eV"}, "sample": "\\u0000"}', b'{"measured_on": 1e400}', b'{"take_over": 2}',
)  # fmt: skip


def problem(reply: Response, status: int) -> dict[str, Any]:
    """The problem of a reply, which has the parts that RFC 9457 names."""
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == PROBLEM_TYPE
    content: dict[str, Any] = reply.json()
    assert set(content) - {"field"} == {"type", "title", "status", "detail", "instance"}
    assert content["status"] == status and content["detail"] and content["instance"].startswith("/api")
    return content


def instrument(server: Server) -> TestClient:
    server.person("hplc")
    return server.token("hplc", Right.READ, Right.WORK).client


def test_every_refusal_is_a_problem(serve: Serve) -> None:
    server = serve()
    client, nobody = instrument(server), server.nobody().client
    [first, *_] = task_ids(server.built)
    refused = nobody.get(f"{API}/tasks")
    assert "show a token" in problem(refused, 401)["detail"] and refused.headers["www-authenticate"] == "Bearer"
    nobody.headers["authorization"] = "Bearer nonsense"
    assert "not known" in problem(nobody.get(f"{API}/tasks"), 401)["detail"]
    reader = server.token("hplc", Right.READ).client
    problem(reader.post(f"{API}/tasks/{first}/claim", json={}), 403)
    assert f"{API}/openapi.json" in problem(client.get(f"{API}/nothing"), 404)["detail"]
    problem(client.get("/api/tasks"), 404)
    other_method = client.put(f"{API}/tasks/{first}/claim", json={})
    assert "it is POST" in problem(other_method, 405)["detail"] and other_method.headers["allow"] == "POST"
    too_large = {"content": b" " * (MAX_BODY + 1), "headers": {"content-type": "application/json"}}
    problem(client.post(f"{API}/tasks/{first}/claim", **too_large), 413)
    for content_type in ("text/plain", "application/x-www-form-urlencoded", ""):
        reply = client.post(f"{API}/tasks/{first}/claim", content=b"{}", headers={"content-type": content_type})
        assert "application/json" in problem(reply, 415)["detail"]
    assert problem(client.get(f"{API}/tasks?stat=queued"), 400)["field"] == "stat"
    assert problem(client.get(f"{API}/tasks?limit=many"), 400)["field"] == "limit"


@pytest.mark.parametrize(("error", "status"), [(LedgerAwayError("away"), 503), (RuntimeError("secret"), 500)])
def test_a_fault_of_the_server_is_a_problem_without_its_inner_words(
    serve: Serve, error: Exception, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    server = serve()
    headers = instrument(server).headers
    monkeypatch.setattr("sciagent.store.lab.tasks.listed", broken)
    client = TestClient(server.app, base_url=HOST, headers=dict(headers), raise_server_exceptions=False)  # type: ignore[arg-type]
    reply = client.get(f"{API}/tasks")
    assert str(error) not in problem(reply, status)["detail"]
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_the_path_in_a_problem_is_an_address_of_bounded_length() -> None:
    answer = problem_answer("/api/v1/\u202e" + "x" * 9000, 404, "no")
    assert len(answer.body) < 700 and b"%E2%80%AE" in answer.body


def test_nothing_odd_is_an_error_of_the_server(serve: Serve) -> None:
    server = serve()
    client = instrument(server)
    assert isinstance(server.app, FastAPI)
    [first, *_] = task_ids(server.built)
    routes = [(method, path) for method, path in rules_of(every_page(server.ledger)) if path.startswith(API)]
    right = {"task": str(first), "campaign": "gaps", "key": "a" * 64, "code": "0" * 11, "sha256": "0" * 64}
    queries = ("cursor", "limit", "campaign", "state", "claimed_by", "vial", "order", "hits", "x")

    def sent(method: str, path: str, **more: Any) -> None:
        reply = client.request(method, path, follow_redirects=False, **more)
        assert reply.status_code < 500, (method, path, more, reply.text)
        if reply.status_code >= 400:
            problem(reply, reply.status_code)

    key = {"idempotency-key": "odd-0001", "content-type": "application/json"}
    for method, path in routes:
        for name in right:
            for text in ODD if f"{{{name}}}" in path else ():
                filled = path.format(**right | {name: text.replace("/", "%2F").replace("\x00", "%00")})
                sent(method, filled, json={} if method not in READING else None)
    for path in (f"{API}/tasks", f"{API}/campaigns", f"{API}/campaigns/gaps/candidates"):
        for name in queries:
            for text in ODD[:12:2]:
                sent("GET", path, params={name: text})
    for path in ("claim", "release", "results"):
        for body in ODD_BODIES:
            sent("POST", f"{API}/tasks/{first}/{path}", content=body, headers=key)
    for text in ("short", "x" * 65, '"', "é" * 10, '"' + "x" * 63):
        sent("POST", f"{API}/tasks/{first}/results", json={}, headers={"idempotency-key": text.encode("latin-1")})
    for form in ({"result": "{"}, {"files": "x"}, {"result": "{}", "csrf": "x"}):
        sent(
            "POST", f"{API}/tasks/{first}/results", data=form, files={"f": b""}, headers={"idempotency-key": "odd-0002"}
        )
    sent("POST", f"{API}/tasks/{first}/results", content=b"--x", headers=key | {"content-type": "multipart/form-data"})
