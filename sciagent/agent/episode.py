"""The state of one conversation with a model: its messages so far, and the limits that end it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sciagent.agent.messages import Message, Sampled

Thinking = Literal["preserve", "strip"]
"""Whether the thinking in earlier answers is shown again or left out."""
_SYSTEM = """You search for {many} that meet a goal. You work by calling tools, one or a few at a time, and see what \
each call brought. Cheap checks answer at once; dearer ones answer later, in a later turn or episode. New {many} \
that meet the goal count; one that is known already counts for nothing. Small steps from the best so far often help."""
SYSTEM = _SYSTEM.format(many="molecules")
STRUCTURED = """Answer with one JSON object and nothing else: {"name": TOOL, "arguments": {...}}."""
KEPT_TURNS = 4  # number of latest turns that stay in the prompt when the conversation has grown too long


@dataclass(frozen=True)
class EpisodeLimits:
    """The limits of an episode."""

    turns: int = 8
    """Largest number of answers."""
    tokens: int = 4096
    """Largest number of sampled tokens."""
    context: int = 8192
    """Largest number of tokens of a prompt and its answer together."""
    seconds: float = 3600.0
    """Longest elapsed time of the model, in seconds."""
    thinking: Thinking = "preserve"


@dataclass
class Episode:
    """The state of one episode."""

    number: int
    """Number of the trajectory that stores the episode."""
    seed: int
    opening: tuple[Message, ...]
    """System and user message at the beginning of every prompt."""
    limits: EpisodeLimits
    numbered: list[str] = field(default_factory=list)
    """The notations of the candidates that the conversation has shown with a number, the first with #1."""
    turns: list[tuple[Message, ...]] = field(default_factory=list)
    """The answers so far, each with the messages that followed it."""
    first: int = 0
    """Number of the first turn that is still in the prompt."""
    tokens: int = 0
    seconds: float = 0.0
    last_length: int = 0
    """Number of tokens of the last prompt and its answer."""
    held: tuple[int, ...] = ()
    """Token ids of the last prompt and answer. For the next prompt, only the additional ids are stored."""
    added: tuple[str, ...] = ()
    """Those that got a number in the last turn."""

    @property
    def messages(self) -> list[Message]:
        """The messages of the next prompt."""
        later = [message for turn in self.turns[self.first :] for message in turn]
        if self.limits.thinking == "strip":
            later = [replace(message, thinking="", thought_in="") for message in later]
        if self.first:
            later.insert(0, Message("user", f"(Turns 1 to {self.first} are left out: the conversation grew too long.)"))
        return [*self.opening, *later]

    def observe(self, sampled: Sampled, observed: Sequence[Message], numbered: Sequence[str] = ()) -> None:
        """Adds an answer and its observations. Drops the oldest turns at three quarters of the context.

        numbered: the molecules to which the observations give the next numbers.
        """
        self.turns.append((sampled.message, *observed))
        self.numbered += numbered
        self.added = tuple(numbered)
        self.tokens += sampled.output_tokens
        self.seconds += sampled.seconds
        self.last_length = sampled.prompt_tokens + sampled.output_tokens
        self.held = (*sampled.tokens.prompt_ids, *sampled.tokens.output_ids) if sampled.tokens else ()
        if self.last_length > 0.75 * self.limits.context:
            self.first = max(self.first, len(self.turns) - KEPT_TURNS)

    @property
    def cursor(self) -> Mapping[str, Any]:
        """State stored with a turn; a resumed episode continues from it."""
        state = {"first": self.first, "tokens": self.tokens, "seconds": self.seconds, "length": self.last_length}
        return {**state, "numbered": list(self.added)}

    def restore(self, turn: tuple[Message, ...], cursor: Mapping[str, Any]) -> None:
        """Adds the next turn of the ledger."""
        self.turns.append(turn)
        self.added = tuple(cursor.get("numbered", ()))
        self.numbered += self.added
        self.first, self.tokens = int(cursor.get("first", 0)), int(cursor.get("tokens", 0))
        self.seconds, self.last_length = float(cursor.get("seconds", 0.0)), int(cursor.get("length", 0))

    @property
    def ended(self) -> str | None:
        """Returns the limit that ended the episode; None if no limit is reached."""
        if len(self.turns) >= self.limits.turns:
            return f"{self.limits.turns} turns"
        if self.tokens >= self.limits.tokens:
            return f"{self.limits.tokens} tokens"
        if self.seconds >= self.limits.seconds:
            return f"{self.limits.seconds:g} seconds of the model"
        return None


def opening(
    goal: str,
    learned: str,
    left: str,
    tools: Sequence[tuple[str, str]],
    structured: bool,
    skills: Sequence[str] = (),
    many: str = "molecules",
) -> tuple[Message, ...]:
    """Returns the system and the user message. many: the word for candidates. tools: (name, first sentence), listed if
    answers are structured. skills:
    texts at the end of the user message."""
    system = _SYSTEM.format(many=many)
    if structured:
        listed = "\n".join(f"- {name}: {what}" for name, what in tools)
        system = f"{system}\n{STRUCTURED}\nTools:\n{listed}"
    parts = [goal, f"Left to spend: {left}.", learned or "Nothing was tried yet.", *skills]
    return Message("system", system), Message("user", "\n\n".join(parts))
