"""The page on operations says of the site profile what the models say."""

from __future__ import annotations

import json
import re

import pytest
from pydantic import BaseModel

from sciagent.execution.slurm.array_folders_submission_and_polling import ElementState
from sciagent.execution.slurm.site_profile import Memory, Partition, SiteProfile, Wall, parse_site
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "operations.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\*\*)?`(\w+)`(?:\*\*)? \| [^|]+ \| ([^|]*) \| [^|]+ \|$", re.MULTILINE)


def rows(begin: str) -> dict[str, tuple[bool, str]]:
    """Of the first table behind a text: each key, whether it is in bold, and its default."""
    table = re.search(r"\| key \|.*?(?=\n\n)", TEXT.split(begin, 1)[1], re.DOTALL)
    assert table is not None
    return {key: (bool(bold), default.strip(" `")) for bold, key, default in ROW.findall(table[0])}


@pytest.mark.parametrize(
    ("begin", "model"),
    [("### The profile", SiteProfile), ("A partition:", Partition), ("`wall`: the", Wall), ("`memory`: the", Memory)],
    ids=["site", "partition", "wall", "memory"],
)
def test_every_key_of_a_profile_has_its_row_and_its_default(begin: str, model: type[BaseModel]) -> None:
    found = rows(begin)
    assert list(found) == list(model.model_fields)
    for key, field in model.model_fields.items():
        bold, default = found[key]
        assert bold == field.is_required(), key
        if not field.is_required() and default != "see below":
            value = field.get_default(call_default_factory=True)
            assert json.loads(default) == (list(value) if isinstance(value, tuple) else value), key


def test_the_profile_that_is_shown_is_one() -> None:
    [shown] = [one for one in blocks("yaml", PAGE) if one.text.startswith("site:")]
    assert [one.name for one in parse_site(shown.text).partitions] == ["short", "long"]


def test_every_state_is_explained() -> None:
    table = TEXT.split("### What is read", 1)[1].split("\n\n", 2)[1]
    assert set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]+)\|", table, re.MULTILINE)))) == set(ElementState)
