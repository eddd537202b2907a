"""What is left of a stranger's schema, how calls are checked against it, and the names of the tools."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sciagent.agent.tools.mcp_tool_and_reduced_schema import MAX_WRITTEN, ForeignTool, function_name, plain
from sciagent.agent.tools.tool_contract_and_calls import CallError
from tests.support.mcp_server import HOSTILE, SEARCH

KEYWORDS = (
    "type", "enum", "const", "anyOf", "oneOf", "allOf", "items", "properties", "required", "additionalProperties",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems",
    "pattern", "format", "description", "$ref", "$defs", "x",
)  # fmt: skip
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["object", "string", "integer", "array", "#", "#/$defs/x", "#/properties/x"]),
    ),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.sampled_from(KEYWORDS), inside, max_size=5),
    max_leaves=30,
)


def test_what_is_plain_stays_as_it_is() -> None:
    assert plain(SEARCH) == {**SEARCH, "required": ["query"]}


def test_references_are_written_out_and_a_schema_within_itself_ends() -> None:
    given = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/tree"}},
        "$defs": {"tree": {"type": "object", "properties": {"n": {"type": "integer"}, "t": {"$ref": "#/$defs/tree"}}}},
    }
    inside = {"type": "object", "properties": {"n": {"type": "integer"}, "t": {}}}
    assert plain(given) == {"type": "object", "properties": {"tree": inside}}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_is_small_and_a_schema_afterwards(name: str) -> None:
    check(HOSTILE[name][1])


@settings(max_examples=120, deadline=None)
@given(VALUES)
def test_anything_becomes_a_small_schema(value: Any) -> None:
    check(value)


def check(value: Any) -> None:
    made = plain(value)
    text = json.dumps(made, ensure_ascii=False, allow_nan=False)
    assert len(text) <= MAX_WRITTEN and made["type"] == "object"
    assert text.isprintable() and not {"$ref", "pattern", "format", "allOf"} & keywords(made)
    Draft202012Validator.check_schema(made)


def keywords(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(keywords, schema))
    if not isinstance(schema, dict):
        return set()
    found = set(schema) - {"properties"}
    found |= set().union(*map(keywords, schema.get("properties", {}).values()))
    return found | keywords(schema.get("items")) | keywords(schema.get("anyOf"))


def test_arguments_are_checked_and_the_complaint_says_how_to_call() -> None:
    tool = ForeignTool("lit", "search", "", plain(SEARCH))
    tool.check({"query": "x", "limit": 2})
    with pytest.raises(CallError) as caught:
        tool.check({"limit": 9, "why": "\x1b" + "A" * 5000})
    text = str(caught.value)
    assert "'query' is a required property" in text and "limit: 9 is greater than" in text and len(text) < 900
    assert text.endswith("lit_search takes: query (has to be given), limit") and "\x1b" not in text


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [("lit", "search", "lit_search"), ("lit", "a.b/c d", "lit_a_b_c_d"), ("lit", "search-all", "lit_search-all")],
)
def test_names_are_those_of_functions(server: str, tool: str, name: str) -> None:
    assert function_name(server, tool) == name


def test_long_names_stay_apart() -> None:
    names = {function_name("literature", "x" * 100 + end) for end in "abc"}
    assert len(names) == 3 and all(len(name) == 64 for name in names)


def test_numbers_that_are_none_are_left_out() -> None:
    limits = {"minimum": math.inf, "maximum": 1e300, "minLength": -1, "maxLength": True, "exclusiveMinimum": "0"}
    assert plain({"properties": {"x": {"type": "number", **limits}}})["properties"] == {"x": {"type": "number"}}
