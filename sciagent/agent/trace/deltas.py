"""A prompt, stored as its difference from the token ids of the turn before.

The next prompt of a conversation mostly repeats the last one and its answer. Stored in full, the prompts of T turns
take up to T times the space of the conversation; as differences they take it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, count
from operator import ne
from typing import NamedTuple


class Delta(NamedTuple):
    """A prompt as a difference."""

    kept: int
    """How many of the held ids the prompt starts with."""
    new_ids: tuple[int, ...]
    """The ids after these."""


def delta_of(held: Sequence[int], prompt_ids: Sequence[int]) -> Delta:
    """The difference. held: ids of the last prompt and its answer; empty at the first turn. `kept` is as large as
    possible.

    One pass over the ids that both have.
    """
    kept = next(compress(count(), map(ne, held, prompt_ids)), min(len(held), len(prompt_ids)))
    return Delta(kept, tuple(prompt_ids[kept:]))


def prompt_of(held: Sequence[int], delta: Delta) -> tuple[int, ...]:
    """The prompt. Raises ValueError if the delta keeps more than is held, which means that it is of another
    conversation."""
    if not 0 <= delta.kept <= len(held):
        raise ValueError(f"the delta keeps {delta.kept} ids of the {len(held)} that are held")
    return (*held[: delta.kept], *delta.new_ids)
