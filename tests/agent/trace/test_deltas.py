"""A prompt is stored as what it adds, and comes back as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sciagent.agent.trace.deltas import Delta, delta_of, prompt_of

IDS = st.lists(st.integers(0, 2), max_size=12).map(tuple)


def test_a_prompt_that_grows_is_what_it_adds():
    assert delta_of(held=(5, 6, 7), prompt_ids=(5, 6, 7, 8, 9)) == Delta(kept=3, new_ids=(8, 9))


def test_a_prompt_that_changes_its_end_keeps_the_start():
    assert delta_of(held=(5, 6, 7), prompt_ids=(5, 6, 1, 8)) == Delta(kept=2, new_ids=(1, 8))


def test_a_prompt_that_only_takes_back_adds_nothing():
    assert delta_of(held=(5, 6, 7), prompt_ids=(5,)) == Delta(kept=1, new_ids=())


def test_the_first_prompt_is_all_new():
    assert delta_of(held=(), prompt_ids=(5, 6)) == Delta(kept=0, new_ids=(5, 6))


@given(IDS, IDS)
def test_a_prompt_comes_back_from_its_delta(held, prompt):
    assert prompt_of(held, delta_of(held, prompt)) == prompt


@given(IDS, IDS)
def test_a_delta_keeps_as_much_as_can_be_kept(held, prompt):
    kept, new_ids = delta_of(held, prompt)
    assert held[:kept] == prompt[:kept]
    assert kept == len(held) or not new_ids or held[kept] != new_ids[0]


@given(st.lists(st.tuples(IDS, IDS), max_size=5))
def test_a_conversation_comes_back_from_its_deltas(calls):
    stored, held = [], ()
    for prompt, output in calls:
        stored.append((delta_of(held, prompt), output))
        held = prompt + output
    held, read = (), []
    for delta, output in stored:
        prompt = prompt_of(held, delta)
        read.append((prompt, output))
        held = prompt + output
    assert read == calls


@pytest.mark.parametrize("kept", [4, -1])
def test_a_delta_of_another_conversation_is_refused(kept):
    with pytest.raises(ValueError, match=f"keeps {kept} ids of the 3"):
        prompt_of((5, 6, 7), Delta(kept, (8,)))
