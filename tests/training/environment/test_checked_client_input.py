"""The statements of clients are data: bounded, checked, and refused with the place and the fault."""

from __future__ import annotations

from typing import Any

import pytest

from sciagent.errors import EpisodeError
from sciagent.training.environment.checked_client_input import EpisodeRequest, stated_answer, stated_call

CALL = {"id": "a", "type": "function", "function": {"name": "best", "arguments": '{"n": 3}'}}


def test_an_answer_keeps_its_text_its_thinking_its_calls_and_its_tokens() -> None:
    message = {"role": "assistant", "content": "see", "reasoning_content": "hm", "tool_calls": [CALL]}
    answer = stated_answer(message, {"prompt_tokens": 7, "completion_tokens": 3}, "mine@1")
    assert (answer.message.content, answer.message.thinking) == ("see", "hm")
    assert [(call.id, call.name, call.arguments) for call in answer.message.calls] == [("a", "best", '{"n": 3}')]
    assert (answer.prompt_tokens, answer.output_tokens, answer.policy, answer.tokens) == (7, 3, "mine@1", None)


def test_text_that_no_database_stores_is_replaced() -> None:
    assert stated_answer({"content": "a\0b\ud800"}, None, "m").message.content == "a�b�"


def test_a_call_may_be_stated_alone() -> None:
    answer = stated_answer(stated_call("propose", {"smiles": "CCO"}), None, "m")
    assert [(call.id, call.name, call.arguments) for call in answer.message.calls] == [
        ("call-0", "propose", '{"smiles": "CCO"}')
    ]


@pytest.mark.parametrize(
    ("message", "usage", "status", "fault"),
    [
        (None, None, 400, "message: must be a JSON object"),
        ({"role": "user", "content": "x"}, None, 400, "message.role: 'user' is not assistant"),
        ({"content": [{"type": "text", "text": "x"}]}, None, 400, "message.content: must be a text or null"),
        ({"content": "x" * 300_000}, None, 413, "the limit is 250000"),
        ({"tool_calls": "best"}, None, 400, "tool_calls are no list"),
        ({"tool_calls": ["best"]}, None, 400, "is no JSON object"),
        ({"content": "x"}, [], 400, "usage: must be a JSON object"),
        ({"content": "x"}, {"prompt_tokens": -1}, 400, "usage.prompt_tokens: -1 is no number of tokens"),
        ({"content": "x"}, {"completion_tokens": True}, 400, "usage.completion_tokens: True is no number"),
    ],
)
def test_a_wrong_answer_is_refused(message: Any, usage: Any, status: int, fault: str) -> None:
    with pytest.raises(EpisodeError, match=fault) as refused:
        stated_answer(message, usage, "m")
    assert refused.value.status == status


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"task": -1}, "task: -1 is no whole number"),
        ({"task": True}, "task: True is no whole number"),
        ({"seed": 1.5}, "seed: 1.5 is no whole number"),
        ({"task": 1, "seed": 1}, "task and seed: a task has its own seed"),
        ({"siblings": 0}, "siblings: 0 is no whole number from 1 to 1000"),
        ({"siblings": 4}, "a group of several episodes needs a name"),
        ({"group": ""}, "group: '' is no name"),
        ({"policy": 7}, "policy: 7 is no name"),
        ({"policy": "a\0"}, "no database stores"),
        ({"purpose": "campaign"}, "purpose: 'campaign' is none of rollout, evaluation, demonstration"),
    ],
)
def test_a_wrong_request_is_refused(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(EpisodeError, match=fault) as refused:
        EpisodeRequest(**fields)
    assert refused.value.status == 400


@pytest.mark.parametrize(("name", "arguments"), [(3, {}), ("best", [1])])
def test_a_wrong_call_is_refused(name: Any, arguments: Any) -> None:
    with pytest.raises(EpisodeError):
        stated_call(name, arguments)
