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
TIE_BREAK = 1e-4
"""Where the desirability is below UTILITY_FLOOR, the rank is UTILITY_FLOOR * (1 + beyond) ** -TIE_BREAK.

`beyond` is the distance from the point where the desirability reaches UTILITY_FLOOR. The rank falls by no more than
0.2 % over eight orders of magnitude of this distance."""
INSIDE = 1e-7
"""Largest share by which the ranks of two values with the desirability 1 differ."""


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

    def rank(self, value: float) -> float:
        """Returns the number in (0, 1) by which candidates are ordered: about the desirability.

        Of two values with the desirability 1, the one that lies farther inside the limits, or farther beyond the best
        value of a ramp, has the higher rank, by at most INSIDE. Where the desirability is below UTILITY_FLOOR, the rank
        goes on falling slowly, so that the nearer of two values far outside comes first.
        """
        desirability = self.desirability(value)
        if desirability == 1.0:
            return 1 - INSIDE / (1 + self._inside(value))
        if desirability >= UTILITY_FLOOR:
            return desirability * (1 - INSIDE)
        # beyond: distance from the point where the desirability is UTILITY_FLOOR
        if self.ramp is not None:
            worst, best = self.ramp
            beyond = UTILITY_FLOOR - (value - worst) / (best - worst)
        else:
            assert self.accept is not None
            # exp(-distance) is UTILITY_FLOOR at this distance, in units of `scale`
            distance_of_floor = -math.log(UTILITY_FLOOR)
            beyond = self.accept.distance(value) / self.scale - distance_of_floor
        return UTILITY_FLOOR * math.pow(1 + max(beyond, 0.0), -TIE_BREAK) * (1 - INSIDE)

    def _inside(self, value: float) -> float:
        """Returns how far a value of desirability 1 lies inside: its distance from the nearest limit in units of
        `scale`, or its distance beyond the best value of the ramp in widths of the ramp."""
        if self.ramp is not None:
            worst, best = self.ramp
            return (value - best) / (best - worst)
        if self.accept is None:
            return 0.0
        low = -math.inf if self.accept.low is None else self.accept.low
        high = math.inf if self.accept.high is None else self.accept.high
        return min(value - low, high - value) / self.scale


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
