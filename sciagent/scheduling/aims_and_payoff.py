"""The goal of a campaign in the law's terms: an aim for each objective, and their common payoff.

The payoff of an answer lies in [0, 1]. `scheduling.dynamic_programme` uses one number, u, with hits above 0. For one
property with one limit, u is mean / standard deviation. Otherwise u is the probit of the expected payoff p. What a set
of rungs S tells is then expressed as the share s of a normal answer's variance for which p would vary as much,

    E[E[payoff | S]²] = E[Φ((u + sqrt(s) z) / sqrt(1 - s))²] = Φ2(u, u; s) = Φ(u) - 2 T(u, sqrt((1 - s) / (1 + s)))

with T Owen's function. For one limit on one property this is exact. Otherwise the first two moments of the future
prediction are right, but not its shape. Given the rungs, the errors of the properties are taken as independent.

Source of the last identity: Owen, Ann. Math. Stat. 27, 1075 (1956).

A censored answer such as `< 1 %` means that the value is below 1 %, not that it is 1 %. It enters the law as its
expectation: the mean of a normal distribution truncated at the bound, with that distribution's standard deviation as
uncertainty. The normal is the prediction without this answer. For the deciding answer it is the forecast of a law
fitted to exact answers only, given the lower rungs. For a lower rung, or with too few exact answers, it is the
distribution of the rung's exact answers. This is one expectation step of the EM algorithm for censored normal
regression.

Sources: Tobin, Econometrica 26, 24 (1958); Cohen, Technometrics 1, 217 (1959); Dempster, Laird and Rubin, J. R. Stat.
Soc. B 39, 1 (1977), section 4.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, owens_t

from sciagent.domain.objectives import UTILITY_FLOOR
from sciagent.domain.worth import NODES as NORMAL_NODES
from sciagent.scheduling.array_types import Array
from sciagent.scheduling.law.answer_transforms import TruthTransform, between
from sciagent.scheduling.law.binary_answers import truncated_moments
from sciagent.scheduling.law.rung_hints import Hint
from sciagent.scheduling.law.stacked_laws_with_and_without_structure import Law, Question, mixture

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(41)  # of Gauss and Legendre, on the interval (-1, 1)
NODES = (_NODES + 1) / 2  # on the interval (0, 1)
WEIGHTS = _WEIGHTS / 2
DRAWS = 256  # draws of all properties, the same for every candidate
PAIRS = 4096  # draws of pairs of answers, the same for every candidate
BLOCK = 1 << 12  # candidates computed at a time
TAIL = 1e-9  # probabilities are kept this far from 0 and 1
BISECTIONS = 30  # times that the interval (0, 1) of a share is halved
MIN_DESIRABILITY = 1e-3  # so that one property cannot make a utility 0
FARTHEST = -37.0  # standard deviations below which the normal distribution underflows


@dataclass(frozen=True)
class Hits:
    """A payoff of 1 if every property lies within its limits, else 0. Its methods take means and variances, (q, n), of
    the q properties, in the unit of their transforms."""

    truths: tuple[TruthTransform, ...]
    """(q,) the transforms, which have the limits."""

    def expected(self, means: Array, variances: Array) -> Array:
        """Returns (n,) expected payoffs, in [0, 1]."""
        expected: Array = np.ones(means.shape[1])
        for truth, mean, variance in zip(self.truths, means, variances, strict=True):
            expected = expected * between(mean, np.sqrt(variance), truth.low, truth.high)
        return expected

    def moments(self, means: Array, variances: Array, shares: Array) -> tuple[Array, Array]:
        """Returns (n,) E[payoff] and E[E[payoff | S]²], consistent with each other. The set of rungs S explains the
        fraction shares, (q,), of each variance. This is slow: call it for few candidates."""
        second: Array = np.ones(means.shape[1])
        for truth, mean, variance, share in zip(self.truths, means, variances, shares, strict=True):
            second = second * _both_between(mean, np.sqrt(variance), truth.low, truth.high, float(share))
        return self.expected(means, variances), second


def _both_between(mean: Array, sd: Array, low: float, high: float, share: float) -> Array:
    """Returns (n,) probabilities that two answers of N(mean, sd²), correlated by `share`, lie between low and high.

    The probability of the second answer is averaged over first answers in the window. This integrand is smooth for any
    window and share; an average over the shared part would have to resolve the width of the window.
    """
    chance = between(mean, sd, low, high)
    if share >= 1 - 1e-9:  # the two answers are equal
        return chance
    if math.isinf(low) and math.isinf(high):
        return np.ones_like(mean)
    if math.isinf(low) or math.isinf(high):
        u = (mean - low) / sd if math.isinf(high) else (high - mean) / sd
        return both_above(u, share)
    below = (low - mean) / sd
    above = (high - mean) / sd
    # mirrored so that the window lies in the lower half, where probabilities do not cancel
    is_mirrored = below + above > 0
    lower = np.where(is_mirrored, -above, below)
    upper = np.where(is_mirrored, -below, above)
    start = ndtr(np.maximum(lower, FARTHEST))
    end = ndtr(np.maximum(upper, FARTHEST))
    first_answer = ndtri(start + (end - start) * NODES[:, None])
    second_mean = share * first_answer
    second_sd = math.sqrt((1 - share) * (1 + share))
    second_chance = ndtr((upper - second_mean) / second_sd) - ndtr((lower - second_mean) / second_sd)
    both: Array = chance * (WEIGHTS @ second_chance)
    return both


@dataclass(frozen=True)
class Graded:
    """Any payoff of the properties, with the methods of `Hits`, by quasi-Monte Carlo with common draws."""

    of: Callable[[Array], Array]
    """The payoff: (q, ...) values in the unit of the transforms to (...) in [0, 1]."""
    q: int
    """Number of properties."""

    def expected(self, means: Array, variances: Array) -> Array:
        """Returns (n,) expected payoffs, in [0, 1]."""
        draws, weights = normal(self.q, DRAWS)
        expected = np.empty(means.shape[1])
        for start in range(0, len(expected), BLOCK):
            part = slice(start, start + BLOCK)
            deviations = np.sqrt(variances[:, None, part]) * draws.T[:, :, None]  # (q, draws, n)
            expected[part] = weights @ self.of(means[:, None, part] + deviations)
        return expected

    def moments(self, means: Array, variances: Array, shares: Array) -> tuple[Array, Array]:
        """Returns the moments of `Hits.moments`. The second moment is the mean product of the payoffs of two answers
        that share the explained part; unlike the square of a mean, this product is unbiased."""
        draws, weights = normal(2 * self.q, PAIRS)
        first_draws = draws[:, : self.q]
        new_draws = draws[:, self.q :]
        second_draws = shares * first_draws + np.sqrt((1 - shares) * (1 + shares)) * new_draws
        first = np.empty(means.shape[1])
        second = np.empty(means.shape[1])
        for place, (mean, sd) in enumerate(zip(means.T, np.sqrt(variances).T, strict=True)):
            worth = self.of((mean + sd * first_draws).T)
            first[place] = weights @ worth
            second[place] = weights @ (worth * self.of((mean + sd * second_draws).T))
        return first, second


Payoff = Hits | Graded


@cache
def normal(q: int, n: int) -> tuple[Array, Array]:
    """Returns (n, q) fixed low-discrepancy draws, and weights (n,) of sum 1 that make them standard normal. n: a power
    of two. The draws are spread wider than normal, since payoffs are often rare."""
    from scipy.stats import qmc  # imported here, since it takes half a second and only utilities need it

    wider = 1 + min(0.5, 0.7 / math.sqrt(q))
    drawn = wider * ndtri(qmc.Sobol(q, seed=0).random(n))
    # density of the normal distribution over the density of the draws, but for a factor
    weights = np.exp(-(drawn**2).sum(1) / 2 * (1 - wider**-2))
    return drawn, weights / weights.sum()


def to_u(expected: Array) -> Array:
    """Returns the probit of an expected payoff."""
    u: Array = ndtri(np.clip(expected, TAIL, 1 - TAIL))
    return u


def both_above(u: Array, share: Array | float) -> Array:
    """Returns Φ2(u, u; share)."""
    both: Array = ndtr(u) - 2 * owens_t(u, np.sqrt((1 - share) / (1 + share)))
    return both


def share_told(expected: Array, second: Array) -> Array:
    """Returns (n,) shares of a normal answer's variance that give the same second moment (see the module)."""
    u = to_u(expected)
    low = np.zeros_like(u)
    high = np.ones_like(u)
    for _ in range(BISECTIONS):
        share = (low + high) / 2
        is_too_low = both_above(u, share) < second
        low = np.where(is_too_low, share, low)
        high = np.where(is_too_low, high, share)
    return (low + high) / 2


