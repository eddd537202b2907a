"""Messages go through JSON unchanged."""

from __future__ import annotations

import pytest

from sciagent.agent.messages import Message, ToolCall, from_json, to_json


@pytest.mark.parametrize(
    "message",
    [
        Message("user", "A gap below 3 eV?"),
        Message("assistant", "", "first a ring", (ToolCall("c1", "best", "{}"),), thought_in="reasoning"),
        Message("tool", "1. benzene", call_id="c1", name="best"),
    ],
)
def test_a_message_comes_back_from_its_json_without_empty_fields(message: Message) -> None:
    fields = to_json(message)
    assert from_json(fields) == message
    assert all(value for name, value in fields.items() if name != "content")
