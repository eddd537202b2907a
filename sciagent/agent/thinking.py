"""Separates a model's thinking from its answer. Calls within the thinking are not carried out."""

from __future__ import annotations

OPEN, CLOSE = "<think>", "</think>"


def split_thinking(text: str) -> tuple[str, str]:
    """(answer, thinking). Some templates open the thinking in the prompt, so that the text holds only its end.
    Thinking without an end has no answer after it."""
    before, opened, rest = text.partition(OPEN)
    if not opened:
        thought, closed, answer = text.rpartition(CLOSE)
        return (answer.strip(), thought.strip()) if closed else (text.strip(), "")
    thought, closed, after = rest.rpartition(CLOSE)
    if not closed:
        return before.strip(), rest.strip()
    return (before + after).strip(), thought.replace(OPEN, "").replace(CLOSE, "").strip()
