"""The state of one conversation with a model: its messages so far, and the limits that end it.

Thinking in earlier answers is shown again (`preserve`), left out (`strip`), or replaced by a summary (`summarise`). The
model writes the summary in answer to a separate question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sciagent.agent.messages import Message, Sampled

Thinking = Literal["preserve", "strip", "summarise"]
LONG_THOUGHT = 600  # characters; a shorter thought is no longer than its summary would be
MAX_SUMMARY = 1000
SUMMARISE = Message(
    "user",
    "Call nothing now. In at most three sentences, for yourself to read later: what did you find out, decide and rule "
    "out just now, and why?",
)
SYSTEM = """You search for molecules that meet a goal. You work by calling tools, one or a few at a time, and see what \
each call brought. Cheap checks answer at once; dearer ones answer later, in a later turn or episode. New molecules \
that meet the goal count; one that is known already counts for nothing. Small steps from the best so far often help."""
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
    turns: list[tuple[Message, ...]] = field(default_factory=list)
    """The answers so far, each with the messages that followed it."""
    summaries: dict[int, str] = field(default_factory=dict)
    """Summaries of the model's thinking, by turn number."""
    first: int = 0
    """Number of the first turn that is still in the prompt."""
    tokens: int = 0
    seconds: float = 0.0
    last_length: int = 0
    """Number of tokens of the last prompt and its answer."""
    held: tuple[int, ...] = ()
    """Token ids of the last prompt and answer. For the next prompt, only the additional ids are stored."""

    @property
    def asked(self) -> int:
        """Number of answers, summaries included; equal to the number of turns in the ledger."""
        return len(self.turns) + len(self.summaries)

    @property
    def wants_summary(self) -> bool:
        """Whether the next question asks for a summary of the thinking."""
        last = len(self.turns) - 1
        if self.limits.thinking != "summarise" or last < 0 or last in self.summaries:
            return False
        return len(self.turns[last][0].thinking) > LONG_THOUGHT

    @property
    def messages(self) -> list[Message]:
        """The messages of the next prompt."""
        later = [
            self._shown(place, message)
            for place, turn in enumerate(self.turns[self.first :], self.first)
            for message in turn
        ]
        if self.first:
            later.insert(0, Message("user", f"(Turns 1 to {self.first} are left out: the conversation grew too long.)"))
        return [*self.opening, *later, *([SUMMARISE] if self.wants_summary else [])]

    def _shown(self, place: int, message: Message) -> Message:
        """Returns a message of an earlier turn, with its thinking kept, removed or summarised."""
        if not message.thinking or self.limits.thinking == "preserve":
            return message
        if self.limits.thinking == "strip":
            return replace(message, thinking="", thought_in="")
        return replace(message, thinking=self.summaries[place]) if self.summaries.get(place) else message

    def observe(self, sampled: Sampled, observed: Sequence[Message]) -> None:
        """Adds an answer and its observations. Drops the oldest turns at three quarters of the context."""
        self.turns.append((sampled.message, *observed))
        self._count(sampled)
        if self.last_length > 0.75 * self.limits.context:
            self.first = max(self.first, len(self.turns) - KEPT_TURNS)

    def summarise(self, sampled: Sampled) -> None:
        """Adds the requested summary. If it is empty, the whole thinking is kept."""
        summary = (sampled.message.content or sampled.message.thinking).strip()
        self.summaries[len(self.turns) - 1] = summary[:MAX_SUMMARY]
        self._count(sampled)

    def _count(self, sampled: Sampled) -> None:
        self.tokens += sampled.output_tokens
        self.seconds += sampled.seconds
        self.last_length = sampled.prompt_tokens + sampled.output_tokens
        self.held = (*sampled.tokens.prompt_ids, *sampled.tokens.output_ids) if sampled.tokens else ()

    @property
    def cursor(self) -> dict[str, float]:
        """State stored with a turn; a resumed episode continues from it."""
        return {"first": self.first, "tokens": self.tokens, "seconds": self.seconds, "length": self.last_length}

    def restore(self, turn: tuple[Message, ...], cursor: Mapping[str, float]) -> None:
        """Adds the next turn of the ledger. A cursor with `summary` marks a summary of the turn before."""
        if cursor.get("summary"):
            summary = turn[0].content or turn[0].thinking
            self.summaries[len(self.turns) - 1] = summary.strip()[:MAX_SUMMARY]
        else:
            self.turns.append(turn)
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
    goal: str, learned: str, left: str, tools: Sequence[tuple[str, str]], structured: bool
) -> tuple[Message, ...]:
    """Returns the system and the user message. tools: (name, first sentence), listed if answers are structured."""
    system = SYSTEM
    if structured:
        listed = "\n".join(f"- {name}: {what}" for name, what in tools)
        system = f"{SYSTEM}\n{STRUCTURED}\nTools:\n{listed}"
    parts = [goal, f"Left to spend: {left}.", learned or "Nothing was tried yet."]
    return Message("system", system), Message("user", "\n\n".join(parts))
