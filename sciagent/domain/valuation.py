"""The valuation of a candidate: the one number that routes the next core-hour and rewards the proposer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Valuation:
    """value: expected worth given the evidence and what further evidence costs, in the goal's unit.

    p_hit: probability that the candidate is a hit at the terminal level, or None without a law.
    index: the largest price multiplier at which the candidate is still worth its next rung, or None.
    """

    value: float
    p_hit: float | None = None
    index: float | None = None
