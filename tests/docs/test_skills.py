"""The skills for coding agents have the form that agents read, and what they show is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import ROOT, SKILLS, blocks


@pytest.mark.parametrize("file", SKILLS, ids=lambda file: file.parent.name)
def test_a_skill_has_its_form(file: Path) -> None:
    _, head, body = file.read_text(encoding="utf-8").split("---\n", 2)
    fields = yaml.safe_load(head)
    assert fields["name"] == file.parent.name and re.fullmatch("[a-z-]{1,64}", fields["name"])
    assert 0 < len(fields["description"]) <= 1024 and "Use when" in fields["description"]
    assert 0 < len(body) <= 8000
    for page in re.findall(r"`(docs/[a-z_]+\.md)`", body):
        assert (ROOT / page).exists(), page


def test_the_page_for_agents_is_short_and_names_every_skill() -> None:
    page = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    assert page.count("\n") <= 120
    assert len(SKILLS) == 3
    for file in SKILLS:
        assert str(file.relative_to(ROOT)) in page


def test_the_verifier_of_the_skill_works() -> None:
    [block] = blocks("python", ROOT / "skills" / "sciagent-verifier" / "SKILL.md")
    exec(compile(block.text, str(block), "exec"), {"__name__": "skill"})
