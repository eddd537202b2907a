"""Training rows: token ids, which of them are trained, and what each is worth. The learner reads nothing else.

`TrainingRow` is a row, with its answers and turns. `Conversations` makes the token ids of recorded conversations, for
models that shall learn to answer in the same way. `AnswerGrammars` makes the grammar of an answer again, and says which
tokens it allowed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sciagent.agent.messages_sampling_and_policy_client import Message, ToolCall
from sciagent.agent.policies import chat_templates
from sciagent.agent.policies.chat_templates import prompt_ids
from sciagent.agent.policies.schema_tokens import ConstrainedAnswer, allowed_sets


class AnswerSpan(NamedTuple):
    """An answer of the model in a row: the tokens from `begin` up to `end`."""

    begin: int
    end: int
    temperature: float = 1.0
    """The temperature at which the answer was drawn; above 0."""
    schema: str | None = None
    """JSON text of the schema that restricted the answer; None without one."""


class RowTurn(NamedTuple):
    """A turn in a row: the tokens from `begin` up to `end` are its answer."""

    number: int
    """Number of the turn in its episode, from 0."""
    begin: int
    end: int


class EpisodeTurns(NamedTuple):
    """The turns of a row's episode, from which a value head makes advantages."""

    episode: str
    """Name of the episode. Rows of the same episode have to be trained in one step."""
    rewards: tuple[float | None, ...]
    """(turns of the episode,) None for an undecided reward."""
    turns: tuple[RowTurn, ...]
    """The turns that the row has."""
    group: str | None = None
    """Name of the group of siblings that the episode belongs to; None without siblings."""


class TurnValue(NamedTuple):
    """The target of the value head for one turn."""

    begin: int
    """Place of the first token of the turn's answer. The value is that of the state before this token."""
    before: float
    """The value by the value head as it is at the start of a step."""
    target: float
    """The value that the head has to learn."""


@dataclass(frozen=True)
class TrainingRow:
    """A sequence of t token ids for a causal model. Raises ValueError for arrays that do not fit together."""

    ids: tuple[int, ...]
    """(t,) token ids."""
    mask: tuple[bool, ...]
    """(t,) whether the token is trained; False for context, for forced tokens, and for the first one."""
    advantages: tuple[float, ...]
    """(t,) how much better than expected the token's turn was; 1 for tokens to imitate; 0 where not trained."""
    behaviour: tuple[float, ...] | None = None
    """(t,) natural log-probabilities in the distribution that the tokens were drawn from; 0 where not trained. None for
    tokens that are imitated: then the loss has no ratio."""
    spans: tuple[AnswerSpan, ...] = ()
    """Answers that were drawn at another temperature than 1 or under a schema. Other answers may be left out."""
    weight: float = 1.0
    """Factor of the row's tokens in the mean over the step."""
    reward: float | None = None
    """Reward of the row's episode, for the metrics; None if unknown."""
    teacher_context: tuple[int, ...] | None = None
    """The tokens that a teacher sees before the first trained token; None: the same as the model."""
    episode: EpisodeTurns | None = None
    """The turns of the episode, for a value head; None where advantages are known."""
    values: tuple[TurnValue, ...] = ()
    """The targets of a value head during a step; empty without one."""
    regularised: bool = True
    """Whether the entropy bonus and the divergences from the reference and from teachers count for the row's tokens.
    They do not count for a row that trains a difference of advantages, since they counted in its first training."""

    def __post_init__(self) -> None:
        n = len(self.ids)
        lengths = {len(self.mask), len(self.advantages), n if self.behaviour is None else len(self.behaviour)}
        if lengths != {n}:
            raise ValueError(f"a row of {n} ids has mask, advantages or behaviour of another length")
        if not n or self.mask[0]:
            raise ValueError("the first token of a row cannot be trained, since nothing predicts it")
        trained_places = [place for place, is_trained in enumerate(self.mask) if is_trained]
        if not all(math.isfinite(self.advantages[place]) for place in trained_places):
            raise ValueError("a trained token has no finite advantage")
        if self.behaviour is not None and not all(math.isfinite(self.behaviour[place]) for place in trained_places):
            raise ValueError("a trained token has no finite log-probability of its behaviour")
        if not all(0 < span.begin <= span.end <= n and span.temperature > 0 for span in self.spans):
            raise ValueError("an answer lies outside its row, or was drawn without chance")

    @property
    def trained(self) -> int:
        """Number of trained tokens."""
        return sum(self.mask)


