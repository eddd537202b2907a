"""The opening of an episode, and the form of the answers that it asks for."""

from __future__ import annotations

from collections.abc import Sequence

from sciagent.agent.messages import Message

SYSTEM = """You search for molecules that meet a goal. You work by calling tools, one or a few at a time, and see what \
each call brought. Cheap checks answer at once; dearer ones answer later, in a later turn or episode. New molecules \
that meet the goal count; one that is known already counts for nothing. Small steps from the best so far often help."""
STRUCTURED = """Answer with one JSON object and nothing else: {"name": TOOL, "arguments": {...}}."""


def opening(
    goal: str, learned: str, left: str, tools: Sequence[tuple[str, str]], structured: bool
) -> tuple[Message, ...]:
    """System and user message. tools: name and first sentence of each, listed if answers are structured."""
    system = SYSTEM
    if structured:
        listed = "\n".join(f"- {name}: {what}" for name, what in tools)
        system = f"{SYSTEM}\n{STRUCTURED}\nTools:\n{listed}"
    parts = [goal, f"Left to spend: {left}.", learned or "Nothing was tried yet."]
    return Message("system", system), Message("user", "\n\n".join(parts))
