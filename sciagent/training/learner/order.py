"""The order of rows: which of them are trained in which step. It follows from the seed alone, so a run can go on."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sciagent.training.learner.kinds import Unit


class PlannedStep(NamedTuple):
    """A training step."""

    number: int
    """From 1."""
    epoch: int
    """From 1."""
    units: tuple[Unit, ...]


def planned(units: Sequence[Unit], rows: int, epochs: int, seed: int) -> Iterator[PlannedStep]:
    """Yields the steps. Each has whole units with at least `rows` rows together, the last of an epoch the rest.

    In an epoch each unit is trained once, in an order of its own.
    """
    number = 0
    for epoch in range(1, epochs + 1):
        order = list(units)
        random.Random(f"{seed} {epoch}").shuffle(order)
        taken: list[Unit] = []
        for place, unit in enumerate(order, 1):
            taken.append(unit)
            if sum(len(each.numbers) for each in taken) >= rows or place == len(order):
                number += 1
                yield PlannedStep(number, epoch, tuple(taken))
                taken = []
