"""The best purchases within a budget if a given share of the candidates are hits.

The true values and the answers of the rungs are taken as jointly Gaussian. `scheduling.dynamic_programme` gives the
purchases for one candidate at each price. It is solved on the grid `U` of the candidate's prospects u: a candidate
without answers is a hit with the chance Φ(u). A linear programme mixes the purchases: it maximises the expected hits
within all limits of the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.special import ndtr, ndtri
from scipy.stats import multivariate_normal

from sciagent.campaign.planning.plan_inputs import MAX_CORRELATION, Step
from sciagent.campaign.pricing.pool_law_and_cost_unit import LEAST_COST, Allowance, Numeraire
from sciagent.scheduling.aims_and_payoff import both_above, share_told
from sciagent.scheduling.array_types import Array
from sciagent.scheduling.dynamic_programme import FLOOR, PRICES, U, nearest, solve_left
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
    def limit_amounts(self) -> Array:
        """(r,) amounts that the limits allow in all."""
        return np.array([allowance.limit for allowance in self.limits])

    @property
    def needed(self) -> int:
        """Bit mask of the steps that cannot be left out."""
        return sum(1 << place for place, step in enumerate(self.steps[:-1]) if step.is_needed)

    def shares_reached(self, rate: float) -> Array:
        """Returns (k,) shares of the candidates that no step below each one has shown to miss an objective. rate: share
        of hits. The objectives are independent and equally hard to meet."""
        reached = np.ones(len(self.steps))
        n_objectives = len(self.steps[-1].tells)
        for place, step in enumerate(self.steps[:-1]):
            n_decided = sum(tells.kind == "decides" for tells in step.tells)
            if step.rung.rules.ends_misses:
                reached[place + 1 :] *= rate ** (n_decided / n_objectives)
        return reached

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

    ends: `low` or `high` end of a rung's correlation, by index of the step; by default its middle. As under the
    scheduler `priced`, some candidates go up the whole ladder first, for the law to learn from. Programmes spend the
    rest, at prices that are adjusted in rounds.
    """
    n_first = n_warm_up_candidates(problem)
    limit_amounts = problem.limit_amounts
    reached = problem.shares_reached(rate)
    first_runs = n_first * reached
    limits = np.maximum(limit_amounts - problem.amounts @ first_runs, 0.0)
    variance_left = _variance_left(problem, rate, ends or {})
    most_hits = _most_hits(problem, rate, ends or {})
    numeraire = Numeraire(problem.limits)
    places = {allowance.name: place for place, allowance in enumerate(problem.limits)}
    priced = [places[allowance.name] for allowance in numeraire.allowances]  # places of the limits above 0
    # the simplest programme runs nothing but the terminal rung and all needed rungs
    needed_runs = [1.0 if step.is_needed else 0.0 for step in problem.steps[:-1]]
    needed_runs.append(1.0)
    hits = np.array([rate])
    runs = np.minimum([needed_runs], reached)
    best = -1.0  # fewer hits than any programme brings
    for _ in range(MAX_ROUNDS):
        costs = _costs(problem, numeraire, priced)
        more_hits, more_runs = _programmes(variance_left, costs, rate, problem.needed)
        # a programme on the one scale of prospects does not know that a known miss is never run again
        more_runs = np.minimum(more_runs, reached)
        hits = np.concatenate([hits, np.minimum(more_hits, most_hits(more_runs[:, -1]))])
        runs = np.concatenate([runs, more_runs])
        solved = _mixed(hits, runs, problem.amounts, limits, problem.candidates - n_first)
        if solved is None:
            return None
        # scipy minimises the negative number of hits
        prices = -solved.ineqlin.marginals[: len(limits)]
        bought = -solved.fun
        has_converged = bought <= best * (1 + LEAST_RELATIVE_GAIN) + ROUNDING
        is_any_scarce = bool((prices[priced] > 0).any())
        if has_converged or len(priced) < 2 or not is_any_scarce:
            break
        best = bought
        worths = prices[priced] * limit_amounts[priced]  # hits that each whole limit is worth
        weights = np.maximum(worths / worths.sum(), LEAST_WEIGHT)
        numeraire.weights = weights / weights.sum()
    by_name = {allowance.name: float(price) for allowance, price in zip(problem.limits, prices, strict=True)}
    return Purchases(hits=float(solved.x @ hits) + rate * n_first, runs=solved.x @ runs + first_runs, prices=by_name)


def n_warm_up_candidates(problem: BudgetProblem) -> float:
    """Returns the number of candidates that go up the whole ladder to learn the law; see `rules.priced`."""
    limit_amounts = problem.limit_amounts
    n = problem.candidates
    usable = limit_amounts > 0
    if len(problem.steps) == 1 or problem.has_hints or not usable.any():
        return 0.0
    costs = Numeraire(problem.limits).weights / limit_amounts[usable] @ problem.amounts[usable]

    def for_everyone(place: int, of_terminal: float, of_budget: float) -> bool:
        """Whether all candidates get a rung: it costs at most these shares of the terminal rung and of the budget."""
        cost = costs[place]
        return bool(cost <= of_terminal * costs[-1] and (math.isinf(n) or n * cost <= of_budget))

    n_below = len(costs) - 1  # rungs below the terminal one
    n_free = 0  # rungs that all candidates get, so that the law knows them anyway
    for place in range(n_below):
        of_terminal, of_budget = TRUSTED_LIMITS if place in problem.trusted else FREE_LIMITS
        if for_everyone(place, of_terminal, of_budget):
            n_free += 1
    if n_free == 0 and for_everyone(0, *LOWEST_RUNG_LIMITS):
        n_free = 1
    ladders_by_limit = []  # number of whole ladders that each limit allows
    for limit, amount_of_ladder in zip(limit_amounts, problem.amounts.sum(1), strict=True):
        if amount_of_ladder > 0:
            ladders_by_limit.append(float(limit / amount_of_ladder))
    affordable = min(1 / max(float(costs.sum()), LEAST_COST), n)  # costs are shares of the budget
    wanted = whole_ladders(n, n_below - n_free, affordable)
    return float(min([wanted, n, *ladders_by_limit]))