def utility_payoff(
    desirabilities: Sequence[Callable[[Array], Array]], weights: Sequence[float], record: float = 0.0
) -> Callable[[Array], Array]:
    """Returns the payoff of a weighted geometric mean of desirabilities, each of one property in its transform's unit.

    record: utility to exceed; the payoff is then (utility - record)+ / (1 - record).
    """
    total = sum(weights)

    def payoff_of(values: Array) -> Array:
        log_utility: Array = np.zeros(np.shape(values)[1:])
        for desirability, weight, value in zip(desirabilities, weights, values, strict=True):
            log_utility = log_utility + weight / total * np.log(np.maximum(desirability(value), MIN_DESIRABILITY))
        payoff: Array = np.maximum(np.exp(log_utility) - record, 0.0) / max(1 - record, 1e-9)
        return payoff

    return payoff_of


@dataclass(frozen=True)
class Aim:
    """One objective."""

    columns: tuple[int, ...]
    """The pool's columns for its property, ascending in rung; the last one decides."""
    low: float = -math.inf
    """Lower limit of a hit, in the property's unit."""
    high: float = math.inf
    """Upper limit of a hit, in the property's unit."""
    desirability: Callable[[Array], Array] | None = None
    """Converts (n,) values to (n,) desirabilities in [0, 1]; None: all values are equally good."""
    weight: float = 1.0
    """Weight in the utility."""
    hint: Hint | None = None
    """An assumed relation to a lower rung."""
    alike: tuple[tuple[int, ...], ...] = ()
    """Groups of `columns`, ascending, of which each measures one property at several levels."""
    passes: tuple[tuple[int, int], ...] = ()
    """Lower columns whose gate has one limit, each with 1 if values above the limit pass, else -1."""

    @property
    def same(self) -> tuple[int, ...]:
        """The lower columns that measure the aim's property at another level."""
        for group in self.alike:
            if group[-1] == self.columns[-1]:
                return group[:-1]
        return ()

    @property
    def sign(self) -> int:
        """1 if larger values are better, -1 if smaller values are, 0 if hits have two limits or none."""
        if math.isinf(self.high) == math.isinf(self.low):
            return 0
        return 1 if math.isinf(self.high) else -1


