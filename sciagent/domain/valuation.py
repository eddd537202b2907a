"""The valuation of a candidate: what routes the next core-hour, and later rewards who proposed it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Valuation:
    """What a candidate is worth by the scheduler's law, given the evidence so far."""

    payoff: float
    """Expected payoff if the candidate were verified now, in the goal's unit: hits, or utility."""

    p_hit: float | None
    """Probability that the candidate is a hit at the terminal rung; None where the goal is not to count hits."""

    cost: float
    """Expected cost of all that would still be bought for it: shares of the budget, or core-seconds without it."""

    value: float
    """Expected payoff of the best way on, less the price of what it costs, in the goal's unit."""

    index: float
    """Largest price at which its next rung is still worth what it costs, in payoff a unit of cost."""
