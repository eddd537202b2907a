"""One conversation with a model: what was asked, sampled and observed so far, and when it is over.

What it thought before earlier answers is shown to it again (`preserve`), left out (`strip`), or replaced by its own
summary of it, which it is asked for in a question of its own (`summarise`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sciagent.agent.messages import Message, Sampled

Thinking = Literal["preserve", "strip", "summarise"]
LONG_THOUGHT = 600  # characters; what is shorter is no longer than its summary would be
MAX_SUMMARY = 1000
SUMMARISE = Message(
    "user",
    "Call nothing now. In at most three sentences, for yourself to read later: what did you find out, decide and rule "
    "out just now, and why?",
)
KEPT_TURNS = 4  # of the latest, when a conversation has grown too long and begins a new branch


@dataclass(frozen=True)
class Limits:
    """turns: of one episode; tokens: sampled in it; context: that a prompt and its answer may take together; seconds:
    by the clock, of the model's own time."""

    turns: int = 8
    tokens: int = 4096
    context: int = 8192
    seconds: float = 3600.0
    thinking: Thinking = "preserve"


@dataclass
class Episode:
    """number: of its trajectory. opening: system and user messages that every prompt begins with. turns: answers so
    far, each with the messages that followed it. summaries: of what was thought, by turn. held: tokens of the last
    prompt and answer, for the next to be stored as what was added."""

    number: int
    seed: int
    opening: tuple[Message, ...]
    limits: Limits
    turns: list[tuple[Message, ...]] = field(default_factory=list)
    summaries: dict[int, str] = field(default_factory=dict)
    first: int = 0  # turn that the present branch begins with
    tokens: int = 0
    seconds: float = 0.0
    last_length: int = 0  # tokens of the last prompt and its answer
    held: tuple[int, ...] = ()

    @property
    def asked(self) -> int:
        """How often the model has answered: as often as there are turns in the ledger."""
        return len(self.turns) + len(self.summaries)

    @property
    def wants_summary(self) -> bool:
        """Whether the next question is for a summary of what was thought."""
        last = len(self.turns) - 1
        if self.limits.thinking != "summarise" or last < 0 or last in self.summaries:
            return False
        return len(self.turns[last][0].thinking) > LONG_THOUGHT

    @property
    def messages(self) -> list[Message]:
        """What the model is to answer next."""
        later = [
            self._shown(place, message)
            for place, turn in enumerate(self.turns[self.first :], self.first)
            for message in turn
        ]
        if self.first:
            later.insert(0, Message("user", f"(Turns 1 to {self.first} are left out: the conversation grew too long.)"))
        return [*self.opening, *later, *([SUMMARISE] if self.wants_summary else [])]

    def _shown(self, place: int, message: Message) -> Message:
        """A message of an earlier turn, with as much of what was thought as the model shall see again."""
        if not message.thinking or self.limits.thinking == "preserve":
            return message
        if self.limits.thinking == "strip":
            return replace(message, thinking="", thought_in="")
        return replace(message, thinking=self.summaries[place]) if self.summaries.get(place) else message

    def observe(self, sampled: Sampled, observed: Sequence[Message]) -> None:
        """Take in an answer and what came of it; where the next prompt would not fit, the next branch begins."""
        self.turns.append((sampled.message, *observed))
        self._count(sampled)
        self.compact()

    def summarise(self, sampled: Sampled) -> None:
        """Take in the summary that was asked for. Without one the whole thought stays."""
        said = (sampled.message.content or sampled.message.thinking).strip()
        self.summaries[len(self.turns) - 1] = said[:MAX_SUMMARY]
        self._count(sampled)

    def _count(self, sampled: Sampled) -> None:
        self.tokens += sampled.output_tokens
        self.seconds += sampled.seconds
        self.last_length = sampled.prompt_tokens + sampled.output_tokens
        self.held = (*sampled.tokens.prompt_ids, *sampled.tokens.output_ids) if sampled.tokens else ()

    def compact(self) -> None:
        """Leave out what is oldest once three quarters of the context are used."""
        if self.last_length > 0.75 * self.limits.context:
            self.first = max(self.first, len(self.turns) - KEPT_TURNS)

    @property
    def cursor(self) -> dict[str, float]:
        """What a turn leaves behind for who resumes, beside its messages."""
        return {"first": self.first, "tokens": self.tokens, "seconds": self.seconds, "length": self.last_length}

    def restore(self, turn: tuple[Message, ...], cursor: Mapping[str, float]) -> None:
        """A turn of the ledger, in order. One that says `summary` holds that of the turn before it."""
        if cursor.get("summary"):
            said = turn[0].content or turn[0].thinking
            self.summaries[len(self.turns) - 1] = said.strip()[:MAX_SUMMARY]
        else:
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
