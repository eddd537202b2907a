"""Token ids of recorded conversations, for models that shall learn to answer in the same way."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sciagent.agent.messages import Message, ToolCall
from sciagent.agent.policies import templates
from sciagent.agent.policies.rendering import prompt_ids
from sciagent.training.learner.rows import TrainingRow


class Conversations:
    """Renders conversations by the chat template of one model."""

    def __init__(self, tokenizer: Any, ends: Iterable[int]) -> None:
        """tokenizer: of transformers, with a chat template. ends: ids of the tokens that end an answer."""
        self._tokenizer, self._ends = tokenizer, frozenset(ends)

    def row(self, cells: Mapping[str, Any]) -> TrainingRow:
        """Returns the row of a prompt and its answer: all tokens of the answer are imitated, its end token too.

        cells: `prompt` and `completion`, messages in OpenAI's format, and `tools` as JSON. Raises ValueError if the
        chat template renders the answer differently before and after other messages.
        """
        prompt, answer = _messages(cells["prompt"]), _messages(cells["completion"])
        tools = json.loads(cells["tools"])
        before = prompt_ids(self._tokenizer, prompt, tools)
        after = self.answer_ids(prompt, answer, tools)
        mask = (*[False] * len(before), *[True] * len(after))
        return TrainingRow((*before, *after), mask, tuple(map(float, mask)))

    def hinted_ids(self, cells: Mapping[str, Any]) -> list[int]:
        """Returns the ids of a prompt that ends with a hint, up to the beginning of the answer.

        The hint is the last part of the last message of a user, or a message of its own after other messages. cells:
        `prompt`, `tools` and `hint`.
        """
        prompt = _messages(cells["prompt"])
        if prompt and prompt[-1].role == "user":
            last = prompt.pop()
            prompt.append(replace(last, content=f"{last.content}\n\n{cells['hint']}"))
        else:
            prompt.append(Message("user", cells["hint"]))
        return prompt_ids(self._tokenizer, prompt, json.loads(cells["tools"]))

    def text(self, cells: Mapping[str, Any]) -> str:
        """Returns the rendered text of a prompt and its answer. cells: as `row` takes them."""
        messages = [*_messages(cells["prompt"]), *_messages(cells["completion"])]
        return self._text(messages, json.loads(cells["tools"]), False)

    def answer_ids(
        self, prompt: Sequence[Message], answer: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> list[int]:
        """Returns the ids of an answer, up to its end token.

        The answer is tokenised apart from the prompt, as a model samples it.
        """
        head, whole = self._text(prompt, tools, True), self._text([*prompt, *answer], tools, False)
        if not whole.startswith(head):
            raise ValueError("the model's chat template does not continue the prompt where an answer follows")
        ids = list(self._tokenizer(whole[len(head) :], add_special_tokens=False)["input_ids"])
        last = max((place for place, token in enumerate(ids) if token in self._ends), default=None)
        if last is None:
            raise ValueError("the model's chat template ends an answer without an end token")
        return ids[: last + 1]

    def _text(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], begins: bool) -> str:
        """Returns the rendered conversation. begins: whether it ends with the beginning of an answer."""
        marks = [str(token) for token in self._tokenizer.added_tokens_decoder.values() if token.special]
        rendered = self._tokenizer.apply_chat_template(
            templates.rendered(messages, marks), tools=list(tools) or None, add_generation_prompt=begins, tokenize=False
        )
        return str(rendered)


def _messages(cells: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Returns messages from OpenAI's format, as the columns of data sets hold them."""
    return [
        Message(
            cell["role"],
            cell["content"] or "",
            cell["reasoning_content"] or "",
            tuple(
                ToolCall(call["id"] or "", call["function"]["name"], call["function"]["arguments"])
                for call in cell["tool_calls"] or ()
            ),
            call_id=cell["tool_call_id"] or "",
            name=cell["name"] or "",
        )
        for cell in cells
    ]
