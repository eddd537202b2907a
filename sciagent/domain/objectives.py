"""Objectives, and the value of a candidate by them: desirabilities, which the utility combines in one number.

The scheduler spends by this valuation, and proposers are rewarded by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.quantities import Censoring, Quantity

UTILITY_FLOOR = 1e-3
"""Smallest desirability that the utility counts."""


class Direction(StrEnum):
    """The values that an objective prefers: large, small, inside a window with two edges, or within stated limits.

    With LIMIT, the file states `min` or `max` and no window.
    """

    MAXIMISE = "maximise"
    MINIMISE = "minimise"
    WINDOW = "window"
    LIMIT = "limit"


@dataclass(frozen=True)
class Window:
    """An acceptance window in the property's canonical unit; None is an open side."""

    low: float | None = None
    high: float | None = None

    def misses(self, quantity: Quantity) -> Reason | None:
        """Returns None if the value lies inside the window, else the reason that names the side.

        A censored value that could lie on either side of an edge gives NOT_MEASURED."""
        value = quantity.value
        below = quantity.censoring is Censoring.BELOW
        above = quantity.censoring is Censoring.ABOVE
        if self.low is not None and value < self.low:
            return Reason.NOT_MEASURED if above else Reason.BELOW_WINDOW
        if self.high is not None and value > self.high:
            return Reason.NOT_MEASURED if below else Reason.ABOVE_WINDOW
        # the true value may lie beyond the edge on the censored side
        if (below and self.low is not None) or (above and self.high is not None):
            return Reason.NOT_MEASURED
        return None

    def distance(self, value: float) -> float:
        """Returns the distance of the value from the window, in the property's unit; 0 inside."""
        under = self.low - value if self.low is not None else 0.0
        over = value - self.high if self.high is not None else 0.0
        return max(under, over, 0.0)


def ends_of(window: Window | None) -> tuple[float, float]:
    """Returns the lowest and the highest value of a window; infinite where it is open, and without one."""
    low = -math.inf if window is None or window.low is None else window.low
    high = math.inf if window is None or window.high is None else window.high
    return low, high


@dataclass(frozen=True)
class Objective:
    """An objective on a property. accept: the window of a hit. scale: distance outside the window, in the property's
    unit, over which desirability falls from 1 to 1/e. ramp: (worst, best) value for maximise and minimise."""

    property: str
    direction: Direction
    accept: Window | None = None
    scale: float = 1.0
    ramp: tuple[float, float] | None = None
    weight: float = 1.0

    def desirability(self, value: float) -> float:
        """Returns the desirability in [0, 1]: a linear ramp, or 1 inside the window and exp(-distance / scale) outside.

        Source: Derringer and Suich, J. Qual. Technol. 12, 214 (1980); the exponential gives a search a slope outside.
        """
        if self.ramp is not None:
            worst, best = self.ramp
            return min(1.0, max(0.0, (value - worst) / (best - worst)))
        if self.accept is None:
            return 1.0
        return math.exp(-self.accept.distance(value) / self.scale)

    def margin(self, value: float) -> float:
        """Returns how far a value lies inside the limits, in units of `scale`, negative outside; for a ramp, how far it
        lies beyond the best value, in widths of the ramp."""
        if self.ramp is not None:
            worst, best = self.ramp
            return (value - best) / (best - worst)
        if self.accept is None:
            return 0.0
        low, high = ends_of(self.accept)
        inside = min(value - low, high - value)
        return inside / self.scale if math.isfinite(inside) else 0.0

    def width(self) -> float:
        """The difference of values that matters, in the property's unit: `scale`, or the width of the ramp."""
        if self.ramp is None:
            return self.scale
        worst, best = self.ramp
        return abs(best - worst)


def decisive(limits: Mapping[str, Window | None], values: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Returns the experimental values that can decide an objective, by property.

    limits: acceptance limits by objective; None for an objective without limits. A bound decides only if it lies wholly
    inside or outside the limits.
    """
    deciding = {}
    for name, window in limits.items():
        quantity = values.get(name)
        if quantity is None:
            continue
        is_clear = window is not None and window.misses(quantity) is not Reason.NOT_MEASURED
        if quantity.censoring is Censoring.NONE or is_clear:
            deciding[name] = quantity
    return deciding


def utility(objectives: Sequence[Objective], values: Mapping[str, float]) -> float | None:
    """Returns the weighted geometric mean of the desirabilities, each at least 1e-3; None if a property is missing."""
    total_weight = sum(objective.weight for objective in objectives)
    log_sum = 0.0
    for objective in objectives:
        if objective.property not in values:
            return None
        desirability = objective.desirability(values[objective.property])
        log_sum += objective.weight * math.log(max(desirability, UTILITY_FLOOR))
    return math.exp(log_sum / total_weight) if total_weight else None


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
