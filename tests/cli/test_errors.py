"""What goes wrong on the way is one line, not a traceback, and a reading command makes nothing."""

from __future__ import annotations

from pathlib import Path

from tests.support.campaigns import sciagent


def test_a_ledger_that_is_not_there_is_not_made_by_looking(tmp_path: Path) -> None:
    for command in (["status"], ["best"], ["export"], ["resume"]):
        done = sciagent(*command, "--ledger", "absent.db", cwd=tmp_path, expect=2)
        assert "no ledger at" in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_text("this is no database, and never was one" * 50)
    done = sciagent("status", "--ledger", "broken.db", cwd=tmp_path, expect=1)
    assert "not a database" in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    done = sciagent("status", "--ledger", "postgresql://nobody@127.0.0.1:1/none", cwd=tmp_path, expect=75)
    assert "does not answer" in done.stderr and "Traceback" not in done.stderr


def test_a_file_that_cannot_be_written_is_named(folder: Path) -> None:
    done = sciagent("export", "small", "-o", str(folder / "nowhere" / "x.csv"), cwd=folder, expect=2)
    assert "nowhere" in done.stderr and "Traceback" not in done.stderr
