"""The messages, tool calls and sampled tokens that pass between an episode and a model, also in OpenAI's format."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import compress, count
from operator import ne
from typing import Any, Literal, NamedTuple, Protocol

from sciagent.domain.policy_identity import PolicyIdentity

# tags around the thinking in a text
OPEN = "<think>"
CLOSE = "</think>"
Role = Literal["system", "user", "assistant", "tool"]
LogprobMode = Literal["raw", "masked", "processed", "unknown"]
"""The distribution of log-probabilities. raw: the model's own. masked: the model's own, restricted to the tokens that a
grammar allowed. processed: after temperature and grammar. unknown: the server does not say."""


@dataclass(frozen=True)
class ToolCall:
    """A tool call as the model sent it."""

    id: str
    """Id from the provider, or made by sciagent."""
    name: str
    arguments: str
    """The arguments as the model wrote them; JSON if the call is well-formed."""


@dataclass(frozen=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: str
    thinking: str = ""
    """The thinking that an assistant wrote before its answer."""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    """Id of the call that a tool message answers."""
    name: str = ""
    """Name of the tool whose call a tool message answers."""
    thought_in: str = ""
    """The provider's field that held the thinking; empty if the thinking was part of the text."""

    def without_thinking(self) -> Message:
        """Returns the message as it would be if the model had not thought."""
        return replace(self, thinking="", thought_in="")


@dataclass(frozen=True)
class Sampling:
    """Settings for sampling an answer. Temperature 1 samples the policy itself, as training requires."""

    temperature: float = 1.0
    max_tokens: int = 256
    seed: int | None = None
    schema: Mapping[str, Any] | None = None
    """JSON schema of the whole answer. Tokens are marked as forced where it allows only one."""
    call: bool = False
    """Whether the answer must call a tool."""
    strict: bool = True
    """Whether a server restricts calls to the schemas of their tools."""


class EpisodeQuestion(NamedTuple):
    """The question for the next message of one episode."""

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]]
    """Schemas in OpenAI's format."""
    sampling: Sampling
    """With a seed, the answer does not depend on the other questions of the batch."""
    held: Sequence[int] = ()
    """Token ids of the episode's last prompt and answer, which its next prompt may extend."""


@dataclass(frozen=True)
class Tokens:
    """The token ids of a prompt and its answer, with log-probabilities."""

    prompt_ids: tuple[int, ...]
    """(p,) ids of the whole prompt."""
    output_ids: tuple[int, ...]
    """(n,) ids of the answer."""
    logprobs: tuple[float, ...]
    """(n,) natural logarithms of the probabilities, in the distribution `mode`."""
    forced: tuple[bool, ...]
    """(n,) whether the grammar allowed only this token; such tokens are never trained."""
    mode: LogprobMode
    template_hash: str
    """Hash of the chat template that made the prompt; `server` if only the server knows it."""
    behaviour: tuple[float, ...] | None = None
    """(n,) natural logarithms of the probabilities in the distribution that the tokens were drawn from: after grammar
    and temperature. None if unknown."""
    untrainable: str = ""
    """Why no policy gradient may use the tokens; empty if one may. A policy gradient needs `behaviour`. If a grammar
    restricted the answer, it also needs the tokens that were allowed at each place, which are recomputed from the
    schema."""
    template_checked: bool | None = None
    """Whether the prompt is what the model's own template makes of the conversation; None if that was not compared."""


NO_TOKENS = "the server returned no tokens"
NO_CHANCE = "drawn without chance, at temperature 0"
"""Reasons of `Sampled.untrainable`."""


def shared_prefix(held: Sequence[int], prompt_ids: Sequence[int]) -> int:
    """Returns the length of the prefix that both sequences share. held: ids of the last prompt and its answer.

    The next prompt of a conversation usually repeats these ids, so only the ids after them are computed and stored.
    """
    # yields the places where the ids differ; no Python loop, since prompts are long
    differing_places = compress(count(), map(ne, held, prompt_ids))
    return next(differing_places, min(len(held), len(prompt_ids)))


