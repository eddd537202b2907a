"""docs/exports.md shows what the commands print, and the code of a card."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sciagent.training.exports.exporting import FORMATS
from tests.docs.pages import ROOT
from tests.docs.test_shapes import sciagent
from tests.support.exported import four_siblings, write_datasets

pytestmark = pytest.mark.long

PAGE = (ROOT / "docs" / "exports.md").read_text(encoding="utf-8")
SESSION = re.compile(r"```console\n(.*?)```", re.DOTALL)
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.fixture
def folder(migrated_sqlite: Path, tmp_path: Path) -> Path:
    return write_datasets(four_siblings(migrated_sqlite, tmp_path), tmp_path)


def test_the_page_shows_what_is_printed(folder: Path) -> None:
    sessions = SESSION.findall(PAGE)
    assert {session.split()[6] for session in sessions} == set(FORMATS)
    for session in sessions:
        command, _, printed = session.partition("\n")
        done = sciagent(folder, *command.removeprefix("$ sciagent ").split())
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == printed.strip(), command
    code, _ = CODE.findall(PAGE)  # the other one is run by tests/training/environment/test_trl_environment.py
    card = (folder / "sft-trl" / "README.md").read_text(encoding="utf-8")
    assert CODE.findall(card) == [code]


def test_the_table_has_every_format_with_its_kinds() -> None:
    found = dict(re.findall(r"^\| `([a-z]+[\w-]*)` \| ([^|]+) \|", PAGE, re.MULTILINE))
    assert {name: re.findall(r"`(\w+)`", kinds) or ["all"] for name, kinds in found.items()} == {
        name: list(kinds) if name != "huggingface" else ["all"] for name, kinds in FORMATS.items()
    }
