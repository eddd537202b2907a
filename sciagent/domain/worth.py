"""The worth of a candidate: its chance to be a hit, its expected utility, and how far inside the limits it lies.

This is the one definition. Whoever orders candidates, breeds from them, buys for them or rewards them reads it; the law
of the scheduler has vectorised twins in `scheduling.aims_and_payoff`: `Hits.expected` and `Aims.expected_utility`.

For each objective there is a belief about the value that its deciding rung would give: the highest rung, up to the
terminal one, that measures the property. The beliefs about different objectives are independent. Candidates are ordered
by `chance`, the probability to be a hit in whole percent: hits first, then what may still be one, then known misses.
Ties are ordered by the expected utility, and then by the margin.

A hit is one by the values of the deciding rungs. `p_limits` is another probability, which orders nothing: that the true
values lie within all limits, the errors of the methods (`KnownError`) included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist
from typing import Any, NamedTuple

from sciagent.domain.objectives import UTILITY_FLOOR, Objective, Window
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.quantities import Quantity

HIT = 100  # chance of a hit
MISS = 0  # chance of a known miss, and of every candidate where no objective has limits
LEAST = 1  # chance of a candidate that may still be a hit, also if its probability is unknown
MOST = 99  # largest chance of a candidate that is no hit yet
LEAST_PROBABILITY = 1e-12  # of an undecided candidate, so that rounding never makes it a known miss
UNKNOWN_DESIRABILITY = 0.5  # expected desirability of an objective about which nothing is known
DECIMALS = 6  # of the expected utility
SHOWN_DECIMALS = 2  # of a utility in words
MAX_PRIOR_MOLECULES = 10  # molecules for which a benchmark counts beside own measured values
ONE_PERCENT = 0.01
SURE_PERCENT = 80  # least probability, in percent, of true values within the limits from which a hit is called sure
_STANDARD_NORMAL = NormalDist()
_N_NODES = 21
NODES = tuple(_STANDARD_NORMAL.inv_cdf((i + 0.5) / _N_NODES) for i in range(_N_NODES))
"""Values of a standard normal, of equal probability, over which the desirability is averaged."""


class Basis(StrEnum):
    """The source of a belief, the strongest first."""

    ANSWERED = "answered"
    """The deciding rung has answered."""
    MEASURED = "measured"
    """An imported experimental value decides the objective, since the campaign file says `measured: decide`."""
    LAW = "law"
    """The campaign's law, which predicts the answers of rungs, has valued the candidate."""
    LINE = "line"
    """A lower rung has measured the property, and a straight line leads to the deciding rung."""
    NONE = "none"
    """Nothing is known."""


class LineToDecidingRung(NamedTuple):
    """A straight line from the values of a lower rung to those of the deciding rung, in canonical units."""

    slope: float
    intercept: float
    residual: float
    """Standard deviation of the deciding rung's values around the line."""


@dataclass(frozen=True)
class Belief:
    """A belief about the value that an objective's deciding rung gives."""

    basis: Basis
    mean: float | None = None
    """In the property's canonical unit; None if nothing is known."""
    sd: float = 0.0
    """Standard deviation; 0 if the deciding rung has answered. A measured value keeps its uncertainty, which changes
    neither the verdict nor the expected desirability, as that of an answer."""
    is_met: bool | None = None
    """Whether the deciding rung's answer lies inside the objective's limits; None if that is not decided."""

    def p_met(self, window: Window) -> float | None:
        """Returns the probability that the value lies inside a window; None if nothing is known."""
        if self.is_met is not None:
            return float(self.is_met)
        if self.mean is None or self.sd == 0:
            return None
        return max(_p_between(window.low, window.high, self.mean, self.sd), LEAST_PROBABILITY)

    def expected_share(self, objective: Objective, exponent: float) -> float:
        """Returns the expected value of desirability ** exponent, with a desirability of at least UTILITY_FLOOR."""
        if self.mean is None:
            return float(UNKNOWN_DESIRABILITY**exponent)
        if self.sd == 0 or self.basis is Basis.MEASURED:
            return _share(objective, self.mean, exponent)
        return math.fsum(_share(objective, self.mean + self.sd * z, exponent) for z in NODES) / _N_NODES