@dataclass(frozen=True)
class Sampled:
    """One answer of a model."""

    message: Message
    finish: str
    """`stop`, `length` or `calls`."""
    tokens: Tokens | None
    """None if the provider returns no tokens."""
    policy: str
    """Name and version of the model that answered."""
    prompt_tokens: int
    output_tokens: int
    seconds: float
    """Elapsed time, in seconds."""
    core_seconds: float = 0.0
    cached_tokens: int | None = None
    """Number of prompt tokens that the server had in its cache; None if it does not say."""
    reasoning_tokens: int | None = None
    """Number of output tokens that were thinking; None if the server does not say."""
    grammar: bool = False
    """Whether a schema restricted the answer or its calls."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Words with which the server refused options of the request, by option; these options were left out."""

    @property
    def cut_at(self) -> int | None:
        """Number of tokens at which the answer was cut off; None if it was not, or if the number is unknown."""
        if self.finish != "length":
            return None
        return self.output_tokens or None

    @property
    def untrainable(self) -> str | None:
        """Why no policy gradient may use the answer; None if one may."""
        if self.tokens is None:
            return NO_TOKENS
        return self.tokens.untrainable or None


def to_json(message: Message) -> Mapping[str, Any]:
    """Returns the message as JSON, without empty fields."""
    return {name: value for name, value in asdict(message).items() if value or name == "content"}


def from_json(fields: Mapping[str, Any]) -> Message:
    """Returns the message that `to_json` wrote."""
    calls = tuple(ToolCall(**call) for call in fields.get("calls", ()))
    return Message(**{**fields, "calls": calls})


class PolicyError(Exception):
    """The model could not answer. retry: whether another attempt may help. is_limit: whether the server limits its
    requests for a time. after: seconds that the server asks to wait; None if it does not say."""

    def __init__(self, message: str, retry: bool = False, is_limit: bool = False, after: float | None = None) -> None:
        super().__init__(message)
        self.retry = retry
        self.is_limit = is_limit
        self.after = after


class PolicyClient(Protocol):
    """A local or remote model. `name` is the model's name in the ledger."""

    name: str

    def sample(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Sampled:
        """Returns the next message. tools: schemas in OpenAI's format. Thread-safe. Raises PolicyError."""

    def identity(self, served: str) -> PolicyIdentity:
        """Returns what is known of the model that answered. served: its name in the answer, `Sampled.policy`."""

    def close(self) -> None: ...


def split_thinking(text: str) -> tuple[str, str]:
    """Splits a text into (answer, thinking). Some templates open the thinking in the prompt, so that the text holds
    only the closing tag. Thinking that is not closed has no answer after it."""
    before, opened, rest = text.partition(OPEN)
    if not opened:
        thought, closed, answer = text.rpartition(CLOSE)
        return (answer.strip(), thought.strip()) if closed else (text.strip(), "")
    thought, closed, after = rest.rpartition(CLOSE)
    if not closed:
        return before.strip(), rest.strip()
    return (before + after).strip(), thought.replace(OPEN, "").replace(CLOSE, "").strip()


# the beginnings of chat-template marks, which separate messages, such as <|im_start|>, </s> and <start_of_turn>; U+FF5C
# is the wide bar of some models
_MARK = re.compile(r"<(?=[|\uff5c]|/?s>|(?:start|end|begin)_of_\w+>)")


def to_openai(message: Message) -> Mapping[str, Any]:
    """Returns the message in OpenAI's format. A space splits each chat-template mark in its texts, as in
    `chat_templates.rendered`, so that no text can end its message and begin another."""
    content = _MARK.sub("< ", message.content)
    thinking = _MARK.sub("< ", message.thinking)
    sent: dict[str, Any] = {"role": message.role, "content": content}
    if message.thought_in:
        sent[message.thought_in] = thinking
    elif message.thinking:
        sent["content"] = f"{OPEN}{thinking}{CLOSE}{content}"
    if message.calls:
        sent["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _sent_arguments(call)}}
            for call in message.calls
        ]
    if message.role == "tool":
        sent["tool_call_id"] = message.call_id
    return sent


def _sent_arguments(call: ToolCall) -> str:
    """Returns the arguments of an earlier call as they are sent: `{}` for those that are no JSON object, which servers
    refuse. The reply to the call states the fault."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return "{}"
    return call.arguments if isinstance(arguments, dict) else "{}"
