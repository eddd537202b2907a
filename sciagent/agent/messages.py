"""What passes between an episode and a model: messages, tool calls, and what was sampled, token by token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Role = Literal["system", "user", "assistant", "tool"]
LogprobMode = Literal["raw", "masked", "processed", "unknown"]
"""Of which distribution log-probabilities are. raw: the model's own; masked: the model's own among the tokens that a
grammar allowed; processed: after temperature, top-p, top-k and grammar; unknown: the server has not said."""


@dataclass(frozen=True)
class ToolCall:
    """As the model sent it. arguments: its text, JSON if all is well. id: the provider's, or ours."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Message:
    """One message of a conversation. thinking: what an assistant wrote before its answer. thought_in: the field of the
    provider that it came in, empty where it stood in the text. call_id, name: of the call that a tool's message
    answers."""

    role: Role
    content: str
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    name: str = ""
    thought_in: str = ""


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn. top_k: 0 for all. schema: a JSON schema that the whole answer must meet, or None; tokens
    that it left no choice for are marked as forced. call: the answer must call a tool. Temperature 1, top_p 1 and
    top_k 0 record the policy itself, which is what can be trained."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 256
    seed: int | None = None
    schema: Mapping[str, Any] | None = None
    call: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the tokens are drawn from the model's own distribution."""
        return self.temperature == 1 and self.top_p == 1 and self.top_k == 0


@dataclass(frozen=True)
class Tokens:
    """What was sampled, as the model saw it. prompt_ids: (p,) the whole prompt; output_ids, logprobs, forced: (n,).
    logprobs: natural, of the distribution that `mode` names. forced: the grammar left no choice, so it is never
    trained. template_hash: of the chat template that made the prompt."""

    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    forced: tuple[bool, ...]
    mode: LogprobMode
    template_hash: str


@dataclass(frozen=True)
class Sampled:
    """One answer of a model. message: parsed. finish: `stop`, `length` or `calls`. tokens: None where the provider
    returns none; then the turn cannot be trained by policy gradient. policy: name and version of what answered.
    seconds: by the clock. grammar: a schema held the answer, or calls in it."""

    message: Message
    finish: str
    tokens: Tokens | None
    policy: str
    prompt_tokens: int
    output_tokens: int
    seconds: float
    core_seconds: float = 0.0
    grammar: bool = False
    raw: Mapping[str, Any] = field(default_factory=dict)


def to_json(message: Message) -> dict[str, Any]:
    """What is empty is left out."""
    found: dict[str, Any] = {"role": message.role, "content": message.content}
    found |= {
        name: value for name in ("thinking", "thought_in", "call_id", "name") if (value := getattr(message, name))
    }
    return found | ({"calls": [vars(call) for call in message.calls]} if message.calls else {})


def from_json(found: Mapping[str, Any]) -> Message:
    """What `to_json` made."""
    calls = tuple(ToolCall(**call) for call in found.get("calls", ()))
    return Message(**{**found, "calls": calls})


class PolicyError(Exception):
    """The model could not answer. retry: whether asking again may help."""

    def __init__(self, message: str, retry: bool = False) -> None:
        super().__init__(message)
        self.retry = retry


class PolicyClient(Protocol):
    """A model, wherever it runs. `name` is what the ledger calls it."""

    name: str

    def sample(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Sampled:
        """The next message of the assistant. tools: JSON schemas as in `ToolSpec.schema`. May be called from several
        threads at once. Raises PolicyError."""

    def close(self) -> None: ...
