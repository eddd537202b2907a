"""Tokens are drawn as the model's own distribution says, also with keys and values kept from before."""

from __future__ import annotations

from typing import Any

import pytest

from sciagent.agent.messages_sampling_and_policy_client import Message, Sampling
from sciagent.agent.policies.local_model import LocalPolicy
from tests.agent.policies.local_policy import TALK, TOOL, Proposal, policy

__all__ = ["policy"]


def plain_logprobs(policy: LocalPolicy, prompt: tuple[int, ...], output: tuple[int, ...]) -> list[float]:
    """Of the whole sequence at once, without a cache."""
    import torch

    with torch.inference_mode():
        logits = policy.model(input_ids=torch.tensor([prompt + output]), use_cache=False).logits[0]
    table = torch.log_softmax(logits.double(), dim=-1)
    return [float(table[len(prompt) + i - 1, token]) for i, token in enumerate(output)]


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(max_tokens=40, seed=1),
        Sampling(max_tokens=40, seed=2, temperature=0.5),
        Sampling(max_tokens=60, seed=3, schema=Proposal.model_json_schema()),
    ],
)
def test_the_logprobs_are_those_of_a_plain_forward_pass_before_temperature_and_grammar(
    policy: LocalPolicy, sampling: Sampling
) -> None:
    tokens = policy.sample(TALK, [TOOL], sampling).tokens
    assert tokens and tokens.mode == "raw"
    assert len(tokens.output_ids) == len(tokens.logprobs) == len(tokens.forced) > 10
    assert tokens.logprobs == pytest.approx(plain_logprobs(policy, tokens.prompt_ids, tokens.output_ids), abs=1e-4)


def test_the_next_turn_computes_only_what_is_new_and_says_the_same(tiny: str, policy: LocalPolicy) -> None:
    first = policy.sample(TALK, [TOOL], Sampling(max_tokens=20, seed=4))
    assert first.tokens and policy.decoder
    longer = (*TALK, first.message, Message("user", "Another one."))
    again = policy.sample(longer, [TOOL], Sampling(max_tokens=20, seed=5))
    assert policy.decoder.reused >= len(first.tokens.prompt_ids)
    fresh = LocalPolicy(tiny, device="cpu").sample(longer, [TOOL], Sampling(max_tokens=20, seed=5))
    assert again.tokens and fresh.tokens
    assert again.tokens.output_ids == fresh.tokens.output_ids
    assert again.tokens.logprobs == pytest.approx(fresh.tokens.logprobs, abs=1e-4)
    other = policy.sample(TALK[1:], [], Sampling(max_tokens=20, seed=6)).tokens  # a prompt that shares little
    assert other and policy.decoder.reused < 5
    assert other.logprobs == pytest.approx(plain_logprobs(policy, other.prompt_ids, other.output_ids), abs=1e-4)


def test_a_long_prompt_goes_in_by_parts(policy: LocalPolicy) -> None:
    tokens = policy.sample([Message("user", "gap " * 700)], [], Sampling(max_tokens=8, seed=1)).tokens
    assert tokens and len(tokens.prompt_ids) > 600
    assert tokens.logprobs == pytest.approx(plain_logprobs(policy, tokens.prompt_ids, tokens.output_ids), abs=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_a_token_is_forced_where_no_other_one_would_do(policy: LocalPolicy, seed: int) -> None:
    language = [b'"gap"', b'"gape"', b'"homo"']
    schema = {"enum": ["gap", "gape", "homo"]}
    tokens = policy.sample(TALK, [], Sampling(max_tokens=30, seed=seed, schema=schema)).tokens
    assert tokens
    texts = {
        i: policy.tokenizer.decode([i]).encode()
        for i in range(len(policy.tokenizer))
        if i not in policy.tokenizer.all_special_ids
    }
    written, expected = b"", []
    for token in tokens.output_ids:
        choices = [i for i, text in texts.items() if any(word.startswith(written + text) for word in language)]
        choices += [policy.tokenizer.eos_token_id] * (written in language)
        assert token in choices
        expected.append(len(choices) == 1)
        written += texts.get(token, b"")
    assert list(tokens.forced) == expected and written in language


def test_without_a_schema_nothing_is_forced(policy: LocalPolicy) -> None:
    tokens = policy.sample(TALK, [], Sampling(max_tokens=10, seed=1)).tokens
    assert tokens and not any(tokens.forced)


def test_greedy_is_the_most_likely_and_the_same_every_time(policy: LocalPolicy) -> None:
    import torch

    one, two = (policy.sample(TALK, [], Sampling(temperature=0, max_tokens=12, seed=seed)).tokens for seed in (1, 2))
    assert one and two and one.output_ids == two.output_ids
    with torch.inference_mode():
        logits = policy.model(input_ids=torch.tensor([one.prompt_ids + one.output_ids])).logits[0]
    best = logits.argmax(-1).tolist()[len(one.prompt_ids) - 1 : -1]
    assert list(one.output_ids) == best


def test_a_seed_says_what_is_drawn(policy: LocalPolicy) -> None:
    def drawn(seed: int | None) -> tuple[int, ...]:
        tokens = policy.sample(TALK, [], Sampling(max_tokens=12, seed=seed)).tokens
        assert tokens
        return tokens.output_ids

    assert drawn(3) == drawn(3) != drawn(4)
    assert drawn(None) != drawn(None)


class Failing:
    """A model that fails after it has written to the cache."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def __call__(self, **given: Any) -> Any:
        self.model(**given)
        raise MemoryError


def test_after_a_failure_the_next_answer_is_right(tiny: str) -> None:
    policy = LocalPolicy(tiny, device="cpu")
    assert policy.decoder
    expected = policy.sample(TALK, [], Sampling(max_tokens=8, seed=1)).tokens
    policy.decoder.model = Failing(policy.model)
    with pytest.raises(MemoryError):
        policy.sample((*TALK, Message("user", "More.")), [], Sampling(max_tokens=8, seed=1))
    policy.decoder.model = policy.model
    assert policy.sample(TALK, [], Sampling(max_tokens=8, seed=1)).tokens == expected
