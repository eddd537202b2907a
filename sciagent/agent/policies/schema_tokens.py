"""The tokens that a JSON schema allows at each place of an answer, as bits: one for each token of the vocabulary."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from sciagent.agent.messages_sampling_and_policy_client import PolicyError

# Each value can be written in one way only, so that no tokens are wasted on spaces.
LAYOUT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
TOKENS_PER_WORD = 32  # one bit for each token in an int32
ALL_ALLOWED = -1  # an int32 with all bits set


class ConstrainedAnswer:
    """The grammar state of a partly written answer."""

    def __init__(self, tokens: Any, schema: Mapping[str, Any]) -> None:
        """tokens: the tokenizer in llguidance's format. Raises PolicyError if the schema cannot be enforced."""
        self.matcher = _fresh_matcher(tokens, json.dumps(schema)).deep_copy()
        self.vocabulary = tokens.vocab_size
        if self.matcher.is_error():
            raise PolicyError(f"the schema cannot be enforced: {self.matcher.get_error()}")

    def take(self, token: int) -> None:
        """Adds the next token of the answer. Raises PolicyError if the schema does not allow it."""
        if not self.matcher.consume_token(token):
            raise PolicyError(f"token {token} is not what the schema allows: {self.matcher.get_error()}")


def allow_next(answers: Mapping[int, ConstrainedAnswer], bits: Any) -> Mapping[int, PolicyError]:
    """Writes into `bits` which tokens may come next; after a complete answer, only end tokens. Returns errors by row.

    answers: by row of `bits`. bits: (n, words) int32 as `all_allowed` makes them. A row with an error
    allows all tokens.
    """
    from llguidance.numpy import fill_next_token_bitmask_par

    matchers_and_rows = [(answer.matcher, row) for row, answer in answers.items()]
    fill_next_token_bitmask_par(_threads(os.getpid()), matchers_and_rows, bits)
    errors = {}
    for row, answer in answers.items():
        if answer.matcher.is_error():
            bits[row] = ALL_ALLOWED
            errors[row] = PolicyError(f"the schema cannot be followed further: {answer.matcher.get_error()}")
    return errors


@cache
def _threads(process: int) -> Any:
    """Returns the thread pool of a process. process: the key under which it is kept, since after a fork the pool of the
    parent would wait for ever."""
    from llguidance import LLExecutor

    return LLExecutor()


@lru_cache(maxsize=16)
def _fresh_matcher(tokens: Any, schema: str) -> Any:
    """Returns the matcher of an answer that has not begun. It is copied, since it takes long to make."""
    from llguidance import LLMatcher

    return LLMatcher(tokens, LLMatcher.grammar_from_json_schema(schema, defaults=LAYOUT), log_level=0)


def all_allowed(n: int, vocabulary: int) -> Any:
    """Returns (n, words) int32, in NumPy, in which every token may come next."""
    import numpy as np

    words = math.ceil(vocabulary / TOKENS_PER_WORD)
    return np.full((n, words), ALL_ALLOWED, dtype=np.int32)


def packed(masks: Any) -> Any:
    """Returns (n, words) int32 from (n, vocabulary) booleans, both in NumPy."""
    import numpy as np

    n, vocabulary = masks.shape
    words = math.ceil(vocabulary / TOKENS_PER_WORD)
    bits = np.zeros((n, words * TOKENS_PER_WORD), dtype=bool)
    bits[:, :vocabulary] = masks
    return np.packbits(bits, axis=1, bitorder="little").view(np.int32)


def unpacked(bits: Any, vocabulary: int) -> Any:
    """Returns (n, vocabulary) booleans, on the device of the bits. bits: (n, words) int32, in PyTorch."""
    import torch

    bit_values = 2 ** torch.arange(8, dtype=torch.uint8, device=bits.device)
    as_bytes = bits.view(torch.uint8)
    is_set = (as_bytes[:, :, None] & bit_values).ne(0)
    return is_set.flatten(1)[:, :vocabulary]


def allowed_sets(answer: ConstrainedAnswer, ids: Sequence[int]) -> Any:
    """Returns (n, words) int32, in NumPy: the tokens that the schema allowed at each place of an answer.

    answer: an answer without tokens so far. ids: (n,) tokens of the whole answer. Raises ValueError if the schema does
    not allow a token, and PolicyError if the grammar fails.
    """
    bits = all_allowed(len(ids), answer.vocabulary)
    for place, token in enumerate(ids):
        errors = allow_next({place: answer}, bits)
        if place in errors:
            raise errors[place]
        word, bit = divmod(token, TOKENS_PER_WORD)
        is_allowed = (bits[place, word] >> bit) & 1
        if not is_allowed:
            raise ValueError(f"its schema does not allow output id {place}, {token}")
        if place < len(ids) - 1:  # no place follows the last token
            answer.take(token)
    return bits