def _variance_left(problem: BudgetProblem, rate: float, ends: Mapping[int, str]) -> Array:
    """Returns (2**(k-1),) share of the variance left after each subset of the rungs below the terminal one."""
    n_subsets = 1 << (len(problem.steps) - 1)
    shares = _shares_told(problem.steps, ends)
    u = ndtri(rate ** (1 / len(shares)))  # the objectives are independent and equally hard to meet
    # second moment of the chance of a hit: the product over the objectives
    second = np.prod([both_above(np.full(n_subsets, u), share) for share in shares], axis=0)
    left: Array = np.maximum(1 - share_told(np.full(n_subsets, rate), second), FLOOR)
    left[0] = 1.0  # the empty subset
    return left


def _most_hits(problem: BudgetProblem, rate: float, ends: Mapping[int, str]) -> Callable[[Array], Array]:
    """Returns a function from (p,) runs of the terminal rung on a candidate to the most hits that they can bring.

    A candidate that is known to miss brings none. Among the others all optional rungs together tell of the objectives
    that are still open, and the best prospects are run.
    """
    reached = float(problem.shares_reached(rate)[-1])
    shares_by_objective = _shares_told(problem.steps, ends)
    u = ndtri(rate ** (1 / len(shares_by_objective)))
    second = 1.0
    for number, shares in enumerate(shares_by_objective):
        if not any(step.tells[number].kind == "decides" for step in problem.steps[:-1]):
            second *= float(both_above(np.array([u]), float(shares[-1]))[0])
    rate_left = rate / reached
    told = float(share_told(np.array([rate_left]), np.array([second]))[0])
    correlation = min(math.sqrt(told), MAX_CORRELATION)
    joint = multivariate_normal([0.0, 0.0], [[1.0, correlation], [correlation, 1.0]])

    def most_hits(terminal_runs: Array) -> Array:
        if reached == 1.0:  # no rung below the terminal one ends a miss
            return np.full(len(terminal_runs), math.inf)
        chosen = ndtri(np.clip(terminal_runs / reached, 0.0, 1.0))
        return reached * np.array([joint.cdf([u_chosen, ndtri(rate_left)]) for u_chosen in chosen])

    return most_hits


def _shares_told(steps: Sequence[Step], ends: Mapping[int, str]) -> list[Array]:
    """Returns, per objective, (2**m,) share of its variance that each subset of rungs explains.

    The errors of the rungs are taken as independent.
    """
    m = len(steps) - 1
    shares = []
    for objective in range(len(steps[-1].tells)):
        odds = np.zeros(1 << m)
        for place, step in enumerate(steps[:-1]):
            tells = step.tells[objective]
            end = ends.get(place, "middle")
            correlation: float = getattr(tells, end)
            square = 1 - FLOOR if tells.kind == "decides" else min(correlation, MAX_CORRELATION) ** 2
            has_rung = np.arange(1 << m) >> place & 1 == 1  # subsets are bit masks
            odds[has_rung] += square / (1 - square)  # independent errors: the odds of the rungs add up
        shares.append(odds / (1 + odds))
    return shares


def _costs(problem: BudgetProblem, numeraire: Numeraire, priced: Sequence[int]) -> Array:
    """Returns (k,) costs of a run of each step, in shares of the budget; in core-seconds without limits."""
    if priced:
        costs = numeraire.weights / problem.limit_amounts[priced] @ problem.amounts[priced]
    else:
        costs = np.array([step.costs.get("core_seconds", np.zeros(1)).mean() for step in problem.steps])
    floored: Array = np.maximum(costs, LEAST_COST)
    return floored


def _programmes(left: Array, costs: Array, rate: float, needed: int) -> tuple[Array, Array]:
    """Returns (p,) expected hits and (p, k) runs of one candidate without answers, by the programmes at all prices.

    The programme is read at the grid point of `U` that is nearest to this rate. Its hits are scaled to this rate.
    """
    relative = costs / costs[-1]
    programme = solve_left(left, relative[:-1].tolist(), failures=None, needed=needed)
    row = int(nearest(ndtri(np.array([rate])))[0])
    runs = programme.policy.expected_purchases_from(np.full(len(PRICES), row, dtype=np.intp))
    # a programme's value is its hits minus price times cost
    hits = (programme.value[row] + PRICES * (runs @ relative)) * rate / float(ndtr(U[row]))
    is_worth_it = programme.value[row] > 0
    return hits[is_worth_it], runs[is_worth_it]


def _mixed(hits: Array, runs: Array, amounts: Array, limits: Array, candidates: float) -> Any:
    """Returns scipy's optimum; None if no limit restricts it. Its `x` is the (p,) number of candidates that follow each
    programme."""
    # for each limit, the (p,) amounts that one candidate of each programme takes
    amounts_taken = [runs @ amounts_of_limit for amounts_of_limit in amounts]
    bounds = limits
    if not math.isinf(candidates):
        amounts_taken.append(np.ones(len(hits)))
        bounds = np.append(limits, max(candidates, 0.0))
    if not len(bounds):
        return None
    solved = linprog(-hits, A_ub=np.vstack(amounts_taken), b_ub=bounds, method="highs")
    return solved if solved.status == 0 else None