def _p_between(low: float | None, high: float | None, mean: float, sd: float) -> float:
    """Returns the probability that a normal variable lies between two limits; None: no limit on that side. sd: > 0."""
    below_low = 0.0 if low is None else _STANDARD_NORMAL.cdf((low - mean) / sd)
    below_high = 1.0 if high is None else _STANDARD_NORMAL.cdf((high - mean) / sd)
    return below_high - below_low


def _share(objective: Objective, value: float, exponent: float) -> float:
    return float(max(objective.desirability(value), UTILITY_FLOOR) ** exponent)


def answered(objective: Objective, quantity: Quantity) -> Belief:
    """Returns the belief after an answer of the deciding rung. A censored value that could lie on either side of a
    limit decides nothing."""
    is_met: bool | None = None
    if objective.accept is not None:
        reason = objective.accept.misses(quantity)
        is_met = None if reason is Reason.NOT_MEASURED else reason is None
    return Belief(Basis.ANSWERED, quantity.value, is_met=is_met)


def measured(objective: Objective, quantity: Quantity) -> Belief:
    """Returns the belief after an experimental value that decides. The verdict is that of the value itself."""
    return replace(answered(objective, quantity), basis=Basis.MEASURED, sd=quantity.uncertainty or 0.0)


def estimated(objective: Objective, quantity: Quantity, line: LineToDecidingRung | None) -> Belief:
    """Returns the belief after an answer of a lower rung. line: without one, the lower rung's own value, give or take
    two scales of the objective."""
    slope, intercept, residual = line or LineToDecidingRung(1.0, 0.0, 2 * objective.width())
    spread = slope * (quantity.uncertainty or 0.0)
    return Belief(Basis.LINE, intercept + slope * quantity.value, sd=math.hypot(residual, spread))


NOTHING = Belief(Basis.NONE)


@dataclass(frozen=True)
class Worth:
    """The worth of a candidate. The fields are columns of the table `campaign_candidate`."""

    p_hit: float | None
    """Probability to be a hit at the terminal rung: 1 for a hit, 0 for a known miss; None if unknown, or without
    limits."""
    chance: int
    """The same in whole percent, as candidates are ordered: 100 for a hit, 0 for a known miss, 1 to 99 between."""
    expected_utility: float
    """In (0, 1]; the utility, once every objective is answered. 0 if people could not obtain what decides."""
    margin: float | None
    """Smallest distance of an expected value from the nearest limit, or beyond the best value of a ramp, in the scale
    of its objective; negative outside. None if no value is expected."""
    basis: Basis
    """The weakest source of the beliefs."""

    @property
    def order(self) -> tuple[float, float, float]:
        """The numbers by which candidates are ordered; the larger, the better."""
        return float(self.chance), self.expected_utility, -math.inf if self.margin is None else self.margin

    def __str__(self) -> str:
        """Returns the words of `worth_text`."""
        return worth_text(self.p_hit, self.chance, self.expected_utility)

    @property
    def columns(self) -> Mapping[str, object]:
        """Column values for the ledger."""
        return {**vars(self), "basis": str(self.basis)}

    @classmethod
    def from_columns(cls, columns: Mapping[str, object]) -> Worth | None:
        """Returns the worth that a row of the table holds; None without one. Other columns are ignored."""
        if columns["chance"] is None:
            return None
        fields: dict[str, Any] = {name: columns[name] for name in cls.__dataclass_fields__}
        return cls(**{**fields, "basis": Basis(fields["basis"])})


def worth_text(p_hit: float | None, chance: int, expected_utility: float) -> str:
    """Returns words such as `P(hit) 31 %, expected utility 0.62`; see `WORTH_PATTERN`. The parameters are fields of
    `Worth`."""
    if p_hit == 1 or chance == HIT:
        return f"hit, utility {_utility_text(expected_utility)}"
    expected = f"expected utility {_utility_text(expected_utility)}"
    if p_hit is None:
        return f"P(hit) unknown, {expected}" if chance == LEAST else expected
    if chance == MISS:
        return f"no hit, {expected}"
    return f"P(hit) {percent_of(p_hit)}, {expected}"


