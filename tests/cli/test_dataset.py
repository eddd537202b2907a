"""`sciagent dataset build` as it is typed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sciagent.store.database.ledger import Ledger
from tests.support.conversing import conversing
from tests.support.typed import call, data, told


@pytest.fixture
def folder(migrated_sqlite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(migrated_sqlite, tmp_path / "sciagent.db")
    made = conversing(
        Ledger(str(tmp_path / "sciagent.db"), artifacts=tmp_path / "sciagent-artifacts"), tmp_path, "gaps"
    )
    made.talk(1, ["CCO", "CCN"], purpose="campaign")
    made.verify("CCO", 5.0)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)
    return tmp_path


@pytest.mark.parametrize("width", [80, 120])
def test_a_person_reads_what_was_written_and_left_out(folder: Path, width: int) -> None:
    printed = told("dataset", "build", "sft", "-c", "gaps", "--out", "sft", width=width)
    assert "sft: 1 train, 0 test, from 1 episode up to watermark 9" in printed
    assert "turns: no candidate is decided yet" in printed
    assert all(len(line) <= width for line in printed.splitlines())
    assert sorted(path.name for path in (folder / "sft").iterdir()) == ["README.md", "test.parquet", "train.parquet"]


def test_a_script_reads_json(folder: Path) -> None:
    answer = data("dataset", "build", "rows", "--campaign", "gaps", "--out", "rows")
    assert answer["rows"] == {"train": 1, "test": 0} and answer["rewards"] == {"gaps": None}
    assert all((folder / "rows" / name).exists() for name in answer["tables"])


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("-c", "gap", "--out", "new"), 'did you mean "gaps"'),
        (("-c", "gaps", "--out", "."), "is not empty"),
        (("-c", "gaps", "--out", "new", "--license", "my own"), "SPDX"),
        (("-c", "gaps", "--out", "new", "--test-campaign", "dyes"), "is not among the campaigns"),
        (("-c", "gaps", "--out", "new", "--as-of", "99"), "lies in the future"),
    ],
)
def test_a_mistake_is_named_and_nothing_is_written(folder: Path, more: tuple[str, ...], says: str) -> None:
    done = call("dataset", "build", "sft", *more)
    assert done.exit_code != 0 and says in str(done.exception)
    assert not (folder / "new").exists()
