"""The tokens that may come next if the whole answer is to match a JSON schema."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from typing import Any

from sciagent.agent.messages import PolicyError

# each value is written in a single way: a model cannot fill its limit with blanks, and more tokens are forced
LAYOUT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def schema_fault(schema: Mapping[str, Any]) -> str:
    """Why a schema cannot be enforced, or nothing; without llguidance, a server enforces it."""
    if importlib.util.find_spec("llguidance") is None:
        return ""
    from llguidance import LLMatcher

    return str(LLMatcher.validate_grammar(LLMatcher.grammar_from_json_schema(json.dumps(schema), defaults=LAYOUT)))


def grammar_tokens(tokenizer: Any, vocabulary: int, ends: list[int]) -> Any:
    """The tokenizer as grammars take it. vocabulary: the number of logits, which may exceed the number of tokens. ends:
    the ids of tokens that end an answer."""
    from llguidance.hf import from_tokenizer

    return from_tokenizer(tokenizer, n_vocab=vocabulary, eos_token=ends)


class ConstrainedAnswer:
    """The state of an answer that is being written."""

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
        """(v,) booleans: the tokens that may come next; after a complete answer only its end."""
        import numpy as np
        from llguidance.numpy import fill_next_token_bitmask

        fill_next_token_bitmask(self.matcher, self._bits)
        if self.matcher.is_error():
            raise PolicyError(f"the schema cannot be followed further: {self.matcher.get_error()}")
        return np.unpackbits(self._bits.view(np.uint8), bitorder="little")[: self.vocabulary].astype(bool)

    def take(self, token: int) -> None:
        if not self.matcher.consume_token(token):
            raise PolicyError(f"token {token} is not what the schema allows: {self.matcher.get_error()}")
