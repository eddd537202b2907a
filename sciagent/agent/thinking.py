"""What a model thinks before it answers, apart from the answer. Calls inside it are thoughts, and call nothing."""

from __future__ import annotations

OPEN, CLOSE = "<think>", "</think>"


def split_thinking(text: str) -> tuple[str, str]:
    """(answer, thinking). Some templates open the thinking in the prompt, so that only its end is seen; thinking that
    never ends has no answer after it."""
    before, opened, rest = text.partition(OPEN)
    if not opened:
        thought, closed, answer = text.rpartition(CLOSE)
        return (answer.strip(), thought.strip()) if closed else (text.strip(), "")
    thought, closed, after = rest.rpartition(CLOSE)
    if not closed:
        return before.strip(), rest.strip()
    return (before + after).strip(), thought.replace(OPEN, "").replace(CLOSE, "").strip()
