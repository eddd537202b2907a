"""The back-ups that the page for who runs it shows, taken with these very commands, and restored."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from sciagent.store.database import migrate_and_back_up
from sciagent.store.database.ledger import Ledger
from sciagent.store.database.tables import metadata
from sciagent.store.results import candidates, evidence
from tests.docs.pages import ROOT
from tests.support.rows import alkanes, campaign, gap, new_evidence
from tests.support.servers.postgres import fresh_database, postgres_folders
from tests.support.typed import invoked

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


FILE = "/backup/ledger.2026-11-22"  # as the page calls it


def shown(beginning: str, file: Path) -> list[str]:
    """The one command of the page that begins so, with another file."""
    (command,) = set(re.findall(rf"(?:^|`)({re.escape(beginning)} [^`\n]*{re.escape(FILE)})", PAGE, re.MULTILINE))
    return [word.replace(FILE, str(file)) for word in shlex.split(str(command))]


def back_up(ledger: Ledger, file: Path) -> None:
    program, *words = shown("sciagent db backup", file)
    assert program == "sciagent"
    url = ledger.url.render_as_string(hide_password=False)
    done = invoked([*words, "--ledger", url])
    assert done.exit_code == 0, done.output


def rows(ledger: Ledger) -> dict[str, list[tuple[object, ...]]]:
    with ledger.read() as connection:
        return {
            name: [tuple(row) for row in connection.execute(sa.select(table).order_by(*table.primary_key))]
            for name, table in metadata.tables.items()
        }


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    with ledger.begin() as connection:
        campaign(connection)
        ids = candidates.enter(connection, alkanes(3))
        evidence.record(connection, [new_evidence(one, gap(3.0 + one)) for one in ids.values()])
    return ledger


def same(restored: Ledger, original: Ledger) -> None:
    """Every row, and every table, index and trigger as this version wants them."""
    assert (
        migrate_and_back_up.current(restored.engine) == migrate_and_back_up.head()
        and migrate_and_back_up.differences(restored.engine) == []
    )
    before, after = rows(original), rows(restored)
    assert before["evidence"] and after == before


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """pg_dump and pg_restore lie beside the server that the tests start."""
    folders = [one for one in postgres_folders() if (one / "pg_dump").exists() and (one / "pg_restore").exists()]
    monkeypatch.setenv("PATH", os.pathsep.join([*map(str, folders), os.environ["PATH"]]))


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_a_back_up_of_postgresql_is_restored(filled: Ledger, postgres: str, tmp_path: Path) -> None:
    back_up(filled, tmp_path / "dump")
    with fresh_database(postgres) as url:
        plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        written = "postgresql://sciagent@db/sciagent"
        words = [word.replace(written, plain) for word in shown("pg_restore", tmp_path / "dump")]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        restored = Ledger(url, tmp_path / "artifacts")
        same(restored, filled)
        restored.close()


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_back_up_of_sqlite_is_a_ledger_without_what_was_not_committed(filled: Ledger, tmp_path: Path) -> None:
    with filled.begin() as writing:
        candidates.enter(writing, alkanes(5))
        back_up(filled, tmp_path / "copy.db")
        writing.rollback()
    restored = Ledger(str(tmp_path / "copy.db"), tmp_path / "artifacts")
    same(restored, filled)
    restored.close()
