"""Renders prompts by a model's chat template, and reads the texts of Hermes models, with calls in <tool_call>."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sciagent.agent.messages_sampling_and_policy_client import CLOSE, OPEN, Message, ToolCall, split_thinking
from sciagent.agent.serving.load_adapters_and_served_model_cards import ServedCard
from sciagent.agent.serving.vllm_server import template_of

_CALL = re.compile(r"\s*<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_CALL_NAME = re.compile(r'"name"\s*:\s*"([^"\\]*)"')


def rendered(messages: Sequence[Message], marks: Iterable[str]) -> Sequence[Mapping[str, Any]]:
    """Returns the messages in the format that a chat template takes.

    marks: the tokenizer's special tokens. Each special token within a text is split by a space, so that the text of a
    tool or a user cannot end its message and begin another message.
    """
    split_marks = {mark: f"{mark[0]} {mark[1:]}" for mark in marks if len(mark) > 1}

    def plain(text: str) -> str:
        for mark, harmless in split_marks.items():
            text = text.replace(mark, harmless)
        return text

    entries = []
    for message in messages:
        entry: dict[str, Any] = {"role": message.role, "content": plain(message.content)}
        if message.thinking:
            entry["reasoning_content"] = plain(message.thinking)
        if message.calls:
            entry["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": plain(call.name), "arguments": _arguments(plain(call.arguments))},
                }
                for call in message.calls
            ]
        if message.role == "tool":
            entry["name"] = plain(message.name)
            entry["tool_call_id"] = message.call_id
        entries.append(entry)
    return entries


def parsed(text: str, first_call: int) -> Message:
    """Returns the message in a model's text: thinking, content and calls.

    A call that is not valid JSON keeps its text as arguments; its name is searched in the text and may be empty.
    first_call: number in the id of the first call.
    """
    answer, thinking = _split(text)
    calls = tuple(
        _call(call_text, f"call_{number}") for number, call_text in enumerate(_CALL.findall(answer), start=first_call)
    )
    return Message("assistant", _CALL.sub("", answer), thinking=thinking, calls=calls)


def _split(text: str) -> tuple[str, str]:
    """Returns (answer, thinking). Simple texts keep every character, so that the rendered message equals the model's
    text."""
    if OPEN not in text and CLOSE not in text:
        return text, ""
    if text.startswith(OPEN) and text.count(OPEN) == text.count(CLOSE) == 1:
        thinking, _, answer = text.removeprefix(OPEN).partition(CLOSE)
        return answer, thinking
    return split_thinking(text)


def _call(text: str, call_id: str) -> ToolCall:
    """Returns the call in the text of one <tool_call>; see `parsed`."""
    try:
        call = json.loads(text)
    except ValueError:
        call = None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        match = _CALL_NAME.search(text)
        name = match[1] if match else ""
        return ToolCall(call_id, name, text.strip())
    arguments = call.get("arguments", {})
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(call_id, call["name"], arguments)


def _arguments(text: str) -> Any:
    """Returns the JSON object in the text; the text itself if it is no JSON object. Chat templates write an object as
    JSON, but put a text in quotes."""
    try:
        arguments = json.loads(text)
    except ValueError:
        return text
    return arguments if isinstance(arguments, dict) else text


_log = logging.getLogger("sciagent")


def prompt_ids(tokenizer: Any, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[int]:
    """Returns the token ids of a conversation, up to the beginning of the answer. tokenizer: as in transformers."""
    return [int(token) for token in _rendered(tokenizer, messages, tools, tokenize=True)]


def extended_ids(
    tokenizer: Any, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], held: Sequence[int]
) -> list[int]:
    """Returns the token ids of a conversation. They begin with `held`, the ids of the last prompt and answer.

    The reason is that tokenising the text anew may split the model's answer into other tokens than the model sampled.
    The whole text is tokenised anew only if it no longer begins with the text of `held`, or if no special token stands
    where that text ends.
    """
    if not held:
        return prompt_ids(tokenizer, messages, tools)
    text = _rendered(tokenizer, messages, tools, tokenize=False)
    before = tokenizer.decode(held, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    later = text[len(before) :]
    ends_at_special_token = held[-1] in tokenizer.all_special_ids
    if later.startswith(tuple(tokenizer.all_special_tokens)):
        ends_at_special_token = True
    if not text.startswith(before) or not ends_at_special_token:
        return prompt_ids(tokenizer, messages, tools)
    return [*held, *tokenizer.encode(later, add_special_tokens=False)]


def _rendered(
    tokenizer: Any, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, tokenize: bool
) -> Any:
    marks = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
    return tokenizer.apply_chat_template(
        rendered(messages, marks),
        tools=list(tools) or None,
        add_generation_prompt=True,
        tokenize=tokenize,
        return_dict=False,
    )


def is_rendering(
    ids: Sequence[int], messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], card: ServedCard | None
) -> bool | None:
    """Returns whether a server's prompt equals the prompt that the model's template makes of a conversation; None if
    they cannot be compared here, as without the tokenizer or transformers. ids: the server's prompt. card: what is
    known of the served model.
    """
    if card is None or card.tokenizer is None:
        return None
    try:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(card.tokenizer, local_files_only=True)
        template_file = template_of(Path(card.tokenizer))
        if template_file is not None:
            tokenizer.chat_template = template_file.read_text(encoding="utf-8")
        return prompt_ids(tokenizer, messages, tools) == list(ids)
    except Exception as error:  # noqa: BLE001 - a prompt that cannot be compared does not make the answer worse
        _log.info("the prompt of %s cannot be compared: %s", card.name, error)
        return None
