"""One conversation with a model: what was asked, sampled and observed so far, and when it is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sciagent.agent.messages import Message, Sampled

KEPT_TURNS = 4  # of the latest, when a conversation has grown too long and begins a new branch


@dataclass(frozen=True)
class Limits:
    """turns: of one episode; tokens: sampled in it; context: that a prompt and its answer may take together; seconds:
    by the clock, of the model's own time."""

    turns: int = 8
    tokens: int = 4096
    context: int = 8192
    seconds: float = 3600.0


@dataclass
class Episode:
    """number: of its trajectory. opening: system and user messages that every prompt begins with. turns: answers so
    far, each with the messages that followed it. held: tokens of the last prompt and answer, for the next to be stored
    as what was added."""

    number: int
    seed: int
    opening: tuple[Message, ...]
    limits: Limits
    turns: list[tuple[Message, ...]] = field(default_factory=list)
    first: int = 0  # turn that the present branch begins with
    tokens: int = 0
    seconds: float = 0.0
    last_length: int = 0  # tokens of the last prompt and its answer
    held: tuple[int, ...] = ()

    @property
    def messages(self) -> list[Message]:
        """What the model is to answer next."""
        later = [message for turn in self.turns[self.first :] for message in turn]
        if self.first:
            later.insert(0, Message("user", f"(Turns 1 to {self.first} are left out: the conversation grew too long.)"))
        return [*self.opening, *later]

    def observe(self, sampled: Sampled, observed: Sequence[Message]) -> None:
        """Take in an answer and what came of it; where the next prompt would not fit, the next branch begins."""
        self.turns.append((sampled.message, *observed))
        self.tokens += sampled.output_tokens
        self.seconds += sampled.seconds
        self.last_length = sampled.prompt_tokens + sampled.output_tokens
        self.held = (*sampled.tokens.prompt_ids, *sampled.tokens.output_ids) if sampled.tokens else ()
        self.compact()

    def compact(self) -> None:
        """Leave out what is oldest once three quarters of the context are used."""
        if self.last_length > 0.75 * self.limits.context:
            self.first = max(self.first, len(self.turns) - KEPT_TURNS)

    @property
    def cursor(self) -> dict[str, float]:
        """What a turn leaves behind for who resumes, beside its messages."""
        return {"first": self.first, "tokens": self.tokens, "seconds": self.seconds, "length": self.last_length}

    def restore(self, turn: tuple[Message, ...], cursor: Mapping[str, float]) -> None:
        """A turn of the ledger, in order."""
        self.turns.append(turn)
        self.first, self.tokens = int(cursor.get("first", 0)), int(cursor.get("tokens", 0))
        self.seconds, self.last_length = float(cursor.get("seconds", 0.0)), int(cursor.get("length", 0))

    @property
    def ended(self) -> str | None:
        """Why it is over, by its limits; None while it goes on."""
        if len(self.turns) >= self.limits.turns:
            return f"{self.limits.turns} turns"
        if self.tokens >= self.limits.tokens:
            return f"{self.limits.tokens} tokens"
        if self.seconds >= self.limits.seconds:
            return f"{self.limits.seconds:g} seconds of the model"
        return None
