"""Makes the token ids of a prompt by a model's chat template."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sciagent.agent.messages import Message
from sciagent.agent.policies import templates
from sciagent.agent.serving.served_cards import ServedCard
from sciagent.agent.serving.templates import template_of

_log = logging.getLogger("sciagent")


def prompt_ids(tokenizer: Any, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[int]:
    """Returns the token ids of a conversation, up to the beginning of the answer. tokenizer: of transformers."""
    return [int(token) for token in _rendered(tokenizer, messages, tools, tokenize=True)]


def extended_ids(
    tokenizer: Any, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], held: Sequence[int]
) -> list[int]:
    """Returns the token ids of a conversation, which begin with those of the last prompt and answer, `held`.

    A prompt that is tokenised anew may spell the model's answer in other tokens than the model drew. All is
    tokenised if the conversation no longer begins with the text of `held`, or if that does not end at a special token.
    """
    if not held:
        return prompt_ids(tokenizer, messages, tools)
    text = _rendered(tokenizer, messages, tools, tokenize=False)
    before = tokenizer.decode(held, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    later = text[len(before) :]
    at_end = held[-1] in tokenizer.all_special_ids or later.startswith(tuple(tokenizer.all_special_tokens))
    if not text.startswith(before) or not at_end:
        return prompt_ids(tokenizer, messages, tools)
    return [*held, *tokenizer.encode(later, add_special_tokens=False)]


def _rendered(
    tokenizer: Any, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, tokenize: bool
) -> Any:
    marks = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
    return tokenizer.apply_chat_template(
        templates.rendered(messages, marks),
        tools=list(tools) or None,
        add_generation_prompt=True,
        tokenize=tokenize,
        return_dict=False,
    )


def is_rendering(
    ids: Sequence[int], messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], card: ServedCard | None
) -> bool | None:
    """Returns whether a server's prompt is what the model's template makes of a conversation; None if the tokenizer or
    transformers is not on this machine. card: of the model."""
    if card is None or card.tokenizer is None:
        return None
    try:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(card.tokenizer, local_files_only=True)
        if (ours := template_of(Path(card.tokenizer))) is not None:
            tokenizer.chat_template = ours.read_text(encoding="utf-8")
        return prompt_ids(tokenizer, messages, tools) == list(ids)
    except Exception as error:  # noqa: BLE001 - what cannot be compared is unknown; the answer is as good as before
        _log.info("the prompt of %s cannot be compared: %s", card.name, error)
        return None
