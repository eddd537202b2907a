"""Answers that are drawn together are those that would be drawn one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sciagent.agent.messages_sampling_and_policy_client import EpisodeQuestion, Message, PolicyError, Sampled, Sampling
from sciagent.agent.policies import batch_decoding
from sciagent.agent.policies.batch_decoding import BatchLimits, WantedAnswer, batches
from sciagent.agent.policies.local_model import LocalPolicy
from sciagent.agent.turns_to_token_rows import RecordedCall, behaviour_of
from tests.agent.policies.local_policy import TALK, TOOL, Proposal, policy

__all__ = ["policy"]
SCHEMA = Proposal.model_json_schema()
TOLERANCE = 1e-4  # of log-probabilities: the sums of a batch are taken in another order
LIMITS = BatchLimits()


def question(seed: int, **more: Any) -> EpisodeQuestion:
    """A question whose prompt, length and grammar depend on the seed."""
    talk = (*TALK[:1], Message("user", TALK[1].content + " And the next one." * (seed % 4)))
    settings: dict[str, Any] = {"max_tokens": 10 + 5 * (seed % 3), "seed": seed}
    if seed % 2:
        settings |= {"schema": SCHEMA, "max_tokens": 60}
    if seed % 5 == 4:
        settings |= {"temperature": 0.7}
    return EpisodeQuestion(talk, [TOOL], Sampling(**settings | more))


def sampled(found: list[Sampled | PolicyError]) -> list[Sampled]:
    assert all(isinstance(each, Sampled) for each in found), found
    return [each for each in found if isinstance(each, Sampled)]


def test_a_batch_draws_what_each_question_draws_alone_with_and_without_grammar(policy: LocalPolicy) -> None:
    questions = [question(seed) for seed in range(12)]
    together = sampled(policy.sample_many(questions))
    for asked, answer in zip(questions, together, strict=True):
        alone = policy.sample(*asked[:3])
        assert answer.tokens and alone.tokens
        assert answer.message == alone.message and answer.finish == alone.finish
        assert answer.tokens.prompt_ids == alone.tokens.prompt_ids
        assert answer.tokens.output_ids == alone.tokens.output_ids and answer.tokens.forced == alone.tokens.forced
        assert answer.tokens.logprobs == pytest.approx(alone.tokens.logprobs, abs=TOLERANCE)
        assert answer.tokens.behaviour == pytest.approx(alone.tokens.behaviour, abs=TOLERANCE)
    lengths = {len(answer.tokens.output_ids) for answer in together if answer.tokens}
    assert len(lengths) > 3, "answers of one length test little"
    backwards = sampled(policy.sample_many(questions[::-1]))[::-1]
    assert [each.message for each in backwards] == [each.message for each in together]


def test_tokens_at_fixed_places_in_memory_are_those_of_a_growing_cache(
    policy: LocalPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU computes here what a CUDA graph would: all rows until the last has ended, and the whole reserved room."""
    questions = [question(seed) for seed in range(12)]
    grown = sampled(policy.sample_many(questions))
    monkeypatch.setattr(batch_decoding, "can_graph", lambda cache, device: True)
    for each, fixed in zip(grown, sampled(policy.sample_many(questions)), strict=True):
        assert each.tokens and fixed.tokens and each.message == fixed.message
        assert each.tokens.output_ids == fixed.tokens.output_ids and each.tokens.forced == fixed.tokens.forced
        assert each.tokens.behaviour == pytest.approx(fixed.tokens.behaviour, abs=TOLERANCE)


def test_what_was_drawn_from_is_recomputed_from_what_a_batch_recorded(policy: LocalPolicy) -> None:
    for asked, answer in zip(
        [question(seed) for seed in (1, 4, 9)],
        sampled(policy.sample_many([question(seed) for seed in (1, 4, 9)])),
        strict=True,
    ):
        assert answer.tokens is not None
        tools = {"structured": asked.sampling.schema is not None, "answer_schema": asked.sampling.schema}
        settings = {"temperature": asked.sampling.temperature, "grammar": answer.grammar}
        recomputed = behaviour_of(policy, RecordedCall.of(0, answer.tokens), settings, tools)
        assert recomputed == pytest.approx(answer.tokens.behaviour, abs=TOLERANCE)


