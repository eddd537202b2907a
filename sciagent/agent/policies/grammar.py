"""Finds the tokens that may come next if the whole answer must match a JSON schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sciagent.agent.messages import PolicyError

# one layout per value: a model cannot fill its limit with spaces, and more tokens are forced
LAYOUT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def grammar_tokens(tokenizer: Any, vocabulary: int, ends: list[int]) -> Any:
    """Returns the tokenizer in llguidance's format. vocabulary: number of logits, which may exceed the number of
    tokens. ends: ids of the tokens that end an answer."""
    from llguidance.hf import from_tokenizer

    return from_tokenizer(tokenizer, n_vocab=vocabulary, eos_token=ends)


class ConstrainedAnswer:
    """The grammar state of a partly written answer."""

    def __init__(self, tokens: Any, schema: Mapping[str, Any]) -> None:
        """tokens: from `grammar_tokens`. Raises PolicyError if the schema cannot be enforced."""
        from llguidance import LLMatcher
        from llguidance.numpy import allocate_token_bitmask

        grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema), defaults=LAYOUT)
        self.matcher, self.vocabulary = LLMatcher(tokens, grammar, log_level=0), tokens.vocab_size
        if self.matcher.is_error():
            raise PolicyError(f"the schema cannot be enforced: {self.matcher.get_error()}")
        self._bits = allocate_token_bitmask(1, self.vocabulary)

    def allowed(self) -> Any:
        """Returns (v,) booleans: the tokens that may come next; only end tokens after a complete answer."""
        import numpy as np
        from llguidance.numpy import fill_next_token_bitmask

        fill_next_token_bitmask(self.matcher, self._bits)
        if self.matcher.is_error():
            raise PolicyError(f"the schema cannot be followed further: {self.matcher.get_error()}")
        return np.unpackbits(self._bits.view(np.uint8), bitorder="little")[: self.vocabulary].astype(bool)

    def take(self, token: int) -> None:
        if not self.matcher.consume_token(token):
            raise PolicyError(f"token {token} is not what the schema allows: {self.matcher.get_error()}")
