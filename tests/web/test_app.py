"""A fault of the program is answered without its text."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.support.served_pages import HOST, Serve


def test_a_fault_of_the_program_is_said_without_its_text(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("secret text")

    server = serve()
    anna = server.person("anna")
    anna.client = TestClient(server.app, base_url=HOST, raise_server_exceptions=False, cookies=anna.client.cookies)  # type: ignore[arg-type]
    module = "sciagent.cockpit.pages_steering_and_cached_figures"
    monkeypatch.setattr(f"{module}.queues_campaigns_and_recent_failures.campaigns_page", broken)
    reply = anna.get("/campaigns")
    assert reply.status_code == 500 and "fault of the program" in reply.text and "secret text" not in reply.text
    assert "default-src 'none'" in reply.headers["content-security-policy"]
