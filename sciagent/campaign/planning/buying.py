"""What a budget buys when a given share of the candidates are hits.

Truth and rungs are a joint Gaussian. The dynamic programme of `scheduling.value` says what a candidate may be bought at
every price, and a linear programme mixes such plans so that the expected hits are most and every limit of the budget
holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.special import ndtr, ndtri

from sciagent.campaign.planning.inputs import SURE, Step
from sciagent.campaign.pricing.numeraire import FLOOR as LEAST_COST
from sciagent.campaign.pricing.numeraire import Allowance, Numeraire
from sciagent.scheduling.arrays import Array
from sciagent.scheduling.payoff import both_above, share_told
from sciagent.scheduling.rules.priced import FREE, TRUSTED, WARM_UP, WARM_UP_RUNG, WARM_UP_SHARE
from sciagent.scheduling.value import FLOOR, PRICES, U, nearest, solve_left

ROUNDS = 6  # of prices of the resources
CONVERGED = 1e-4  # relative gain in hits below which prices are adjusted no further
LEAST_WEIGHT = 1e-4  # of a resource that is not scarce


@dataclass(frozen=True)
class BudgetProblem:
    """What may be bought, and within which limits."""

    steps: tuple[Step, ...]
    """Paid rungs, the terminal one last."""
    limits: tuple[Allowance, ...]
    """What may be spent."""
    amounts: Array
    """(r, k): what one run of each of the k steps takes of each of the r limits."""
    candidates: float
    """Candidates that pass the fast rungs; infinity where nothing limits them."""
    trusted: frozenset[int]
    """Places of steps that are known to tell something."""
    has_hints: bool
    """Whether the law begins with hints, before any answer."""

    @property
    def most(self) -> Array:
        """(r,) the limits."""
        return np.array([allowance.limit for allowance in self.limits])

    @property
    def needed(self) -> int:
        """The steps that cannot be left out, as bits."""
        return sum(1 << place for place, step in enumerate(self.steps[:-1]) if step.is_needed)

    def without(self, gone: Sequence[Step]) -> BudgetProblem:
        """The same without these steps."""
        kept = [place for place, step in enumerate(self.steps) if step not in gone]
        trusted = frozenset(kept.index(place) for place in self.trusted if place in kept)
        steps = tuple(self.steps[place] for place in kept)
        return replace(self, steps=steps, amounts=self.amounts[:, kept], trusted=trusted)


@dataclass(frozen=True)
class Purchases:
    """What is best bought."""

    hits: float
    """Expected hits."""
    runs: Array
    """(k,) expected runs of each step."""
    prices: Mapping[str, float]
    """Hits that one more unit of each limit would bring, by allowance."""


def buy(problem: BudgetProblem, rate: float, ends: Mapping[int, str] | None = None) -> Purchases | None:
    """What is best bought if this share of the candidates are hits; None where nothing limits what is bought.

    ends: by place, where a rung's correlation is not the middle of its range. The law is learnt on whole ladders first,
    as `priced` does; what is left of the limits is spent by programmes, at prices that are adjusted a few times.
    """
    first = warm_up(problem)
    most = problem.most
    limits = np.maximum(most - problem.amounts @ np.full(len(problem.steps), first), 0.0)
    left = _variance_left(problem, rate, ends or {})
    numeraire = Numeraire(problem.limits)
    places = {allowance.name: place for place, allowance in enumerate(problem.limits)}
    priced = [places[allowance.name] for allowance in numeraire.allowances]
    last = len(problem.steps) - 1
    needed = [float(place == last or bool(problem.needed >> place & 1)) for place in range(last + 1)]
    hits, runs = np.array([rate]), np.array([needed])  # the terminal rung alone, and those that are needed
    best = -1.0
    mix = _Mix(np.zeros(0), np.zeros(len(limits)), 0.0)
    for _ in range(ROUNDS):
        more_hits, more_runs = _programmes(left, _costs(problem, numeraire, priced), rate, problem.needed)
        hits, runs = np.concatenate([hits, more_hits]), np.concatenate([runs, more_runs])
        solved = _mixed(hits, runs, problem.amounts, limits, problem.candidates - first)
        if solved is None:
            return None
        mix = solved
        scarce = mix.prices[priced] > 0
        if mix.hits <= best * (1 + CONVERGED) + 1e-12 or len(priced) < 2 or not scarce.any():
            break
        best = mix.hits
        numeraire.weights = _weights(mix.prices[priced] * most[priced])
    prices = {allowance.name: float(price) for allowance, price in zip(problem.limits, mix.prices, strict=True)}
    return Purchases(float(mix.shares @ hits) + rate * first, mix.shares @ runs + first, prices)


def warm_up(problem: BudgetProblem) -> float:
    """Candidates that go up the whole ladder for the law to learn from; see `rules.priced`."""
    most = problem.most
    usable = most > 0
    if len(problem.steps) == 1 or problem.has_hints or not usable.any():
        return 0.0
    n = problem.candidates
    costs = Numeraire(problem.limits).weights / most[usable] @ problem.amounts[usable]
    free = 0
    for place, cost in enumerate(costs[:-1]):
        of_terminal, of_budget = TRUSTED if place in problem.trusted else FREE
        free += bool(cost <= of_terminal * costs[-1] and (math.isinf(n) or n * cost <= of_budget))
    price = max(float(costs.sum()), LEAST_COST)
    wanted = WARM_UP + WARM_UP_RUNG * (len(costs) - 1 - free)
    wanted = max(WARM_UP, min(wanted, int(WARM_UP_SHARE * min(1.0, n * price) / price)))
    room = [float(limit / a) for limit, a in zip(most, problem.amounts.sum(1), strict=True) if a > 0]
    return float(min([wanted, n, *room]))


def _variance_left(problem: BudgetProblem, rate: float, ends: Mapping[int, str]) -> Array:
    """(2**(k-1),) share of the variance that is left after each set of rungs below the terminal one."""
    sets = 1 << (len(problem.steps) - 1)
    shares = _shares_told(problem.steps, ends)
    u = ndtri(rate ** (1 / len(shares)))
    second = np.prod([both_above(np.full(sets, u), share) for share in shares], axis=0)
    left: Array = np.maximum(1 - share_told(np.full(sets, rate), second), FLOOR)
    left[0] = 1.0
    return left


def _shares_told(steps: Sequence[Step], ends: Mapping[int, str]) -> list[Array]:
    """For each objective, (2**m,): the share of its variance that each set of rungs tells; rungs err independently."""
    m, shares = len(steps) - 1, []
    for objective in range(len(steps[-1].tells)):
        odds = np.zeros(1 << m)
        for place, step in enumerate(steps[:-1]):
            tells = step.tells[objective]
            r: float = getattr(tells, ends.get(place, "middle"))
            square = 1 - FLOOR if tells.kind == "decides" else min(r, SURE) ** 2
            odds[np.arange(1 << m) >> place & 1 == 1] += square / (1 - square)
        shares.append(odds / (1 + odds))
    return shares


def _costs(problem: BudgetProblem, numeraire: Numeraire, priced: Sequence[int]) -> Array:
    """(k,) cost of a run of each step, in shares of the budget; in core-seconds where nothing is limited."""
    if priced:
        costs = numeraire.weights / problem.most[priced] @ problem.amounts[priced]
    else:
        costs = np.array([step.costs.get("core_seconds", np.zeros(1)).mean() for step in problem.steps])
    floored: Array = np.maximum(costs, LEAST_COST)
    return floored


def _programmes(left: Array, costs: Array, rate: float, needed: int) -> tuple[Array, Array]:
    """(p,) expected hits and (p, k) runs of one candidate of which nothing is known, by the programmes at all prices.

    They are those of the nearest point of the grid of u, and hits are scaled from its rate to this one.
    """
    relative = costs / costs[-1]
    programme = solve_left(left, relative[:-1].tolist(), None, needed)
    row = int(nearest(ndtri(np.array([rate])))[0])
    runs = programme.policy.from_rows(np.full(len(PRICES), row, dtype=np.intp))
    hits = (programme.value[row] + PRICES * (runs @ relative)) * rate / float(ndtr(U[row]))
    some = programme.value[row] > 0
    return hits[some], runs[some]


class _Mix(NamedTuple):
    """The best mixture of programmes within the limits."""

    shares: Array
    """(p,) candidates that follow each programme."""
    prices: Array
    """(r,) hits that one more unit of each limit would bring."""
    hits: float
    """Expected hits."""


def _mixed(hits: Array, runs: Array, amounts: Array, limits: Array, candidates: float) -> _Mix | None:
    """None where no limit is drawn on, so that nothing limits what is bought."""
    rows, most = [runs @ row for row in amounts], limits
    if not math.isinf(candidates):
        rows.append(np.ones(len(hits)))
        most = np.append(limits, max(candidates, 0.0))
    if not len(most):
        return None
    solved = linprog(-hits, A_ub=np.vstack(rows), b_ub=most, method="highs")
    if solved.status != 0:
        return None
    return _Mix(solved.x, -solved.ineqlin.marginals[: len(limits)], -solved.fun)


def _weights(spent: Array) -> Array:
    """(r,) weights of the resources, by what each limit would be worth at its price."""
    weights = np.maximum(spent / spent.sum(), LEAST_WEIGHT)
    scaled: Array = weights / weights.sum()
    return scaled