@dataclass(frozen=True)
class Aims:
    """All objectives."""

    aims: tuple[Aim, ...]
    kind: str = "hits"
    """The payoff: hits (`hits`), the utility (`graded`), or the utility above that of the count-th best (`best`)."""
    count: int = 1

    @classmethod
    def with_threshold(cls, columns: int, threshold: float, sign: int, **known: Any) -> Aims:
        """Returns one aim on a ladder with `columns` rungs. Hits lie above the threshold if sign is 1, below if -1.
        known: `alike` and `passes` of the aim."""
        low = threshold if sign > 0 else -math.inf
        high = math.inf if sign > 0 else threshold
        return cls((Aim(tuple(range(columns)), low, high, **known),))

    def truths(self, scores: Array) -> tuple[TruthTransform, ...]:
        """Returns the transform of each aim's deciding answers. scores: (n, c)."""
        truths = []
        for aim in self.aims:
            low, high = self._limits(aim)
            truths.append(TruthTransform.within(scores[:, aim.columns[-1]], low, high))
        return tuple(truths)

    @property
    def one_sided(self) -> bool:
        """Whether every aim has one best end."""
        return all(aim.sign for aim in self.aims)

    def promise(self, scores: Array) -> Array | None:
        """Returns (n,) values that promise hits, the best ones largest; None for several objectives, without one best
        end, or without such values. They are the property at the highest lower level, or else the highest answered
        column whose gate has one limit."""
        if len(self.aims) != 1:
            return None
        [aim] = self.aims
        if not aim.sign:
            return None
        if aim.same:
            return aim.sign * scores[:, aim.same[-1]]
        for column, sign in reversed(aim.passes):
            if not np.isnan(scores[:, column]).all():
                return sign * scores[:, column]
        return None

    def _limits(self, aim: Aim) -> tuple[float, float]:
        """Returns the limits of a hit; infinite ones if the payoff is graded."""
        return (aim.low, aim.high) if self.kind == "hits" else (-math.inf, math.inf)

    @property
    def hints(self) -> tuple[Hint, ...]:
        """The hints of all aims; empty if one aim has none, since the law needs a hint for each."""
        hints = tuple(aim.hint for aim in self.aims if aim.hint is not None)
        return hints if len(hints) == len(self.aims) else ()

    def payoff(self, truths: Sequence[TruthTransform], scores: Array, record: float = 0.0) -> Payoff:
        """Returns the payoff of an answer. record: utility that a graded payoff has to exceed; for the goal `best` the
        record of the scores is taken."""
        if self.kind == "hits":
            return Hits(tuple(truths))
        desirabilities = []
        for aim, truth in zip(self.aims, truths, strict=True):
            desirabilities.append(_in_unit_of(aim.desirability or np.ones_like, truth))
        if self.kind == "best":
            record = self._record(scores)
        payoff_of = utility_payoff(desirabilities, [aim.weight for aim in self.aims], record)
        return Graded(payoff_of, q=len(self.aims))

    def expected_utility(self, truths: Sequence[TruthTransform], means: Array, variances: Array) -> Array:
        """Returns (n,) expected utilities, in (0, 1], whatever the goal: the twin of `domain.worth.worth_of`.

        The properties are independent, so that the expectation of their geometric mean is the product over the
        properties of E[desirability ** (weight / sum of weights)], each an average over `domain.worth.NODES`.
        means, variances: (q, n) as in `Hits.expected`.
        """
        total_weight = sum(aim.weight for aim in self.aims)
        deviations = np.array(NORMAL_NODES)[:, None]
        expected: Array = np.ones(means.shape[1])
        for aim, truth, mean, variance in zip(self.aims, truths, means, variances, strict=True):
            if aim.desirability is None:
                continue
            sd = np.sqrt(variance)
            for start in range(0, len(expected), BLOCK):
                part = slice(start, start + BLOCK)
                values = truth.inverse(mean[part] + sd[part] * deviations)  # (nodes, n)
                desirabilities = np.maximum(aim.desirability(values), UTILITY_FLOOR)
                expected[part] *= (desirabilities ** (aim.weight / total_weight)).mean(axis=0)
        return expected

    def misses_all(self, scores: Array) -> bool:
        """Returns whether every candidate with all deciding answers has the lowest utility; False without any."""
        utilities = self._utilities(scores)
        return bool(len(utilities) and utilities.max() <= UTILITY_FLOOR * (1 + 1e-9))

    def _record(self, scores: Array) -> float:
        """Returns the utility of the count-th best candidate with all deciding answers; 0 if there are fewer."""
        utilities = self._utilities(scores)
        return float(np.sort(utilities)[-self.count]) if len(utilities) >= self.count else 0.0

    def _utilities(self, scores: Array) -> Array:
        """Returns the utilities of the m candidates with all deciding answers, (m,)."""
        known = scores[:, [aim.columns[-1] for aim in self.aims]]
        known = known[~np.isnan(known).any(1)]
        if not len(known):
            return np.empty(0)
        desirabilities = [aim.desirability or np.ones_like for aim in self.aims]
        utility_of = utility_payoff(desirabilities, [aim.weight for aim in self.aims])
        return np.asarray(utility_of(known.T))


