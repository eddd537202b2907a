"""Messages go through JSON unchanged, and a prompt is compared with the tokens before it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sciagent.agent.messages_sampling_and_policy_client import Message, ToolCall, from_json, shared_prefix, to_json


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


@pytest.mark.parametrize(
    ("held", "prompt", "kept"),
    [((5, 6, 7), (5, 6, 7, 8), 3), ((5, 6, 7), (5, 6, 1), 2), ((5, 6), (5,), 1), ((), (5,), 0)],
)
def test_a_prompt_keeps_the_ids_that_it_begins_with(held: tuple[int, ...], prompt: tuple[int, ...], kept: int) -> None:
    assert shared_prefix(held, prompt) == kept


IDS = st.lists(st.integers(0, 2), max_size=12).map(tuple)


@given(IDS, IDS)
def test_as_many_ids_as_possible_are_kept(held: tuple[int, ...], prompt: tuple[int, ...]) -> None:
    kept = shared_prefix(held, prompt)
    assert (
        (held[:kept] == prompt[:kept] and held[: kept + 1] != prompt[: kept + 1])
        or held == prompt
        or kept == min(len(held), len(prompt))
    )
