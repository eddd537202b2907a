"""Submissions: what was typed, in the ledger and in the audit trail."""

from __future__ import annotations

from sciagent.domain.people import Actor
from sciagent.lab import record_answers
from sciagent.store.lab import submissions
from sciagent.store.people import audit, persons
from tests.lab import conftest as lab
from tests.lab.test_record_answers import entry, task_ids

make = lab.make


def test_a_submission_is_read_as_it_was_written_and_has_its_entry(make: lab.Make) -> None:
    built = make()
    first = task_ids(built)[0]
    with built.ledger.begin() as connection:
        anna = Actor("anna", persons.add(connection, "root", "anna", "Anna").id)
    file = {"name": "nmr.pdf", "sha256": "ab" * 32, "size": 4, "type": "application/pdf"}
    record_answers.enter(built, first, entry("4.31 eV", who=anna, key="k" * 32, files=[file]))
    with built.ledger.read() as connection:
        [kept] = submissions.of_job(connection, first)
        assert submissions.with_key(connection, "k" * 32) == submissions.by_id(connection, kept.id) == kept
        assert (kept.who, kept.person_id, kept.kind, kept.files) == ("anna", anna.person_id, "result", [file])
        assert submissions.attached(connection) == {"ab" * 32}
        last = audit.head(connection)
        assert last is not None and (last.what, last.object_id) == ("entered", kept.id)
        assert last.payload["submission_sha256"] == audit.submission_digest(connection, kept.id)