def data_for_law(
    aims: Aims, truths: Sequence[TruthTransform], scores: Array, errors: NDArray[np.float32] | None = None
) -> list[Question]:
    """Returns the data to which a law is fitted, for each aim.

    scores: (n, c). errors: (n, c) standard uncertainties of the scores, or None.
    """
    asked = []
    for aim, truth in zip(aims.aims, truths, strict=True):
        aim_scores = _columns_of(scores, aim.columns)
        aim_errors = None if errors is None else _columns_of(errors, aim.columns)
        # positions among the aim's own columns
        alike = tuple(tuple(aim.columns.index(column) for column in group) for group in aim.alike)
        asked.append(Question(aim_scores, truth, aim_errors, alike))
    return asked


def _columns_of(scores: NDArray[Any], columns: tuple[int, ...]) -> NDArray[Any]:
    """Returns columns of the scores, without a copy if they are adjacent."""
    first = columns[0]
    end = columns[-1] + 1
    are_adjacent = columns == tuple(range(first, end))
    return scores[:, first:end] if are_adjacent else scores[:, columns]


def _in_unit_of(desirability: Callable[[Array], Array], truth: TruthTransform) -> Callable[[Array], Array]:
    """Returns the desirability as a function of transformed values."""
    return lambda y: desirability(truth.inverse(y))


