"""Between our messages and what chat templates and models of the Hermes kind speak."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sciagent.agent.messages import Message, ToolCall
from sciagent.agent.thinking import CLOSE, OPEN, split_thinking

_CALL = re.compile(r"\s*<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_CALLED = re.compile(r'"name"\s*:\s*"([^"\\]*)"')


def rendered(messages: Sequence[Message], marks: Iterable[str]) -> list[dict[str, Any]]:
    """The messages as a chat template takes them.

    marks: the tokenizer's special tokens. One in a text is split by a blank, so what a tool or a user wrote cannot end
    its message and begin another.
    """
    split = {mark: f"{mark[0]} {mark[1:]}" for mark in marks if len(mark) > 1}

    def plain(text: str) -> str:
        for mark, harmless in split.items():
            text = text.replace(mark, harmless)
        return text

    found = []
    for message in messages:
        one: dict[str, Any] = {"role": message.role, "content": plain(message.content)}
        if message.thinking:
            one["reasoning_content"] = plain(message.thinking)
        if message.calls:
            one["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": plain(call.name), "arguments": _arguments(plain(call.arguments))},
                }
                for call in message.calls
            ]
        if message.role == "tool":
            one |= {"name": plain(message.name), "tool_call_id": message.call_id}
        found.append(one)
    return found


def functions(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The tools as a chat template takes them, each under `function`."""
    return [dict(one) if "function" in one else {"type": "function", "function": dict(one)} for one in tools]


def parsed(text: str, first_call: int) -> Message:
    """What a model wrote: thinking, content, calls. A call that is no JSON keeps its text as arguments, under the name
    that can be made out or none. first_call: the number of the first one's id."""
    text, thinking = _split(text)
    calls = tuple(_call(inside, f"call_{first_call + n}") for n, inside in enumerate(_CALL.findall(text)))
    return Message("assistant", _CALL.sub("", text), thinking=thinking, calls=calls)


def _split(text: str) -> tuple[str, str]:
    """(answer, thinking). To the letter in the plain cases, so that rendered again it is what the model wrote."""
    if OPEN not in text and CLOSE not in text:
        return text, ""
    if text.startswith(OPEN) and text.count(OPEN) == text.count(CLOSE) == 1:
        thinking, _, answer = text.removeprefix(OPEN).partition(CLOSE)
        return answer, thinking
    return split_thinking(text)


def _call(text: str, call_id: str) -> ToolCall:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        name = _CALLED.search(text)
        return ToolCall(call_id, name[1] if name else "", text.strip())
    arguments = found.get("arguments", {})
    return ToolCall(
        call_id, found["name"], arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    )


def _arguments(text: str) -> Any:
    """An object where the text is one, for templates write objects as JSON and would quote a text once more."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, dict) else text
