"""Attached files: bounded, named safely, typed by their content, and only handed out as downloads."""

from __future__ import annotations

import time

import pytest

from sciagent.campaign.people import remove_unneeded_files
from sciagent.store.database import tables as t
from tests.lab.pages.test_task_pages import answered, count
from tests.lab.test_record_answers import task_ids
from tests.support.served_pages import Serve


@pytest.mark.parametrize(
    ("name", "content", "kept", "kind"),
    [
        ("nmr.pdf", b"%PDF-1.7 ...", "nmr.pdf", "application/pdf"),
        ("../../etc/passwd", b"text", "passwd", "text/plain"),
        ("C:\\lab\\spectrum.txt", "µ".encode(), "spectrum.txt", "text/plain"),
        ("photo.png", b"<html><script>alert(1)</script>", "photo.png", "text/plain"),
        ("..", b"\x00\x01", "file", "application/octet-stream"),
        ("a\u202eb.csv", b"1,2", "ab.csv", "text/plain"),
        ("x" * 300 + ".txt", b"1", "x" * 120, "text/plain"),
    ],
)
def test_a_file_is_kept_by_its_content(serve: Serve, name: str, content: bytes, kept: str, kind: str) -> None:
    server = serve()
    anna, first = server.person("anna"), task_ids(server.built)[0]
    reply = anna.post(f"/tasks/{first}/enter", answered("4.31"), files={"files": (name, content, "text/html")})
    assert reply.status_code == 303, reply.text
    with server.ledger.read() as connection:
        [[file]] = (connection.execute(t.submission.select()).mappings().one()["files"],)
    assert (file["name"], file["type"], file["size"]) == (kept, kind, len(content))
    got = anna.client.get(f"/tasks/{first}/files/1/0")
    assert got.content == content and got.headers["content-type"] == "application/octet-stream"
    assert got.headers["content-disposition"].startswith("attachment;")
    assert anna.get(f"/tasks/{first}/files/1/1").status_code == 404
    assert anna.get(f"/tasks/{first}/files/1/-1").status_code == 400
    assert anna.get(f"/tasks/{first + 1}/files/1/0").status_code == 404


def test_too_many_or_too_large_files_are_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve()
    anna, first = server.person("anna"), task_ids(server.built)[0]
    many = [("files", (f"{n}.txt", b"1", "text/plain")) for n in range(21)]
    assert anna.post(f"/tasks/{first}/enter", answered("4.31"), files=many).status_code == 400
    monkeypatch.setattr("sciagent.lab.pages.typed_form_and_attachments.MAX_FILE_BYTES", 10)
    large = {"files": ("large.txt", b"x" * 11, "text/plain")}
    reply = anna.post(f"/tasks/{first}/enter", answered("4.31"), files=large)
    assert reply.status_code == 400 and "large.txt has 11 bytes; 10 are the most" in reply.text
    assert count(server, t.submission) == 0


def test_what_people_attached_is_never_thrown_away(serve: Serve) -> None:
    server = serve()
    anna, first = server.person("anna"), task_ids(server.built)[0]
    anna.post(f"/tasks/{first}/enter", answered("4.31"), files={"files": ("nmr.pdf", b"%PDF-1.7", "x/y")})
    waste, _, _ = remove_unneeded_files.find_waste(server.ledger, 1.0, time.time() + 400 * 86400)
    assert [each for each in waste if each.sha256] == []
