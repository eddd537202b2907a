"""Headers of every answer, and the most that a request may send."""

from __future__ import annotations

import pytest

from tests.lab.test_record_answers import task_ids
from tests.support.served_pages import Serve


@pytest.mark.parametrize(
    "path", ["/login", "/tasks", "/nothing", "/static/site.js", "/static/../app.py", "/api/v1/tasks"]
)
def test_every_answer_tells_the_browser_what_it_may_do(serve: Serve, path: str) -> None:
    reply = serve().nobody().get(path)
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert "script-src 'self';" in reply.headers["content-security-policy"]
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert ("no-store" in reply.headers.get("cache-control", "")) is not path.startswith("/static/site")


def test_a_request_that_sends_too_much_is_ended(serve: Serve) -> None:
    server = serve()
    anna, task = server.person("anna"), task_ids(server.built)[0]
    assert anna.post(f"/tasks/{task}/release", {"why": "x" * 1_000_001}).status_code == 413
    headers = {"content-length": "9" * 5000}
    assert anna.client.post(f"/tasks/{task}/release", content=b"why=", headers=headers).status_code == 413
    chunks = (b"why=" + b"x" * 100_000 for _ in range(20))
    headers = {"content-type": "application/x-www-form-urlencoded", "origin": "http://testserver"}
    assert anna.client.post(f"/tasks/{task}/release", content=chunks, headers=headers).status_code == 413


def test_pages_load_nothing_from_elsewhere(serve: Serve) -> None:
    import re

    server = serve()
    anna = server.person("anna")
    for path in ("/tasks", f"/tasks/{task_ids(server.built)[0]}", "/campaigns", "/campaigns/gaps", "/sheet", "/login"):
        text = anna.client.get(path).text
        assert not re.findall(r'(?:src|href|action)="(?:https?:)?//', text), path
        assert "<script>" not in text and " onclick=" not in text and "javascript:" not in text
