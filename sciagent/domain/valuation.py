"""The valuation of a candidate. The scheduler spends by it, and proposers are rewarded by it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Valuation:
    """The value of a candidate by the scheduler's law, given the evidence so far."""

    payoff: float
    """Expected payoff if the candidate were verified now, in the goal's unit: hits, or utility."""

    p_hit: float | None
    """Probability that the candidate is a hit at the terminal rung; None where the goal is not to count hits."""

    cost: float
    """Expected cost of the rungs that would still be bought: in shares of the budget, or core-seconds without one."""

    value: float
    """Expected payoff of the best continuation minus the price of its cost, in the goal's unit."""

    index: float
    """Largest price at which its next rung is still worth its cost, in payoff per unit of cost."""