WORTH_PATTERN = r"(?:hit, |no hit, |P\(hit\) (?:(?:[<>] )?\d+ %|unknown), )?(?:expected )?utility \d\.\d\d"
"""Regular expression that matches the words of a worth."""
NO_COLUMNS: Mapping[str, object] = dict.fromkeys(Worth.__dataclass_fields__)
"""Column values of a candidate without a worth."""


def worth_of(objectives: Sequence[Objective], beliefs: Sequence[Belief], hit: bool | None, is_over: bool) -> Worth:
    """Returns the worth of a candidate.

    beliefs: one for each objective. hit: whether the candidate is a hit, if that is decided. is_over: whether its way
    up the ladder has ended, so that an undecided candidate stays undecided.
    """
    has_limits = any(objective.accept is not None for objective in objectives)
    p_hit: float | None = None
    if not has_limits:
        chance = MISS
    elif hit is not None:
        p_hit = float(hit)
        chance = HIT if hit else MISS
    else:
        p_hit = _p_hit(objectives, beliefs)
        if is_over and p_hit != 0:
            p_hit = None
        chance = chance_of(p_hit)
    total_weight = sum(objective.weight for objective in objectives)
    expected = math.prod(
        belief.expected_share(objective, objective.weight / total_weight)
        for objective, belief in zip(objectives, beliefs, strict=True)
    )
    margins = [
        objective.margin(belief.mean)
        for objective, belief in zip(objectives, beliefs, strict=True)
        if belief.mean is not None
    ]
    weakest = max((belief.basis for belief in beliefs), key=list(Basis).index, default=Basis.NONE)
    return Worth(p_hit, chance, round(expected, DECIMALS), min(margins, default=None), weakest)


def worth_of_unobtainable(has_limits: bool) -> Worth:
    """Returns the worth of a candidate of which people could not obtain a quantity that decides: no hit, utility 0.

    has_limits: whether an objective has limits."""
    return Worth(0.0 if has_limits else None, MISS, 0.0, None, Basis.ANSWERED)


def chance_of(p_hit: float | None) -> int:
    """Returns the chance in whole percent of a candidate that is no hit yet."""
    if p_hit is None:
        return LEAST
    if p_hit == 0:
        return MISS
    return min(MOST, max(LEAST, _nearest_percent(p_hit)))


def _nearest_percent(p: float) -> int:
    """Returns a probability in whole percent; a half is rounded up."""
    return math.floor(100 * p + 0.5)


def percent_of(p: float) -> str:
    """Returns a probability in words such as `31 %`, `< 1 %` or `> 99 %`; 0 % and 100 % only if that is decided."""
    percent = _nearest_percent(p)
    if percent == MISS and p > 0:
        return f"< {LEAST} %"
    if percent == HIT and p < 1:
        return f"> {MOST} %"
    return f"{percent} %"


def _utility_text(utility: float) -> str:
    """Returns a utility with two digits; 1.00 only if it is 1."""
    text = f"{utility:.{SHOWN_DECIMALS}f}"
    return "0.99" if text == "1.00" and utility < 1 else text


def _p_hit(objectives: Sequence[Objective], beliefs: Sequence[Belief]) -> float | None:
    """Returns the probability that all limits are met: 0 once one is missed, None if one is unknown."""
    by_objective = [
        belief.p_met(objective.accept)
        for objective, belief in zip(objectives, beliefs, strict=True)
        if objective.accept is not None
    ]
    if any(belief.is_met is False for belief in beliefs):
        return 0.0
    known = [p for p in by_objective if p is not None]
    return math.prod(known) if len(known) == len(by_objective) else None


