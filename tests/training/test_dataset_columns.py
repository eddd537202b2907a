"""Messages in the format of chat templates."""

from __future__ import annotations

import pyarrow as pa

from sciagent.agent.messages_sampling_and_policy_client import Message, ToolCall
from sciagent.training.dataset_columns import EPISODE, JUDGED, TURN, chat, schema

CONVERSATION = (
    Message("user", "find one"),
    Message("assistant", "", "a ring?", calls=(ToolCall("c1", "propose", '{"smiles": "C'),)),
    Message("tool", "error: not closed", call_id="c1", name="propose"),
)


def test_a_broken_call_stays_what_the_model_wrote() -> None:
    user, said, seen = chat(CONVERSATION)
    assert user == {"role": "user", "content": "find one"} | dict.fromkeys(
        ("reasoning_content", "tool_calls", "tool_call_id", "name")
    )
    function = {"name": "propose", "arguments": '{"smiles": "C'}
    assert said["tool_calls"] == [{"id": "c1", "type": "function", "function": function}]
    assert said["reasoning_content"] == "a ring?" and (seen["tool_call_id"], seen["name"]) == ("c1", "propose")


def test_messages_survive_arrow() -> None:
    columns = schema((*EPISODE, *TURN, *JUDGED), {})
    batch = pa.RecordBatch.from_pylist([{"prompt": chat(CONVERSATION)}], schema=columns)
    [row] = batch.to_pylist()
    assert row["prompt"] == chat(CONVERSATION) and row["skill"] is None
    assert all(field.metadata[b"description"] for field in columns)