class Conversations:
    """Renders conversations by the chat template of one model."""

    def __init__(self, tokenizer: Any, ends: Iterable[int]) -> None:
        """tokenizer: of transformers, with a chat template. ends: ids of the tokens that end an answer."""
        self._tokenizer = tokenizer
        self._ends = frozenset(ends)

    def row(self, cells: Mapping[str, Any]) -> TrainingRow:
        """Returns the row of a prompt and its answer: all tokens of the answer are imitated, its end token too.

        cells: `prompt` and `completion`, messages in OpenAI's format, and `tools` as JSON. Raises ValueError if the
        chat template renders the answer differently before and after other messages.
        """
        prompt = _messages(cells["prompt"])
        answer = _messages(cells["completion"])
        tools = json.loads(cells["tools"])
        before = prompt_ids(self._tokenizer, prompt, tools)
        after = self.answer_ids(prompt, answer, tools)
        mask = (*[False] * len(before), *[True] * len(after))
        return TrainingRow(ids=(*before, *after), mask=mask, advantages=tuple(float(is_trained) for is_trained in mask))

    def hinted_ids(self, cells: Mapping[str, Any]) -> list[int]:
        """Returns the ids of a prompt that ends with a hint, up to the beginning of the answer.

        The hint is added to the last message if that is a user's; otherwise it is a message of its own.
        cells: `prompt`, `tools` and `hint`.
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
        return self._text(messages, json.loads(cells["tools"]), begins=False)

    def answer_ids(
        self, prompt: Sequence[Message], answer: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> list[int]:
        """Returns the ids of an answer, up to its end token.

        The answer is tokenised apart from the prompt, as a model samples it.
        """
        prompt_text = self._text(prompt, tools, begins=True)
        whole_text = self._text([*prompt, *answer], tools, begins=False)
        if not whole_text.startswith(prompt_text):
            raise ValueError("the model's chat template does not continue the prompt where an answer follows")
        answer_text = whole_text.removeprefix(prompt_text)
        ids = list(self._tokenizer(answer_text, add_special_tokens=False)["input_ids"])
        end_places = [place for place, token in enumerate(ids) if token in self._ends]
        if not end_places:
            raise ValueError("the model's chat template ends an answer without an end token")
        return ids[: end_places[-1] + 1]

    def _text(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], begins: bool) -> str:
        """Returns the rendered conversation. begins: whether it ends with the beginning of an answer."""
        special_tokens = [str(token) for token in self._tokenizer.added_tokens_decoder.values() if token.special]
        rendered = self._tokenizer.apply_chat_template(
            chat_templates.rendered(messages, special_tokens),
            tools=list(tools) or None,
            add_generation_prompt=begins,
            tokenize=False,
        )
        return str(rendered)


def _messages(cells: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Returns messages from OpenAI's format, as the columns of data sets hold them."""
    messages = []
    for cell in cells:
        calls = []
        for call in cell["tool_calls"] or ():
            calls.append(ToolCall(call["id"] or "", call["function"]["name"], call["function"]["arguments"]))
        message = Message(
            role=cell["role"],
            content=cell["content"] or "",
            thinking=cell["reasoning_content"] or "",
            calls=tuple(calls),
            call_id=cell["tool_call_id"] or "",
            name=cell["name"] or "",
        )
        messages.append(message)
    return messages


class AnswerGrammars:
    """Says which tokens the grammars of a model's answers allowed."""

    def __init__(self, tokenizer: Any, vocabulary: int, ends: Sequence[int]) -> None:
        """tokenizer: of transformers. vocabulary: number of logits of the model. ends: ids of end tokens."""
        from llguidance.hf import from_tokenizer

        self._tokens = from_tokenizer(tokenizer, n_vocab=vocabulary, eos_token=sorted(ends))

    def allowed(self, span: AnswerSpan, ids: Sequence[int]) -> Any:
        """Returns the bits of `allowed_sets` for the n ids of an answer. Raises ValueError if its schema does not allow
        one."""
        return allowed_sets(ConstrainedAnswer(self._tokens, json.loads(span.schema or "{}")), ids)
