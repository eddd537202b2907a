"""The chances of the tokens of a turn come out again from what the ledger holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from sciagent.agent.messages_sampling_and_policy_client import Sampling
from sciagent.agent.policies.local_model import LocalPolicy
from sciagent.agent.tools.showing_tools_and_tools_of_subject import tools_of
from sciagent.agent.tools.tool_contract_and_calls import Tool, call_schema
from sciagent.agent.tools.toolbox import Toolbox
from sciagent.agent.turns_to_token_rows import RecordedCall, behaviour_of, in_order
from tests.agent.policies.local_policy import TALK, TOOL, policy
from tests.support.subjects import MOLECULES

__all__ = ["policy"]
NAMES = ("propose", "modify", "crossover", "best", "finish")


def stored(temperature: float, grammar: bool) -> Mapping[str, Any]:
    return {"temperature": temperature, "grammar": grammar}


@pytest.mark.parametrize(("structured", "temperature"), [(False, 1.0), (True, 0.7)])
def test_every_token_was_as_likely_as_the_turn_says(policy: LocalPolicy, structured: bool, temperature: float) -> None:
    tools = Toolbox(NAMES, structured=structured)
    schema = tools.answer_schema if structured else None
    for seed in range(3):
        sampling = Sampling(temperature, max_tokens=80, seed=seed, schema=schema)
        sampled = policy.sample(TALK, [] if structured else [TOOL], sampling)
        assert sampled.tokens and sampled.tokens.behaviour and sampled.untrainable is None
        call = RecordedCall.of(0, sampled.tokens)
        again = behaviour_of(policy, call, stored(temperature, sampled.grammar), tools.content(required=False))
        assert again == pytest.approx(sampled.tokens.behaviour, abs=1e-4)
        other = behaviour_of(policy, call, stored(1.7 - temperature, sampled.grammar), tools.content(required=False))
        assert max(abs(a - b) for a, b in zip(again, other, strict=True)) > 1e-2, "the temperature matters"
        at_one = [b for b, forced in zip(sampled.tokens.behaviour, sampled.tokens.forced, strict=True) if forced]
        assert at_one == [0.0] * len(at_one) and bool(at_one) == structured


def test_without_a_grammar_at_temperature_1_both_log_probabilities_are_the_same(policy: LocalPolicy) -> None:
    tokens = policy.sample(TALK, [], Sampling(max_tokens=40, seed=1)).tokens
    assert tokens and tokens.behaviour == pytest.approx(tokens.logprobs, abs=1e-5)


def test_an_answer_drawn_without_chance_is_refused(policy: LocalPolicy) -> None:
    sampled = policy.sample(TALK, [], Sampling(0.0, max_tokens=5))
    assert sampled.tokens and sampled.untrainable == "drawn without chance, at temperature 0"
    with pytest.raises(ValueError, match="turn 0: drawn without chance"):
        behaviour_of(policy, RecordedCall.of(0, sampled.tokens), stored(0.0, False), {})


def test_a_token_that_the_schema_forbids_is_named(policy: LocalPolicy) -> None:
    tools = Toolbox(NAMES, structured=True)
    tokens = policy.sample(TALK, [], Sampling(max_tokens=8, seed=1)).tokens
    assert tokens
    with pytest.raises(ValueError, match=r"turn 0: its schema does not allow output id \d+"):
        behaviour_of(policy, RecordedCall.of(0, tokens), stored(1.0, True), tools.content(required=False))


def as_jsonb(value: Any) -> Any:
    """Returns a value of JSON as PostgreSQL keeps it: the keys of objects by length, then by bytes."""
    if isinstance(value, list):
        return [as_jsonb(each) for each in value]
    if isinstance(value, dict):
        return {name: as_jsonb(value[name]) for name in sorted(value, key=lambda name: (len(name), name))}
    return value


def properties_of(schema: Any) -> list[list[str]]:
    """Returns the names of the properties of all objects, in their order."""
    if isinstance(schema, list):
        return [names for each in schema for names in properties_of(each)]
    if not isinstance(schema, dict):
        return []
    own = [list(schema["properties"])] if "properties" in schema else []
    return own + [names for name in sorted(schema) for names in properties_of(schema[name])]


@pytest.mark.parametrize("tool", tools_of(MOLECULES), ids=lambda tool: tool.name)
def test_a_grammar_keeps_the_order_of_arguments_in_every_database(tool: Tool) -> None:
    schema = call_schema([tool])
    assert properties_of(in_order(as_jsonb(schema))) == properties_of(schema)
    assert json.dumps(in_order(schema)) == json.dumps(schema), "the grammars of SQLite ledgers stay as they are"
