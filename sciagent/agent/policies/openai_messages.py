"""Writes messages in OpenAI's format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sciagent.agent.messages import CLOSE, OPEN, Message

# the beginnings of chat-template marks, which separate messages
_MARK = re.compile(r"<(?=[|\uff5c]|/?s>|(?:start|end|begin)_of_\w+>)")


def to_openai(message: Message) -> Mapping[str, Any]:
    """Returns the message in OpenAI's format. A space splits each chat-template mark in its texts, as in
    `hermes.rendered`, so that no text can end its message and begin another."""
    content, thinking = _MARK.sub("< ", message.content), _MARK.sub("< ", message.thinking)
    sent: dict[str, Any] = {"role": message.role, "content": content}
    if message.thought_in:
        sent[message.thought_in] = thinking
    elif message.thinking:
        sent["content"] = f"{OPEN}{thinking}{CLOSE}{content}"
    if message.calls:
        sent["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    if message.role == "tool":
        sent["tool_call_id"] = message.call_id
    return sent
