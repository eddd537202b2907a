"""Only the names of a server are served, and its links begin with its own address."""

from __future__ import annotations

import pytest

from sciagent.errors import UsageError
from sciagent.lab import claims_costs_and_vials
from sciagent.web.served_names import ServedNames, served_names
from tests.lab.test_record_answers import task_ids
from tests.support.served_pages import Serve, every_page


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8080", "[::1]:8080", "LOCALHOST", "localhost."])
def test_this_machine_is_served_by_its_own_names(host: str) -> None:
    assert served_names("127.0.0.1").allow(host)


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "localhost:80:80", "localhost/", "[::1",
     "localhost:²", "localhost\n", "x" * 400],
)  # fmt: skip
def test_another_name_is_refused(host: str) -> None:
    assert not served_names("127.0.0.1").allow(host)


def test_a_public_address_is_served_and_begins_links() -> None:
    names = served_names("0.0.0.0", "https://Lab.example.org:8443/", ["10.0.0.7"], secure=True)
    assert names.public_url == "https://lab.example.org:8443"
    assert names.allow("lab.example.org:8443") and names.allow("10.0.0.7") and not names.allow("0.0.0.0")
    assert served_names("2001:DB8::7").allow("[2001:db8::7]:8080")


@pytest.mark.parametrize(
    ("listens_at", "url", "hosts", "fault"),
    [
        ("0.0.0.0", None, [], "every address of this machine"),
        ("::", None, [], "every address of this machine"),
        ("127.0.0.1", "lab.example.org", [], "give a scheme"),
        ("127.0.0.1", "https://lab.example.org/path", [], "give a scheme"),
        ("127.0.0.1", "https://lab.example.org", [], "needs --tls-cert"),
        ("127.0.0.1", None, ["lab.example.org/x"], "a name or an address alone"),
    ],
)
def test_names_that_cannot_be_right_are_refused(listens_at: str, url: str | None, hosts: list[str], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        served_names(listens_at, url, hosts)


def test_a_request_under_a_foreign_name_is_misdirected(serve: Serve) -> None:
    server = serve()
    anna = server.person("anna")
    for path in ("/tasks", "/login", "/static/site.js", "/nothing"):
        reply = anna.get(path, headers={"host": "evil.example"})
        assert reply.status_code == 421 and "--public-url" in reply.text and "evil" not in reply.text
        assert "default-src 'none'" in reply.headers["content-security-policy"]
    headers = {"host": "evil.example", "origin": "http://evil.example"}
    assert anna.post("/login", {"login": "anna", "password": "x"}, headers=headers).status_code == 421


def test_codes_on_labels_name_the_public_address(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    from sciagent.lab.pages import csv_answer_sheets_and_vial_labels as labels

    server = serve()
    anna = server.person("anna")
    sample = claims_costs_and_vials.register(server.built, task_ids(server.built)[0], "anna", "solid", "made")
    encoded: list[str] = []
    original = labels.qr
    monkeypatch.setattr(labels, "qr", lambda text: encoded.append(text) or original(text))
    anna.get("/labels", params={"codes": sample.code})
    hosts = frozenset({"testserver"})
    anna.client.app = every_page(server.ledger, names=ServedNames(hosts, "https://lab.example.org"))
    again = server.nobody()
    server.app = anna.client.app
    again = server.person("anna")
    again.get("/labels", params={"codes": sample.code})
    assert encoded == [f"http://testserver/s/{sample.code}", f"https://lab.example.org/s/{sample.code}"]
