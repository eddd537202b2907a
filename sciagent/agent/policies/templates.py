"""Converts between sciagent's messages and the texts of Hermes models and their chat templates."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sciagent.agent.messages import CLOSE, OPEN, Message, ToolCall, split_thinking

_CALL = re.compile(r"\s*<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_CALLED = re.compile(r'"name"\s*:\s*"([^"\\]*)"')


def rendered(messages: Sequence[Message], marks: Iterable[str]) -> Sequence[Mapping[str, Any]]:
    """Returns the messages in the format that a chat template takes.

    marks: the tokenizer's special tokens. A space splits each of them in a text, so that the text of a tool or a user
    cannot end its message and begin another.
    """
    split = {mark: f"{mark[0]} {mark[1:]}" for mark in marks if len(mark) > 1}

    def plain(text: str) -> str:
        for mark, harmless in split.items():
            text = text.replace(mark, harmless)
        return text

    entries = []
    for message in messages:
        entry: dict[str, Any] = {"role": message.role, "content": plain(message.content)}
        if message.thinking:
            entry["reasoning_content"] = plain(message.thinking)
        if message.calls:
            entry["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": plain(call.name), "arguments": _arguments(plain(call.arguments))},
                }
                for call in message.calls
            ]
        if message.role == "tool":
            entry |= {"name": plain(message.name), "tool_call_id": message.call_id}
        entries.append(entry)
    return entries


def parsed(text: str, first_call: int) -> Message:
    """Returns the message in a model's text: thinking, content and calls.

    A call that is not valid JSON keeps its text as arguments; its name is searched in the text and may be empty.
    first_call: number in the id of the first call.
    """
    text, thinking = _split(text)
    calls = tuple(_call(inside, f"call_{first_call + n}") for n, inside in enumerate(_CALL.findall(text)))
    return Message("assistant", _CALL.sub("", text), thinking=thinking, calls=calls)


def _split(text: str) -> tuple[str, str]:
    """Returns (answer, thinking). Simple texts keep every character, so that the rendered message equals the model's
    text."""
    if OPEN not in text and CLOSE not in text:
        return text, ""
    if text.startswith(OPEN) and text.count(OPEN) == text.count(CLOSE) == 1:
        thinking, _, answer = text.removeprefix(OPEN).partition(CLOSE)
        return answer, thinking
    return split_thinking(text)


def _call(text: str, call_id: str) -> ToolCall:
    try:
        call = json.loads(text)
    except ValueError:
        call = None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        name = _CALLED.search(text)
        return ToolCall(call_id, name[1] if name else "", text.strip())
    arguments = call.get("arguments", {})
    return ToolCall(
        call_id, call["name"], arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    )


def _arguments(text: str) -> Any:
    """Returns the JSON object in the text, or the text. Templates write objects as JSON but quote texts."""
    try:
        arguments = json.loads(text)
    except ValueError:
        return text
    return arguments if isinstance(arguments, dict) else text
