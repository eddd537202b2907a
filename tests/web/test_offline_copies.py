"""Which pages a tablet may keep, for whom, and how the browser learns it."""

from __future__ import annotations

import json
import re

from sciagent.domain.people import Role
from sciagent.web.offline_copies import shell
from tests.support.served_pages import Serve


def test_a_page_says_whose_it_is_and_a_page_of_nobody_does_not(serve: Serve) -> None:
    server = serve()
    anna = server.person("anna", Role.LAB)
    headers = anna.get("/tasks").headers
    assert headers["x-login"] == "anna" and headers["x-lock-seconds"] == "0"
    assert headers["x-copy-seconds"] == str(12 * 3600), "without a request the session ends then"
    assert headers["cache-control"] == "no-store"
    for path in ("/login", "/offline"):
        reply = server.nobody().get(path)
        assert reply.status_code == 200 and "x-login" not in reply.headers, path
    assert "x-login" not in anna.get("/offline").headers and "anna" not in anna.get("/offline").text


def test_the_worker_names_the_files_by_their_content(serve: Serve) -> None:
    server = serve()
    reply = server.nobody().get("/worker.js")
    assert reply.headers["content-type"].startswith("text/javascript") and reply.headers["cache-control"] == "no-cache"
    assert "worker-src 'self'" in reply.headers["content-security-policy"]
    named = json.loads(reply.text.splitlines()[0].removeprefix("const SHELL = ").removesuffix(";"))
    assert named == {"hash": shell().hash, "paths": list(shell().paths)}
    page = server.nobody().get("/login").text
    used = re.findall(r'(?:src|href)="(/static/[^"?]+)\?v=([0-9a-f]+)"', page)
    assert len(used) >= 6 and {found for _, found in used} == {shell().hash}
    assert {path for path, _ in used} <= set(shell().paths)
    for path in shell().paths:
        assert server.nobody().get(path).status_code == 200, path