@dataclass(frozen=True)
class KnownError:
    """The error of a method, computed minus true value, as a normal distribution, in the unit of the values."""

    bias: float
    """Mean error."""
    spread: float
    """Standard deviation of the errors around the bias."""
    n: int
    """Number of molecules from which both are known."""

    @classmethod
    def of(cls, mean_error: float, mean_absolute_error: float, root_mean_square: float | None, n: int) -> KnownError:
        """Returns the distribution with these figures: spread**2 = size**2 - mean_error**2.

        The size is the root mean square error or, without it, sqrt(pi / 2) times the mean absolute error, which is the
        root mean square of normal errors without a bias. A difference below 0, which only rounding makes, counts as 0.
        """
        size = math.sqrt(math.pi / 2) * mean_absolute_error if root_mean_square is None else root_mean_square
        return cls(mean_error, math.sqrt(max(size**2 - mean_error**2, 0.0)), n)

    def pooled_with(self, benchmark: KnownError) -> KnownError:
        """Returns the error over own molecules after a benchmark of other molecules.

        spread**2 = (n0 * s0**2 + n * s**2) / (n0 + n), with s and n of the own molecules, s0 of the benchmark, and
        n0 = min(molecules of the benchmark, MAX_PRIOR_MOLECULES). This is the estimate of a variance under a scaled
        inverse chi-squared prior with n0 degrees of freedom: the benchmark counts like n0 molecules, however large it
        is, since its chemistry is another one. The bias is that of the own molecules; `p_limits` counts its own error,
        spread / sqrt(n). Source: Gelman et al., Bayesian Data Analysis, 3rd ed., section 2.6.
        """
        n_prior = min(benchmark.n, MAX_PRIOR_MOLECULES)
        variance = (n_prior * benchmark.spread**2 + self.n * self.spread**2) / (n_prior + self.n)
        return KnownError(self.bias, math.sqrt(variance), self.n)

    @property
    def mean_absolute(self) -> float:
        """Mean absolute error of this distribution."""
        if self.spread == 0:
            return abs(self.bias)
        ratio = self.bias / self.spread
        around_zero = self.spread * math.sqrt(2 / math.pi) * math.exp(-(ratio**2) / 2)
        return around_zero + self.bias * math.erf(ratio / math.sqrt(2))


EXACT = KnownError(bias=0.0, spread=0.0, n=1)
"""No error beside the uncertainty of the value itself."""


@dataclass(frozen=True)
class LimitedValue:
    """A value of the deciding rung with the limits of its objective, all in one unit."""

    value: float
    uncertainty: float | None
    """Standard uncertainty u (k = 1). An unknown one counts as 0, since the error of the method includes the usual one;
    0 without a known error means an exact value."""
    error: KnownError | None
    """The error of the method; None if it is unknown."""
    low: float | None
    high: float | None

    @property
    def p_inside(self) -> float | None:
        """The probability that the true value lies within the limits; None if the error of the method is unknown.

        The true value is normal with the mean value - bias and the variance u**2 + spread**2 * (1 + 1 / n), in which
        1 / n is for the error of the bias itself.
        """
        error = self.error
        if error is None:
            if self.uncertainty != 0:
                return None
            error = EXACT
        mean = self.value - error.bias
        sd = math.hypot(self.uncertainty or 0.0, error.spread * math.sqrt(1 + 1 / error.n))
        if sd > 0:
            return _p_between(self.low, self.high, mean, sd)
        is_inside = (self.low is None or mean >= self.low) and (self.high is None or mean <= self.high)
        return float(is_inside)


def p_limits(p_inside: Sequence[float | None]) -> float | None:
    """Returns the probability that the true values of a candidate lie within the limits of all objectives.

    p_inside: `LimitedValue.p_inside` of each objective with limits; the errors of different objectives are taken for
    independent. None if there is none, or if one is unknown and the others leave more than one percent; less than that
    is an upper bound.
    """
    known = [p for p in p_inside if p is not None]
    if not known:
        return None
    product = math.prod(known)
    is_complete = len(known) == len(p_inside)
    return product if is_complete or product < ONE_PERCENT else None
