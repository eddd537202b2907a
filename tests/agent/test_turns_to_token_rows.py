"""Rows of small trajectories, written as text with one letter per token, and of random ones."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sciagent.agent.messages_sampling_and_policy_client import Tokens
from sciagent.agent.turns_to_token_rows import Join, Linearised, RecordedCall, Row, linearise
from tests.agent.checks import check, fewest_rows


def call(turn: int, prompt: str, answer: str, forced: str = "") -> RecordedCall:
    """forced: letters of the answer that the grammar left no choice for."""
    ids = tuple(map(ord, answer))
    logprobs = tuple(-(1.0 + turn + place / 100) for place in range(len(ids)))
    return RecordedCall(turn, tuple(map(ord, prompt)), ids, logprobs, tuple(letter in forced for letter in answer))


def shown(row: Row) -> tuple[str, str]:
    """The text of a row, and under it the turn that sampled each token where it is trained, x where it was forced."""
    marks = (" " if not s else str(t) if m else "x" for s, m, t in zip(row.sampled, row.mask, row.turns, strict=True))
    return "".join(map(chr, row.ids)), "".join(marks).rstrip()


def joined(result: Linearised) -> dict[str, int]:
    return {str(join): n for join, n in result.joins.items() if n}


def test_a_conversation_that_grows_is_one_row():
    result = linearise([call(0, "ask:", "one."), call(1, "ask:one.more:", "two.")])
    assert [shown(row) for row in result.rows] == [("ask:one.more:two.", "    0000     1111")]
    assert result.rows[0].logprobs[4:8] == (-1.0, -1.01, -1.02, -1.03)
    assert joined(result) == {"append": 1}


def test_each_sampled_token_keeps_the_chance_with_which_it_was_drawn():
    """The first answer drifts and goes aside; of the second the chances are not known."""
    first = replace(call(0, "ask:", "one ."), behaviour=(-0.1, -0.2, -0.3, -0.4, -0.5))
    rows = linearise([first, call(1, "ask:one.more:", "two.")], drift_limit=2).rows
    assert [row.behaviour for row in rows] == [
        (None,) * 7 + (-0.4, -0.5),
        (None,) * 4 + (-0.1, -0.2, -0.3) + (None,) * (len("ask:one.more:two.") - 7),
    ]
    with pytest.raises(ValueError, match="turn 0: 5 sampled ids and 1 behaviour log-probabilities"):
        replace(first, behaviour=(-0.1,))


def test_what_the_grammar_forced_is_sampled_and_not_trained():
    result = linearise([call(0, "ask:", "{one}", forced="{}")])
    assert [shown(row) for row in result.rows] == [("ask:{one}", "    x000x")]
    assert sum(result.rows[0].sampled) == 5


def test_an_answer_that_drifted_goes_aside_and_the_row_goes_on():
    """The answer `one .` lost its space when it was rendered."""
    result = linearise([call(0, "ask:", "one ."), call(1, "ask:one.more:", "two.")], drift_limit=2)
    assert [(*shown(row), row.aside) for row in result.rows] == [
        ("ask:one .", "       00", True),
        ("ask:one.more:two.", "    000      1111", False),
    ]
    assert joined(result) == {"realign": 1}
    assert result.drifted == 2


def test_drift_may_reach_back_over_several_answers():
    result = linearise([call(0, "a:", "one"), call(1, "a:one b:", "two"), call(2, "a:o b:two c:", "end")])
    assert [shown(row) for row in result.rows] == [
        ("a:one b:two", "   00   111"),
        ("a:o b:two c:end", "  0         222"),
    ]


def test_drift_beyond_the_limit_forks():
    calls = [call(0, "ask:", "one ."), call(1, "ask:one.more:", "two.")]
    result = linearise(calls, drift_limit=1)
    assert [(*shown(row), row.aside) for row in result.rows] == [
        ("ask:one .", "    00000", False),
        ("ask:one.more:two.", "             1111", False),
    ]
    assert joined(result) == {"fork": 1}
    assert result.drifted == 0


def test_context_that_was_rewritten_forks_however_short_it_is():
    result = linearise([call(0, "at 9:", "one."), call(1, "at 10:one.more:", "two.")])
    assert [shown(row) for row in result.rows] == [
        ("at 9:one.", "     0000"),
        ("at 10:one.more:two.", "               1111"),
    ]
    assert joined(result) == {"fork": 1}


def test_a_compaction_forks_the_same_trajectory():
    result = linearise([call(0, "ask:", "one."), call(1, "ask:one.more:", "two."), call(2, "so far: 1, 2:", "end")])
    assert [shown(row) for row in result.rows] == [
        ("ask:one.more:two.", "    0000     1111"),
        ("so far: 1, 2:end", "             222"),
    ]


def test_a_model_that_is_asked_again_keeps_both_answers_out_of_rows_aside():
    result = linearise([call(0, "ask:", "on#"), call(1, "ask:", "one.")])
    assert [(*shown(row), row.aside) for row in result.rows] == [
        ("ask:on#", "    000", False),
        ("ask:one.", "    1111", False),
    ]


def test_the_same_answer_sampled_twice_is_trained_twice():
    result = linearise([call(0, "ask:", "one."), call(1, "ask:", "one.")])
    assert [shown(row)[1] for row in result.rows] == ["    0000", "    1111"]


def test_an_answer_recorded_without_tokens_is_context():
    result = linearise([call(0, "ask:", "one."), call(2, "ask:one.more:two.more:", "end")])
    assert [shown(row) for row in result.rows] == [("ask:one.more:two.more:end", "    0000              222")]


def test_a_row_without_a_sampled_token_is_left_out():
    assert linearise([]).rows == linearise([call(0, "ask:", "")]).rows == ()
    assert [shown(row)[0] for row in linearise([call(0, "ask:", ""), call(1, "new:", "one.")]).rows] == ["new:one."]


def test_a_record_is_made_of_what_a_client_returns():
    tokens = Tokens((1, 2), (3,), (-0.5,), (False,), "raw", "abc")
    assert RecordedCall.of(4, tokens) == RecordedCall(4, (1, 2), (3,), (-0.5,), (False,))


@pytest.mark.parametrize(
    ("logprobs", "forced", "says"),
    [((-1.0,), (False, False), "2 sampled ids, 1 log-prob"), ((-1.0, -1.0), (), "2 log-probabilities and 0 flags")],
)
def test_lengths_that_disagree_are_refused_with_the_turn(logprobs, forced, says):
    with pytest.raises(ValueError, match=f"turn 7: .*{says}"):
        RecordedCall(7, (1,), (2, 3), logprobs, forced)


def test_a_prompt_without_ids_is_refused():
    with pytest.raises(ValueError, match="turn 3: the prompt has no ids"):
        call(3, "", "one.")


def test_a_negative_turn_is_refused():
    with pytest.raises(ValueError, match="turn -1: turns are numbered from 0"):
        call(-1, "ask:", "one.")


@pytest.mark.parametrize("second", [1, 0])
def test_turns_out_of_order_are_refused(second):
    with pytest.raises(ValueError, match=f"turn {second} comes after turn 1"):
        linearise([call(1, "ask:", "one."), call(second, "ask:one.more:", "two.")])


def test_a_negative_limit_is_refused():
    with pytest.raises(ValueError, match="drift_limit is -1"):
        linearise([], drift_limit=-1)


@st.composite
def trajectories(draw: st.DrawFn) -> list[RecordedCall]:
    """Each prompt keeps some of what is held, all of it or less, and adds some. Three ids, so that what is added may
    well repeat what was taken back."""
    ids = st.lists(st.integers(0, 2), max_size=4).map(tuple)
    records: list[RecordedCall] = []
    held: tuple[int, ...] = ()
    for turn in range(draw(st.integers(0, 6))):
        kept = draw(st.just(len(held)) | st.integers(max(0, len(held) - 3), len(held)) | st.integers(0, len(held)))
        prompt = held[:kept] + draw(ids) or (0,)
        output = draw(ids)
        forced = tuple(draw(st.lists(st.booleans(), min_size=len(output), max_size=len(output))))
        logprobs = tuple(-(1.0 + turn + place / 100) for place in range(len(output)))
        records.append(RecordedCall(turn, prompt, output, logprobs, forced))
        held = prompt + output
    return records


@settings(max_examples=120, deadline=None)
@given(trajectories(), st.integers(0, 6))
def test_every_sampled_token_stands_once_in_its_own_context(records, drift_limit):
    result = linearise(records, drift_limit)
    check(records, result, drift_limit)
    assert linearise(iter(records), drift_limit) == result
    if records and all(record.output_ids for record in records):
        assert len(result.rows) >= fewest_rows(records)


@settings(max_examples=50, deadline=None)
@given(trajectories())
def test_without_a_drift_limit_nothing_goes_aside(records):
    result = linearise(records, drift_limit=0)
    assert result.joins[Join.REALIGN] == result.drifted == 0
    assert not any(row.aside for row in result.rows)


def test_a_hundred_thousand_tokens_in_fifty_turns_take_seconds_at_most():
    """Every tenth answer loses its end."""
    records, held = [], (1,)
    for turn in range(50):
        records.append(RecordedCall(turn, held, (2,) * 1_000, (-1.0,) * 1_000, (False,) * 1_000))
        held += (2,) * (997 if turn % 10 == 9 else 1_000) + (3,) * 1_000
    begun = time.process_time()
    result = linearise(records)
    assert time.process_time() - begun < 10
    assert joined(result) == {"append": 45, "realign": 4}
    assert [sum(row.mask) for row in result.rows] == [3, 3, 3, 3, 50_000 - 4 * 3]
    assert len(result.rows[-1].ids) == 1 + 50 * 1_000 + 49 * 1_000 - 4 * 3
