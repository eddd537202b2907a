"""Every tool's schema is strict JSON schema with plain keywords, and its own example meets it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sciagent.agent.tools.showing_tools_and_tools_of_subject import tools_of
from sciagent.agent.tools.tool_contract_and_calls import call_schema
from sciagent.agent.tools.toolbox import Toolbox
from sciagent.chemistry.editing.named_edits import NAMED_EDITS
from tests.support.subjects import MOLECULES

TOOLS = {tool.name: tool for tool in tools_of(MOLECULES)}
KEYWORDS = {
    "type", "properties", "required", "additionalProperties", "enum", "anyOf", "items", "description",
    "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems",
}  # fmt: skip
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "null": type(None)}


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    below = [*node.get("properties", {}).values(), *node.get("anyOf", [])]
    for one in [*below, *([node["items"]] if "items" in node else [])]:
        yield from nodes(one)


def meets(value: Any, node: dict[str, Any]) -> bool:
    """A validator of the few keywords that we write, for a value read from JSON."""
    if "anyOf" in node:
        return any(meets(value, one) for one in node["anyOf"])
    if not isinstance(value, TYPES[node["type"]]) or isinstance(value, bool):
        return False
    if "enum" in node and value not in node["enum"]:
        return False
    if isinstance(value, dict):
        names = node["properties"]
        return set(value) == set(node["required"]) == set(names) and all(meets(v, names[k]) for k, v in value.items())
    if isinstance(value, list):
        return len(value) <= node["maxItems"] and all(meets(one, node["items"]) for one in value)
    if isinstance(value, str):
        return node.get("minLength", 0) <= len(value) <= node.get("maxLength", 10**6)
    return value is None or node["minimum"] <= value <= node["maximum"]


def test_the_tools_are_those_of_the_design():
    assert list(TOOLS) == [
        "propose",
        "modify",
        "crossover",
        "neighbours",
        "inspect",
        "best",
        "history",
        "budget",
        "note",
        "finish",
    ]


@pytest.mark.parametrize("name", TOOLS)
def test_a_schema_is_strict_and_every_text_list_and_number_is_bounded(name):
    made = TOOLS[name].schema
    assert made["type"] == "function" and set(made) == {"type", "function"}
    function = made["function"]
    assert set(function) == {"name", "description", "strict", "parameters"} and function["strict"] is True
    assert function["name"] == name and 20 < len(function["description"]) < 400
    assert json.loads(json.dumps(made)) == made
    for node in nodes(function["parameters"]):
        assert set(node) <= KEYWORDS
        kind = node.get("type")
        assert ("anyOf" in node) != (kind in TYPES)
        if kind == "object":
            assert node["additionalProperties"] is False and node["required"] == list(node["properties"])
        if kind == "string":
            assert "maxLength" in node or "enum" in node
        if kind == "array":
            assert "maxItems" in node
        if kind in ("integer", "number"):
            assert {"minimum", "maximum"} <= set(node)


@pytest.mark.parametrize("name", TOOLS)
def test_the_example_of_a_tool_meets_its_schema_and_its_arguments(name):
    tool = TOOLS[name]
    full = json.loads(json.dumps(dict(tool.example)))
    assert meets(full, tool.schema["function"]["parameters"])
    again = tool.arguments.model_validate(full)
    assert tool.arguments.model_validate(json.loads(again.model_dump_json())) == again
    assert meets({"name": name, "arguments": full}, call_schema([tool]))


def test_one_schema_holds_every_call_and_nothing_else():
    whole = call_schema(TOOLS.values())
    assert set(whole) == {"anyOf"}
    assert all(set(node) <= KEYWORDS - {"description"} for node in nodes(whole))
    assert meets({"name": "best", "arguments": {"n": 3}}, whole)
    assert not meets({"name": "best", "arguments": {"n": 21}}, whole)
    assert not meets({"name": "note", "arguments": {"n": 3}}, whole)
    assert not meets({"name": "shell", "arguments": {}}, whole)
    assert {case["properties"]["name"]["enum"][0] for case in whole["anyOf"]} == set(TOOLS)


def test_an_edit_is_decoded_with_what_it_can_put_in_only():
    cases = [c["properties"]["arguments"] for c in call_schema([TOOLS["modify"]])["anyOf"]]
    assert [c["properties"]["edit"]["enum"][0] for c in cases] == list(NAMED_EDITS)
    whole = call_schema([TOOLS["modify"]])
    call = {"parent": "#1", "edit": "add substituent", "what": "fluoro", "where": None}
    assert meets({"name": "modify", "arguments": call}, whole)
    assert not meets({"name": "modify", "arguments": {**call, "what": "pyridine"}}, whole)
    assert meets({"name": "modify", "arguments": {**call, "edit": "swap ring", "what": "pyridine"}}, whole)


def test_whatever_the_decoding_schema_allows_the_arguments_take():
    tool = TOOLS["modify"]
    for case in call_schema([tool])["anyOf"]:
        entries = case["properties"]["arguments"]["properties"]
        what = entries["what"].get("anyOf", [{}])[0].get("enum", [None])
        for one in what:
            tool.arguments.model_validate(
                {"parent": "#1", "edit": entries["edit"]["enum"][0], "what": one, "where": None}
            )


def test_a_model_that_cannot_spell_names_molecules_by_number():
    """In the provider's own form of a call as in an answer held to a schema; `ranks` says so, or that form does."""
    names = ("modify", "crossover")
    free, ranked = Toolbox(names), Toolbox(names, ranks=True)
    for one, holds in ((free, False), (ranked, True)):
        modify, crossover = (tool["function"]["parameters"] for tool in one.schemas)
        for smiles, taken in (
            ({"parent": "CCO", "edit": "swap ring", "what": None, "where": None}, modify),
            ({"first": "CCO", "second": "CCN"}, crossover),
        ):
            assert meets(smiles, taken) is not holds
            assert meets({key: "#2" if key in ("parent", "first", "second") else v for key, v in smiles.items()}, taken)
    call = {"name": "crossover", "arguments": {"first": "CCO", "second": "CCN"}}
    assert not meets(call, Toolbox(names, structured=True).answer_schema)
    assert {tool["function"]["strict"] for tool in Toolbox(names, strict=False).schemas} == {False}
    assert meets(call, Toolbox(names, structured=True, ranks=False).answer_schema)


@pytest.mark.parametrize(("turns", "last"), [(1, 9), (6, 14), (56, 64), (1000, 64)])
def test_an_answer_can_name_the_molecules_of_the_opening_and_one_of_each_turn(turns: int, last: int) -> None:
    schema = Toolbox(("crossover",), structured=True, turns=turns).answer_schema
    for number, holds in ((1, True), (last, True), (last + 1, False)):
        call = {"name": "crossover", "arguments": {"first": "#1", "second": f"#{number}"}}
        assert meets(call, schema) is holds


def test_the_keys_of_a_tool_are_in_the_order_in_which_servers_write_them():
    """Else the same conversation would be another prompt there: templates write tools as they come."""
    assert all(list(t.schema["function"]) == ["name", "description", "parameters", "strict"] for t in TOOLS.values())
