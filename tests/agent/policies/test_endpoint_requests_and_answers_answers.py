"""Answers of servers that keep to nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sciagent.agent.messages_sampling_and_policy_client import Sampled, Sampling
from sciagent.agent.policies.endpoint_requests_and_answers import read_answer, sampled_of
from tests.support.chat_server import answer


def sampled(sent: Any) -> Sampled:
    text = sent if isinstance(sent, str) else json.dumps(sent)
    return sampled_of(read_answer(text, str), Sampling(), "m", 1.0, False, None)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (answer("x", message={"tool_calls": {"a": 1}}), "tool_calls are no list"),
        (answer("x", message={"tool_calls": ["propose"]}), "an entry of its tool_calls is no JSON object"),
        (answer("x", message={"tool_calls": [{"function": "propose"}]}), "tool_calls.function is no JSON object"),
        ({"choices": ["x"]}, "an entry of its choices is no JSON object"),
        ({"choices": [{"message": "x"}]}, "no message in it"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "no JSON object"),
    ],
)
def test_a_malformed_answer_is_told_in_words(sent: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        sampled(sent)


@pytest.mark.parametrize(
    ("temperature", "source", "grammar", "known", "why"),
    [
        (1.0, None, False, True, None),
        (1.0, "raw", False, True, None),
        (0.7, "processed", False, True, None),
        (0.7, "raw", False, False, "drawn at temperature 0.7, with log-probabilities that are raw"),
        (0.7, None, False, False, "drawn at temperature 0.7, with log-probabilities that are unknown"),
        (1.0, "raw", True, True, "a grammar of the server restricted the answer"),
        (0.7, "processed", True, True, "a grammar of the server restricted the answer"),
        (0.0, "processed", False, True, "drawn without chance"),
    ],
)
def test_what_the_tokens_were_drawn_from_is_known_where_the_mode_says_so(
    temperature: float, source: Any, grammar: bool, known: bool, why: str | None
) -> None:
    logprobs = {"content": [{"token": "a", "logprob": -0.5, "bytes": None, "top_logprobs": []}]}
    sent = answer("x", choice={"logprobs": logprobs, "token_ids": [4]}, prompt_token_ids=[1])
    asked = Sampling(temperature, schema={"type": "object"} if grammar else None)
    found = sampled_of(read_answer(json.dumps(sent), str), asked, "m", 1.0, False, source)
    assert found.tokens and found.tokens.behaviour == ((-0.5,) if known else None)
    assert found.untrainable is None if why is None else (found.untrainable or "").startswith(why)


@pytest.mark.parametrize(
    ("schema", "source", "why"),
    [
        ({"type": "object"}, "processed", None),
        ({"type": "object"}, "raw", "drawn at temperature 0.7"),
        (None, "processed", "a grammar of the server restricted the answer"),  # of a call, not of the whole answer
    ],
)
def test_a_schema_that_a_known_engine_enforced_leaves_an_answer_trainable(
    schema: Any, source: Any, why: str | None
) -> None:
    logprobs = {"content": [{"token": "a", "logprob": -0.5, "bytes": None, "top_logprobs": []}]}
    sent = answer("x", choice={"logprobs": logprobs, "token_ids": [4]}, prompt_token_ids=[1])
    asked = Sampling(0.7, schema=schema, call=schema is None)
    found = sampled_of(read_answer(json.dumps(sent), str), asked, "m", 1.0, True, source, "llguidance")
    assert found.grammar
    assert found.untrainable is None if why is None else (found.untrainable or "").startswith(why)


def test_without_tokens_an_answer_is_not_trainable() -> None:
    assert sampled(answer("x")).untrainable == "the server returned no tokens"


@pytest.mark.parametrize(
    "more",
    [
        {"usage": {"prompt_tokens": 10**300, "completion_tokens": "many"}},
        {"usage": [1], "prompt_token_ids": [1], "choice": {"token_ids": [2**40], "logprobs": {"content": [{}]}}},
        {"prompt_token_ids": "a", "choice": {"token_ids": [1], "logprobs": {"content": [{"logprob": float("nan")}]}}},
    ],
)
def test_numbers_that_are_none_are_left_out(more: Any) -> None:
    found = sampled(answer("x", **more))
    assert found.tokens is None and found.prompt_tokens <= 7
