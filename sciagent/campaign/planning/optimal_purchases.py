"""The best purchases within a budget if a given share of the candidates are hits.

The true values and the answers of the rungs are taken as jointly Gaussian. `scheduling.dynamic_programme` gives the
purchases for one candidate at each price. A linear programme mixes these purchases: it maximises the expected hits
within all limits of the budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.special import ndtr, ndtri

from sciagent.campaign.planning.plan_inputs import MAX_CORRELATION, Step
from sciagent.campaign.pricing.priced_campaign import LEAST_COST, Allowance, Numeraire
from sciagent.scheduling.array_types import Array
from sciagent.scheduling.dynamic_programme import FLOOR, PRICES, U, nearest, solve_left
from sciagent.scheduling.payoff import both_above, share_told
from sciagent.scheduling.rules.priced import FREE_LIMITS, LOWEST_RUNG_LIMITS, TRUSTED_LIMITS
from sciagent.scheduling.rules.warm_up import whole_ladders

MAX_ROUNDS = 6  # most rounds in which the prices of resources are adjusted
LEAST_RELATIVE_GAIN = 1e-4  # relative gain in hits below which prices are adjusted no further
ROUNDING = 1e-12  # hits by which a programme may seem better through rounding alone
LEAST_WEIGHT = 1e-4  # weight of a resource that is not scarce


@dataclass(frozen=True)
class BudgetProblem:
    """The rungs that may be bought, and the limits of the budget."""

    steps: tuple[Step, ...]
    """Paid rungs, the terminal one last."""
    limits: tuple[Allowance, ...]
    """The limits of the budget."""
    amounts: Array
    """(r, k): amount of each of the r limits that one run of each of the k steps takes."""
    candidates: float
    """Number of candidates that pass the fast rungs; infinite without a limit."""
    trusted: frozenset[int]
    """Indices of steps that measure an objective's own property."""
    has_hints: bool
    """Whether the law has hints before the first answer."""

    @property
    def most(self) -> Array:
        """(r,) amounts of the limits."""
        return np.array([allowance.limit for allowance in self.limits])

    @property
    def needed(self) -> int:
        """Bit mask of the steps that cannot be left out."""
        return sum(1 << place for place, step in enumerate(self.steps[:-1]) if step.is_needed)

    def without(self, gone: Sequence[Step]) -> BudgetProblem:
        """Returns the problem without these steps."""
        kept = [place for place, step in enumerate(self.steps) if step not in gone]
        trusted = frozenset(kept.index(place) for place in self.trusted if place in kept)
        steps = tuple(self.steps[place] for place in kept)
        return replace(self, steps=steps, amounts=self.amounts[:, kept], trusted=trusted)


@dataclass(frozen=True)
class Purchases:
    """The best purchases within the budget."""

    hits: float
    """Expected number of hits."""
    runs: Array
    """(k,) expected number of runs of each step."""
    prices: Mapping[str, float]
    """Further hits per further unit of each limit, by allowance."""


def buy(problem: BudgetProblem, rate: float, ends: Mapping[int, str] | None = None) -> Purchases | None:
    """Returns the best purchases if the share `rate` of the candidates are hits; None if no limit restricts them.

    ends: `low` or `high` end of a rung's correlation, by index of the step; by default its middle. As under `priced`,
    some whole ladders are bought first to learn the law. Programmes spend the rest, at prices that are adjusted.
    """
    first = warm_up(problem)
    most = problem.most
    limits = np.maximum(most - problem.amounts @ np.full(len(problem.steps), first), 0.0)
    left = _variance_left(problem, rate, ends or {})
    numeraire = Numeraire(problem.limits)
    places = {allowance.name: place for place, allowance in enumerate(problem.limits)}
    priced = [places[allowance.name] for allowance in numeraire.allowances]
    last = len(problem.steps) - 1
    needed = [1.0 if place == last or problem.needed >> place & 1 else 0.0 for place in range(last + 1)]
    hits = np.array([rate])
    runs = np.array([needed])  # the terminal rung and all needed rungs
    best = -1.0  # fewer hits than any programme brings
    for _ in range(MAX_ROUNDS):
        more_hits, more_runs = _programmes(left, _costs(problem, numeraire, priced), rate, problem.needed)
        hits = np.concatenate([hits, more_hits])
        runs = np.concatenate([runs, more_runs])
        solved = _mixed(hits, runs, problem.amounts, limits, problem.candidates - first)
        if solved is None:
            return None
        prices = -solved.ineqlin.marginals[: len(limits)]
        bought = -solved.fun
        has_converged = bought <= best * (1 + LEAST_RELATIVE_GAIN) + ROUNDING
        is_any_scarce = bool((prices[priced] > 0).any())
        if has_converged or len(priced) < 2 or not is_any_scarce:
            break
        best = bought
        spent = prices[priced] * most[priced]
        weights = np.maximum(spent / spent.sum(), LEAST_WEIGHT)
        numeraire.weights = weights / weights.sum()
    by_name = {allowance.name: float(price) for allowance, price in zip(problem.limits, prices, strict=True)}
    return Purchases(float(solved.x @ hits) + rate * first, solved.x @ runs + first, by_name)


