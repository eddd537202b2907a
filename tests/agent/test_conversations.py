"""Conversations through chat templates: what is sampled is trained where it was sampled, however it is rendered next.

Two harnesses are played. One renders the whole conversation anew before every call, as a chat interface does; answers
drift there. The other keeps the ids and adds only what is new; nothing drifts there.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sciagent.agent.turns_to_token_rows import Join, RecordedCall, linearise
from tests.agent import chat
from tests.agent.chat import Said, Template, decode, encode, spelled
from tests.agent.checks import check, fewest_rows

START = [Said("system", "be the best."), Said("user", "the bath is in")]
WORDS = st.lists(st.sampled_from(["the", " the", "bath", "ing", ".", " ", "\n", "  "]), max_size=6).map("".join)
CALLS = st.none() | st.tuples(st.just("run"), st.dictionaries(st.sampled_from("ab"), WORDS, max_size=2))


@st.composite
def plays(draw: st.DrawFn) -> list[tuple[Said, list[Said], bool, int]]:
    """Turns: what the model says, what it is answered, whether its JSON is tight, where it is cut off (0: never)."""
    turns = []
    for _ in range(draw(st.integers(1, 4))):
        said = Said("assistant", draw(WORDS), draw(WORDS), draw(CALLS))
        replies = [Said(draw(st.sampled_from(["user", "tool"])), draw(WORDS)) for _ in range(draw(st.integers(1, 2)))]
        turns.append((said, replies, draw(st.booleans()), draw(st.just(0) | st.integers(1, 8))))
    return turns


def record(turn: int, prompt: tuple[int, ...], output: tuple[int, ...], rng: random.Random) -> RecordedCall:
    logprobs = tuple(-(1.0 + turn + place / 1000) for place in range(len(output)))
    return RecordedCall(turn, prompt, output, logprobs, tuple(rng.random() < 0.2 for _ in output))


def rendered_anew(template: Template, turns, cuts: float, seed: int) -> list[RecordedCall]:
    """cuts: how far the model's spelling is from the tokeniser's, 0 for not at all."""
    rng, messages, records = random.Random(seed), list(START), []
    for turn, (said, replies, tight, limit) in enumerate(turns):
        output = spelled(template.answer(said, tight), cuts, rng)
        if limit:
            output = output[:limit]
            said = replace(said, content=decode(output).removesuffix(template.end), thinking="", call=None)
        records.append(record(turn, encode(template.prompt(messages)), output, rng))
        messages += [said, *replies]
    return records


def kept_as_ids(template: Template, turns, cuts: float, seed: int) -> list[RecordedCall]:
    rng, held, records = random.Random(seed), encode(template.prompt(START)), []
    for turn, (said, replies, tight, limit) in enumerate(turns):
        output = spelled(template.answer(said, tight), cuts, rng)[: limit or None]
        records.append(record(turn, held, output, rng))
        held += output + encode(template.prompt(replies).removeprefix("<|begin_of_text|>"))
    return records


@pytest.mark.parametrize("template", chat.TEMPLATES, ids=lambda template: template.name)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(turns=plays(), cuts=st.sampled_from([0.0, 0.1, 0.5]), seed=st.integers(0, 99), drift_limit=st.integers(0, 40))
def test_what_is_sampled_is_trained_once_where_it_was_sampled(template, turns, cuts, seed, drift_limit):
    records = rendered_anew(template, turns, cuts, seed)
    result = linearise(records, drift_limit)
    check(records, result, drift_limit)
    assert len(result.rows) == fewest_rows(records)


@pytest.mark.parametrize("template", chat.TEMPLATES, ids=lambda template: template.name)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(turns=plays(), cuts=st.sampled_from([0.0, 0.5]), seed=st.integers(0, 99))
def test_where_only_new_ids_are_added_there_is_one_row(template, turns, cuts, seed):
    records = kept_as_ids(template, turns, cuts, seed)
    result = linearise(records)
    check(records, result, drift_limit=32)
    assert len(result.rows) == 1
    assert result.joins[Join.APPEND] == len(turns) - 1


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(turns=plays(), seed=st.integers(0, 99))
def test_a_template_that_strips_thinking_forks_at_every_turn(turns, seed):
    records = rendered_anew(chat.STRIPPING, [(*turn[:3], 0) for turn in turns], 0.0, seed)
    result = linearise(records, drift_limit=4)  # even an empty thought takes more
    check(records, result, drift_limit=4)
    assert result.joins == {Join.APPEND: 0, Join.REALIGN: 0, Join.FORK: len(turns) - 1}


@pytest.mark.parametrize("template", [chat.CHATML, chat.LLAMA3, chat.HERMES], ids=lambda template: template.name)
def test_the_toy_drifts_where_the_spelling_is_the_models_own_and_only_there(template):
    said = Said("assistant", "the bath is in the thing.", "the thing", ("run", {"a": "bath"}))
    turns = [(said, [Said("tool", "bathing")], False, 0)] * 3
    assert linearise(rendered_anew(template, turns, 0.0, seed=0)).joins[Join.APPEND] == 2
    drifted = [linearise(rendered_anew(template, turns, 0.1, seed), drift_limit=12).joins for seed in range(30)]
    assert all(any(joins[join] for joins in drifted) for join in Join)


def two_turns(template: Template, said: Said, *spelling: str) -> list[RecordedCall]:
    """The model spells its answer as these pieces of text, each tokenised by itself."""
    rng, reply = random.Random(0), Said("user", "go on")
    output = tuple(number for piece in spelling for number in encode(piece))
    second = encode(template.prompt([*START, said, reply]))
    return [
        record(0, encode(template.prompt(START)), output, rng),
        record(1, second, encode("the end" + template.end), rng),
    ]


def test_chatml_read_back_as_the_tokeniser_spells_it_appends():
    said = Said("assistant", "the bath", thinking="ing")
    records = two_turns(chat.CHATML, said, "<think>\ning\n</think>\n\nthe bath<|im_end|>")
    assert linearise(records).joins[Join.APPEND] == 1


def test_a_word_that_merges_anew_is_realigned():
    """`ba` and `th` become `bath`. The model wrote four tokens from there on: they go aside, unchanged."""
    records = two_turns(chat.LLAMA3, Said("assistant", "the bath."), "the ", "ba", "th", ".<|eot_id|>")
    aside, row = linearise(records).rows
    assert decode(aside.ids) == decode(records[0].prompt_ids) + "the bath.<|eot_id|>"
    assert [decode((n,)) for n, s in zip(aside.ids, aside.sampled, strict=True) if s] == ["ba", "th", ".", "<|eot_id|>"]
    assert [decode((n,)) for n, turn in zip(row.ids, row.turns, strict=True) if turn == 0] == ["the", " "]


def test_space_that_llama_trims_is_realigned():
    records = two_turns(chat.LLAMA3, Said("assistant", "the bath \n"), "the bath \n<|eot_id|>")
    result = linearise(records)
    assert result.joins[Join.REALIGN] == 1
    assert result.drifted == 3


def test_an_answer_cut_at_its_limit_appends():
    """The template ends what the model did not; that end was never sampled."""
    result = linearise(two_turns(chat.LLAMA3, Said("assistant", "the bath"), "the bath"))
    assert result.joins[Join.APPEND] == 1
    assert sum(turn == 0 for turn in result.rows[0].turns) == len(encode("the bath"))


def test_a_call_that_hermes_writes_with_spaces_is_realigned_from_the_first_one_on():
    said = Said("assistant", "", call=("run", {"a": "in"}))
    records = two_turns(chat.HERMES, said, '<tool_call>\n{"name":"run","arguments":{"a":"in"}}\n</tool_call><|im_end|>')
    aside, row = linearise(records, drift_limit=40).rows
    kept = decode(tuple(n for n, turn in zip(row.ids, row.turns, strict=True) if turn == 0))
    assert kept == '<tool_call>\n{"name":'
    assert aside.aside
