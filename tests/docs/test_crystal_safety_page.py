"""The page on the safety screen of crystals lists the rules that there are."""

from __future__ import annotations

import re

from sciagent_verifiers.fast.hazards.crystal_hazards import crystal_rules
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "crystal_safety.md").read_text(encoding="utf-8")


def test_every_rule_stands_in_the_page_with_its_group_reason_and_source() -> None:
    rules = crystal_rules()
    for rule in rules:
        (line,) = (line for line in PAGE.splitlines() if line.startswith(f"| `{rule.name}` |"))
        assert line == f"| `{rule.name}` | `{rule.group}` | {rule.reason} | {rule.source} |"
    assert len(re.findall(r"^\| `", PAGE, re.M)) == len(rules)
