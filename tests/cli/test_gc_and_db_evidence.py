"""`sciagent db check`, `sciagent audit` and `sciagent db roles` as they are typed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.support.typed import call, data, refused, told


def test_a_ledger_as_it_should_be_says_what_it_has(folder: Path) -> None:
    found = data("db", "check")
    assert found["ok"] and found["evidence"]["faults"] == 0
    assert found["evidence"]["sealed"] + found["evidence"]["of_people"] == found["evidence"]["rows"] > 10
    assert "sealed, 1 entered or imported by people" in told("audit")


def test_forged_evidence_is_named_with_exit_code_1(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "sciagent.db")) as ledger:
        ledger.execute("DROP TRIGGER quantity_no_update")
        ledger.execute("UPDATE quantity SET value = value + 1")
        ledger.commit()
    for command in (("db", "check"), ("audit",)):
        done = call(*command)
        assert done.exit_code == 1 and "faults of evidence" in done.output
        assert "evidence 1 of" in done.output and "its seal does not fit what it says" in done.output
    found = data("db", "check")["evidence"]
    assert found["faults"] > 10 == len(found["first_faults"])


def test_without_the_secret_it_says_that_no_seal_was_checked(folder: Path) -> None:
    secret = folder / "sciagent-artifacts" / "evidence.secret"
    secret.unlink()
    said = told("db", "check")
    assert "were NOT checked" in said and "SCIAGENT_EVIDENCE_SECRET_FILE" in said
    assert not secret.exists()


def test_the_sql_of_the_roles_is_printed(folder: Path) -> None:
    text = told("db", "roles", "--web", "pages")
    assert "CREATE ROLE pages NOLOGIN" in text and "GRANT UPDATE (value) ON watermark TO sciagent_worker;" in text
    assert "three different roles" in refused("db", "roles", "--web", "x", "--worker", "x")
    assert "a SQLite ledger has no roles" in refused("db", "roles", "--check")