def test_a_question_that_cannot_be_answered_leaves_the_others_alone(policy: LocalPolicy) -> None:
    good = [question(seed) for seed in (0, 1)]
    long = EpisodeQuestion([Message("user", "gap " * 3000)], [], Sampling())
    wrong = EpisodeQuestion(TALK, [], Sampling(schema={"type": "object", "not": {}, "unevaluatedProperties": {"a": 1}}))
    first, *faults, second = policy.sample_many([good[0], long, wrong, good[1]])
    assert "2048" in str(faults[0]) and "cannot be enforced" in str(faults[1])
    assert [each.message for each in sampled([first, second])] == [
        each.message for each in sampled(policy.sample_many(good))
    ]


def test_the_next_prompt_begins_with_the_tokens_that_were_drawn(policy: LocalPolicy) -> None:
    asked = question(1)
    [first] = sampled(policy.sample_many([asked]))
    assert first.tokens is not None and first.finish == "stop"
    held = (*first.tokens.prompt_ids, *first.tokens.output_ids)
    talk = (*asked.messages, first.message, Message("user", "Another one."))
    [plain, longer] = sampled(
        policy.sample_many([EpisodeQuestion(talk, [TOOL], asked.sampling, each) for each in ((), held)])
    )
    assert plain.tokens and longer.tokens
    assert longer.tokens.prompt_ids[: len(held)] == held
    decode = policy.tokenizer.decode
    assert decode(longer.tokens.prompt_ids) == decode(plain.tokens.prompt_ids), "the model reads the same text"
    spelt = [token for text in ("{", '"smiles": "', "c") for token in policy.tokenizer.encode(text)]
    assert spelt != policy.tokenizer.encode('{"smiles": "c'), "the same text, in other tokens"
    odd = (*first.tokens.prompt_ids, *spelt, policy.tokenizer.eos_token_id)
    answer = replace(first.message, content='{"smiles": "c')
    said = EpisodeQuestion((*asked.messages, answer, Message("user", "?")), [TOOL], asked.sampling, odd)
    [extended] = sampled(policy.sample_many([said]))
    assert extended.tokens and extended.tokens.prompt_ids[: len(odd)] == odd
    forgotten = EpisodeQuestion(talk[1:], [TOOL], asked.sampling, held)  # the conversation begins differently now
    [anew] = sampled(policy.sample_many([forgotten]))
    assert anew.tokens and list(anew.tokens.prompt_ids) == policy.prompt_ids(talk[1:], [TOOL])


def test_a_batch_keeps_within_its_rows_and_its_memory() -> None:
    def wanted(n: int) -> WantedAnswer:
        return WantedAnswer([0] * n, 10, Sampling(), None)

    parts = batches([wanted(5)] * (2 * LIMITS.rows + 1), LIMITS)
    assert [len(part) for part in parts] == [LIMITS.rows, LIMITS.rows, 1]
    long = LIMITS.tokens // 2
    parts = batches([wanted(5), wanted(long), wanted(5), wanted(2 * LIMITS.tokens), wanted(5)], LIMITS)
    assert [[len(each.prompt) for each in part] for part in parts] == [[5], [long], [5], [2 * LIMITS.tokens], [5]]


def test_a_part_holds_answers_whose_prompts_begin_alike() -> None:
    def wanted(opening: int, own: int) -> WantedAnswer:
        return WantedAnswer([opening] * 6 + [own] * 4, 10, Sampling(), None)

    parts = batches([wanted(1, 7), wanted(1, 8), wanted(2, 7), wanted(2, 8), wanted(1, 7)], LIMITS)
    assert [[each.prompt[0] for each in part] for part in parts] == [[1, 1], [2, 2], [1]]
    [all_together] = batches([wanted(1, 7), wanted(2, 7), wanted(1, 8)], LIMITS._replace(shared=0.0))
    assert len(all_together) == 3, "on a GPU"


def test_closing_ends_a_batch(tiny: str) -> None:
    policy = LocalPolicy(tiny, device="cpu")
    policy.close()
    with pytest.raises(PolicyError, match="closed"):
        policy.sample_many([question(0)])


def test_a_batch_begins_where_the_last_one_began_alike(tiny: str) -> None:
    """The cache of one batch changes nothing in the next, whether it begins alike, differently or with less."""
    kept = LocalPolicy(tiny, device="cpu")
    orders = [[0, 1, 2, 3], [4, 5], [1], [7, 6, 5]]
    other = EpisodeQuestion([Message("user", "Which gap?")], [], Sampling(max_tokens=9, seed=3))
    for seeds in orders:
        questions = [question(seed) for seed in seeds]
        for asked in (questions, [other], questions):
            fresh = LocalPolicy(tiny, device="cpu")
            pairs = zip(sampled(kept.sample_many(asked)), sampled(fresh.sample_many(asked)), strict=True)
            assert all(one.message == two.message for one, two in pairs)
            fresh.close()
    kept.close()
