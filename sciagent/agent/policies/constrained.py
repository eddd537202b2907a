"""The tokens that a JSON schema allows at each place of an answer, as bits: one for each token of the vocabulary."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from sciagent.agent.messages import PolicyError

# one layout per value: a model cannot fill its limit with spaces, and more tokens are forced
LAYOUT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
WORD = 32  # tokens in a number of a row


class ConstrainedAnswer:
    """The grammar state of a partly written answer."""

    def __init__(self, tokens: Any, schema: Mapping[str, Any]) -> None:
        """tokens: the tokenizer in llguidance's format. Raises PolicyError if the schema cannot be enforced."""
        self.matcher = _begun(tokens, json.dumps(schema)).deep_copy()
        self.vocabulary = tokens.vocab_size
        if self.matcher.is_error():
            raise PolicyError(f"the schema cannot be enforced: {self.matcher.get_error()}")

    def take(self, token: int) -> None:
        if not self.matcher.consume_token(token):
            raise PolicyError(f"token {token} is not what the schema allows: {self.matcher.get_error()}")


def allow_next(answers: Mapping[int, ConstrainedAnswer], bits: Any) -> Mapping[int, PolicyError]:
    """Writes which tokens may come next; only end tokens may after a complete answer. Returns errors by row.

    answers: by their row. bits: (n, words) as `all_allowed` makes them; a row with an error keeps all tokens.
    """
    from llguidance.numpy import fill_next_token_bitmask_par

    fill_next_token_bitmask_par(_threads(os.getpid()), [(each.matcher, row) for row, each in answers.items()], bits)
    errors = {}
    for row, answer in answers.items():
        if answer.matcher.is_error():
            bits[row] = -1
            errors[row] = PolicyError(f"the schema cannot be followed further: {answer.matcher.get_error()}")
    return errors


@cache
def _threads(process: int) -> Any:
    """Returns the threads of a process: those of its parent do not run in a fork, where they would be waited for."""
    from llguidance import LLExecutor

    return LLExecutor()


@lru_cache(maxsize=16)
def _begun(tokens: Any, schema: str) -> Any:
    """Returns the matcher of an answer that has not begun. It is copied, since it takes long to make."""
    from llguidance import LLMatcher

    return LLMatcher(tokens, LLMatcher.grammar_from_json_schema(schema, defaults=LAYOUT), log_level=0)


def all_allowed(n: int, vocabulary: int) -> Any:
    """Returns (n, words) int32, in NumPy, in which every token may come next."""
    import numpy as np

    return np.full((n, -(-vocabulary // WORD)), -1, dtype=np.int32)


def packed(masks: Any) -> Any:
    """Returns (n, words) int32 from (n, v) booleans, both in NumPy."""
    import numpy as np

    bits = np.zeros((len(masks), -(-masks.shape[1] // WORD) * WORD), dtype=bool)
    bits[:, : masks.shape[1]] = masks
    return np.packbits(bits, axis=1, bitorder="little").view(np.int32)


def unpacked(bits: Any, vocabulary: int) -> Any:
    """Returns (n, v) booleans, on the device of the bits. bits: (n, words) int32, in PyTorch."""
    import torch

    each = 2 ** torch.arange(8, dtype=torch.uint8, device=bits.device)
    return (bits.view(torch.uint8)[:, :, None] & each).ne(0).flatten(1)[:, :vocabulary]


def allowed_sets(answer: ConstrainedAnswer, ids: Sequence[int]) -> Any:
    """Returns (n, words) int32, in NumPy: the tokens that the schema allowed at each place of an answer.

    answer: new. ids: (n,) of the whole answer. Raises ValueError if the schema does not allow one of them.
    """
    bits = all_allowed(len(ids), answer.vocabulary)
    for place, token in enumerate(ids):
        for error in allow_next({place: answer}, bits).values():
            raise error
        if not bits[place, token // WORD] >> token % WORD & 1:
            raise ValueError(f"its schema does not allow output id {place}, {token}")
        if place < len(ids) - 1:
            answer.take(token)
    return bits
