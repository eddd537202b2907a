"""The tools that a subject is offered: every edit with the groups that it can insert."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sciagent.agent.tools.showing_tools_and_tools_of_subject import cases_of_modify, tools_of
from sciagent.chemistry.editing.named_edits import NAMED_EDITS
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from tests.support.subjects import MOLECULES

MODIFY = {tool.name: tool for tool in tools_of(MOLECULES)}["modify"].arguments


def test_each_edit_offers_only_the_groups_that_it_can_insert() -> None:
    cases = cases_of_modify(MOLECULES, MODIFY.model_json_schema())
    assert [case["properties"]["edit"]["enum"] for case in cases] == [[name] for name in NAMED_EDITS]
    for case, edit in zip(cases, NAMED_EDITS.values(), strict=True):
        offered = case["properties"]["what"].get("anyOf", [{}])[0].get("enum", [])
        assert offered == list(edit.whats)


def test_a_wrong_name_is_refused_with_the_right_ones() -> None:
    with pytest.raises(ValidationError) as caught:
        MODIFY.model_validate({"parent": "C", "edit": "add substituants"})
    [error] = [error for error in caught.value.errors() if error["loc"] == ("edit",)]
    assert error["ctx"]["names"] == list(NAMED_EDITS)


def test_crystals_have_the_same_tools_but_no_crossover() -> None:
    of = [[tool.name for tool in tools_of(subject)] for subject in (MOLECULES, subject_of("crystal"))]
    assert set(of[0]) - set(of[1]) == {"crossover"}
    [propose, *_] = tools_of(subject_of("crystal"))
    assert "one crystal by its structure" in propose.description
    assert propose.arguments.model_validate({"structure": "rocksalt: Na Cl"})