Errors = NDArray[np.float32]
Bounds = NDArray[np.int8]
Fit = Callable[[Array, Errors | None], list[Law]]

MIN_EXACT = 4  # exact answers of a rung that are needed to replace a censored one


def expected_answers(
    scores: Array, errors: Errors | None, bounds: Bounds | None, aims: Aims, truths: Sequence[TruthTransform], fit: Fit
) -> tuple[Array, Errors | None]:
    """Returns scores and errors, (n, c), with censored answers replaced by expectations. Columns with too few exact
    answers keep their bounds.

    bounds: (n, c) as in `CandidatePool`; None if no answer is censored. truths: one per aim. fit: returns the laws
    fitted to scores and errors.
    """
    if bounds is None:
        return scores, errors
    censored = bounds != 0
    if not censored.any():
        return scores, errors
    exact = np.where(censored, np.nan, scores)
    new_scores = scores.copy()
    new_errors = np.zeros(scores.shape, dtype=np.float32) if errors is None else errors.copy()
    aim_of_column = {aim.columns[-1]: number for number, aim in enumerate(aims.aims)}  # of the deciding columns
    has_enough_exact = all((~np.isnan(exact[:, column])).sum() >= MIN_EXACT for column in aim_of_column)
    laws: Sequence[Law] = ()
    if has_enough_exact and censored[:, list(aim_of_column)].any():
        laws = fit(exact, errors)
    for column in np.flatnonzero(censored.any(axis=0)).tolist():
        rows = np.flatnonzero(censored[:, column])
        known = exact[~np.isnan(exact[:, column]), column]
        if len(known) < MIN_EXACT or not known.std() > 0:
            continue
        mean = np.full(len(rows), known.mean())
        sd = np.full(len(rows), known.std(ddof=1))
        if column in aim_of_column and laws:
            number = aim_of_column[column]
            truth = truths[number]
            law_mean, law_sd, _ = mixture(laws, number, rows)
            mean = truth.inverse(law_mean)
            sd = truth.scale * law_sd
        expected, spread = truncated_moments(mean, sd, scores[rows, column], bounds[rows, column])
        new_scores[rows, column] = expected
        new_errors[rows, column] = spread
    return new_scores, new_errors