def warm_up(problem: BudgetProblem) -> float:
    """Returns the number of candidates that go up the whole ladder to learn the law; see `rules.priced`."""
    most = problem.most
    n = problem.candidates
    usable = most > 0
    if len(problem.steps) == 1 or problem.has_hints or not usable.any():
        return 0.0
    costs = Numeraire(problem.limits).weights / most[usable] @ problem.amounts[usable]

    def for_everyone(place: int, of_terminal: float, of_budget: float) -> bool:
        cost = costs[place]
        return bool(cost <= of_terminal * costs[-1] and (math.isinf(n) or n * cost <= of_budget))

    n_below = len(costs) - 1  # rungs below the terminal one
    n_free = 0
    for place in range(n_below):
        of_terminal, of_budget = TRUSTED_LIMITS if place in problem.trusted else FREE_LIMITS
        if for_everyone(place, of_terminal, of_budget):
            n_free += 1
    if n_free == 0 and for_everyone(0, *LOWEST_RUNG_LIMITS):
        n_free = 1
    ladders_by_limit = [float(limit / a) for limit, a in zip(most, problem.amounts.sum(1), strict=True) if a > 0]
    affordable = min(1 / max(float(costs.sum()), LEAST_COST), n)
    wanted = whole_ladders(n, n_below - n_free, affordable)
    return float(min([wanted, n, *ladders_by_limit]))


def _variance_left(problem: BudgetProblem, rate: float, ends: Mapping[int, str]) -> Array:
    """Returns (2**(k-1),) share of the variance left after each subset of the rungs below the terminal one."""
    sets = 1 << (len(problem.steps) - 1)
    shares = _shares_told(problem.steps, ends)
    u = ndtri(rate ** (1 / len(shares)))
    second = np.prod([both_above(np.full(sets, u), share) for share in shares], axis=0)
    left: Array = np.maximum(1 - share_told(np.full(sets, rate), second), FLOOR)
    left[0] = 1.0
    return left


def _shares_told(steps: Sequence[Step], ends: Mapping[int, str]) -> list[Array]:
    """Returns, per objective, (2**m,) share of its variance that each subset of rungs explains; errors independent."""
    m = len(steps) - 1
    shares = []
    for objective in range(len(steps[-1].tells)):
        odds = np.zeros(1 << m)
        for place, step in enumerate(steps[:-1]):
            tells = step.tells[objective]
            r: float = getattr(tells, ends.get(place, "middle"))
            square = 1 - FLOOR if tells.kind == "decides" else min(r, MAX_CORRELATION) ** 2
            has_rung = np.arange(1 << m) >> place & 1 == 1  # subsets are bit masks
            odds[has_rung] += square / (1 - square)
        shares.append(odds / (1 + odds))
    return shares


def _costs(problem: BudgetProblem, numeraire: Numeraire, priced: Sequence[int]) -> Array:
    """Returns (k,) costs of a run of each step, in shares of the budget; in core-seconds without limits."""
    if priced:
        costs = numeraire.weights / problem.most[priced] @ problem.amounts[priced]
    else:
        costs = np.array([step.costs.get("core_seconds", np.zeros(1)).mean() for step in problem.steps])
    floored: Array = np.maximum(costs, LEAST_COST)
    return floored


def _programmes(left: Array, costs: Array, rate: float, needed: int) -> tuple[Array, Array]:
    """Returns (p,) expected hits and (p, k) runs of one candidate without answers, by the programmes at all prices.

    The values are those of the nearest grid point of u; hits are scaled from its rate to this rate.
    """
    relative = costs / costs[-1]
    programme = solve_left(left, relative[:-1].tolist(), None, needed)
    row = int(nearest(ndtri(np.array([rate])))[0])
    runs = programme.policy.from_rows(np.full(len(PRICES), row, dtype=np.intp))
    hits = (programme.value[row] + PRICES * (runs @ relative)) * rate / float(ndtr(U[row]))
    some = programme.value[row] > 0
    return hits[some], runs[some]


def _mixed(hits: Array, runs: Array, amounts: Array, limits: Array, candidates: float) -> Any:
    """Returns scipy's optimum, whose x are the (p,) candidates that follow each programme; None without a limit that
    restricts them."""
    rows = [runs @ row for row in amounts]
    most = limits
    if not math.isinf(candidates):
        rows.append(np.ones(len(hits)))
        most = np.append(limits, max(candidates, 0.0))
    if not len(most):
        return None
    solved = linprog(-hits, A_ub=np.vstack(rows), b_ub=most, method="highs")
    return solved if solved.status == 0 else None
