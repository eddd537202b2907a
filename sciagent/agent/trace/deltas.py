"""A prompt as what it adds to the ids that are held.

The next prompt of a conversation mostly repeats the last one and its answer. Stored whole, the prompts of T turns take
T times the room of the conversation; as deltas they take the conversation once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, count
from operator import ne
from typing import NamedTuple


class Delta(NamedTuple):
    """kept: how many of the held ids the prompt starts with. new_ids: what it has after them."""

    kept: int
    new_ids: tuple[int, ...]


def delta_of(held: Sequence[int], prompt_ids: Sequence[int]) -> Delta:
    """held: ids of the last prompt and its answer, nothing at the first turn. kept is as large as it can be.

    One pass over the ids that both have.
    """
    kept = next(compress(count(), map(ne, held, prompt_ids)), min(len(held), len(prompt_ids)))
    return Delta(kept, tuple(prompt_ids[kept:]))


def prompt_of(held: Sequence[int], delta: Delta) -> tuple[int, ...]:
    """The prompt again. Raises ValueError where the delta keeps more than is held: it is of another conversation."""
    if not 0 <= delta.kept <= len(held):
        raise ValueError(f"the delta keeps {delta.kept} ids of the {len(held)} that are held")
    return (*held[: delta.kept], *delta.new_ids)
