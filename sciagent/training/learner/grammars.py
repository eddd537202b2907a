"""The tokens that the JSON schema of an answer allowed: the grammar is made again and followed along the answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sciagent.agent.policies.constrained import ConstrainedAnswer, allowed_sets
from sciagent.training.learner.rows import AnswerSpan


class AnswerGrammars:
    """Follows the grammars of answers of one model."""

    def __init__(self, tokenizer: Any, vocabulary: int, ends: Sequence[int]) -> None:
        """tokenizer: of transformers. vocabulary: number of logits of the model. ends: ids of end tokens."""
        from llguidance.hf import from_tokenizer

        self._tokens = from_tokenizer(tokenizer, n_vocab=vocabulary, eos_token=sorted(ends))

    def allowed(self, span: AnswerSpan, ids: Sequence[int]) -> Any:
        """Returns the bits of `allowed_sets` for the n ids of an answer. Raises ValueError if its schema does not allow
        one."""
        return allowed_sets(ConstrainedAnswer(self._tokens, json.loads(span.schema or "{}")), ids)
