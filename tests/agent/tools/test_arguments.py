"""The arguments of the tools, where their schemas say more than a type."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sciagent.agent.tools.arguments import cases_of_modify
from sciagent.agent.tools.molecules import modify
from sciagent.agent.tools.registry import Tool
from sciagent.chemistry.editing.named import NAMED_EDITS

MODIFY = Tool(modify).arguments


def test_each_edit_offers_only_the_groups_that_it_can_insert() -> None:
    cases = cases_of_modify(MODIFY.model_json_schema())
    assert [case["properties"]["edit"]["enum"] for case in cases] == [[name] for name in NAMED_EDITS]
    for case, edit in zip(cases, NAMED_EDITS.values(), strict=True):
        offered = case["properties"]["what"].get("anyOf", [{}])[0].get("enum", [])
        assert offered == list(edit.whats)


def test_a_wrong_name_is_refused_with_the_right_ones() -> None:
    with pytest.raises(ValidationError) as caught:
        MODIFY.model_validate({"parent": "C", "edit": "add substituants"})
    [error] = [error for error in caught.value.errors() if error["loc"] == ("edit",)]
    assert error["ctx"]["names"] == list(NAMED_EDITS)
