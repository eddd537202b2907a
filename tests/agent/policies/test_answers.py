"""Answers of servers that keep to nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sciagent.agent.messages import Sampled, Sampling
from sciagent.agent.policies.answers import read_answer, sampled_of
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
