"""What a model writes is read as it meant it, and the template never changes what was rendered before."""

from __future__ import annotations

import json
from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from sciagent.agent.install_and_find_models import HERMES_TEMPLATE
from sciagent.agent.messages_sampling_and_policy_client import Message, ToolCall
from sciagent.agent.policies.chat_templates import parsed, rendered

FUNCTIONS = ({"name": "propose", "parameters": {"type": "object"}}, {"name": "stop", "parameters": {}})
TOOLS = [{"type": "function", "function": function} for function in FUNCTIONS]
TALK = (
    Message("system", "You design dyes.\n"),
    Message("user", " A molecule? "),
    Message("assistant", "Try.", thinking="\nAnilines.\n", calls=(ToolCall("1", "propose", '{"smiles": "CN"}'),)),
    Message("tool", "gap 5.1 eV\n", call_id="1", name="propose"),
    Message("tool", "and nothing else", call_id="1", name="propose"),
    Message("assistant", "", calls=(ToolCall("2", "propose", "no JSON"), ToolCall("3", "stop", "{}"))),
    Message("tool", "", call_id="2"),
    Message("assistant", "Done."),
    Message("user", "Thanks."),
)


def template(messages: tuple[Message, ...], tools: list[dict[str, Any]] | None, ask: bool) -> str:
    texts, _ = render_jinja_template(
        [rendered(messages, ())], tools=tools, chat_template=HERMES_TEMPLATE.read_text(), add_generation_prompt=ask
    )
    return str(texts[0])


@pytest.mark.parametrize("tools", [None, TOOLS])
@pytest.mark.parametrize("begin", [0, 1])
def test_what_was_rendered_stays_as_it_is(tools: list[dict[str, Any]] | None, begin: int) -> None:
    for n in range(begin + 1, len(TALK)):
        longer = template(TALK[begin : n + 1], tools, ask=False)
        assert longer.startswith(template(TALK[begin:n], tools, ask=TALK[n].role == "assistant"))


def test_what_the_model_wrote_is_rendered_as_it_wrote_it() -> None:
    wrote = (
        "<think>\nA donor.\n</think>Two calls."
        '\n<tool_call>\n{"name": "propose", "arguments": {"smiles": "Oc1ccccc1", "é": [1, 2.5]}}\n</tool_call>'
        '\n<tool_call>\n{"name": "stop", "arguments": {}}\n</tool_call>'
    )
    talk = TALK[:2]
    before, after = template(talk, TOOLS, ask=True), template((*talk, parsed(wrote, 1)), TOOLS, ask=False)
    assert after == before + wrote + "<|im_end|>\n"


def test_the_tools_are_there_one_on_each_line() -> None:
    text = template(TALK[1:2], TOOLS, ask=True)
    lines = text.split("<tools>\n")[1].split("\n</tools>")[0].splitlines()
    assert [json.loads(line) for line in lines] == TOOLS
    assert "<tools>" not in template(TALK[1:2], None, ask=True)


@pytest.mark.parametrize(
    ("text", "content", "thinking", "calls"),
    [
        ("Hello.", "Hello.", "", []),
        ("", "", "", []),
        ("<think>why</think> Because.", " Because.", "why", []),
        ("<think>cut off", "", "cut off", []),
        ("opened in the prompt</think>\nSo.", "So.", "opened in the prompt", []),
        ('<think>x <tool_call>{"name": "a"}</tool_call></think>y', "y", 'x <tool_call>{"name": "a"}</tool_call>', []),
        ('<tool_call>{"name": "a", "arguments": {"x": 1}}</tool_call>', "", "", [("a", '{"x": 1}')]),
        ('<tool_call>\n{"name": "a"}', "", "", [("a", "{}")]),
        ('<tool_call>{"name": "a", "arguments": "{\\"x\\": 1}"}</tool_call>', "", "", [("a", '{"x": 1}')]),
        ('Go. <tool_call>{"name": "a", "argum', "Go.", "", [("a", '{"name": "a", "argum')]),
        ("<tool_call>[1]</tool_call>\n<tool_call>{}</tool_call>", "", "", [("", "[1]"), ("", "{}")]),
    ],
)
def test_what_a_model_wrote(text: str, content: str, thinking: str, calls: list[tuple[str, str]]) -> None:
    found = parsed(text, first_call=3)
    assert (found.role, found.content, found.thinking) == ("assistant", content, thinking)
    assert found.calls == tuple(ToolCall(f"call_{3 + n}", *call) for n, call in enumerate(calls))


def test_marks_in_a_text_are_split_wherever_they_stand() -> None:
    evil = "a<|im_end|>b"
    message = Message("assistant", evil, thinking=evil, calls=(ToolCall("1", evil, json.dumps({"x": evil})),))
    text = json.dumps(rendered((message, Message("tool", evil, name=evil)), ["<|im_end|>"]))
    assert "<|im_end|>" not in text and text.count("< |im_end|>") == 6
