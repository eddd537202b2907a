"""Before a campaign starts: what its budget is likely to buy, and which rungs look worthless; and how sure that is.

Truth and rungs are a joint Gaussian. A rung's correlation with what an objective asks for is learnt where the ledger
has a law of the same rungs, else declared by its verifier, else unknown: a wide range. The dynamic programme of
`scheduling.value` then says what a candidate may be bought at every price, and a linear programme mixes such plans so
that the expected hits are most and every limit of the budget holds. What a rung is worth is the hits with it less the
hits without it, with the same budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import ndtr, ndtri

from sciagent.campaign.core.build import BuiltRung, built_rungs
from sciagent.campaign.planning.inputs import SURE, Step, Tells, asked, from_ledger, paid_of, sample_of, step_of
from sciagent.campaign.planning.wording import assumptions, case_row, limit_row, rung_row, sentences
from sciagent.campaign.pricing.forecast import allowances
from sciagent.campaign.pricing.numeraire import FLOOR as LEAST_COST
from sciagent.campaign.pricing.numeraire import Allowance, Numeraire
from sciagent.campaign.pricing.observations import read
from sciagent.campaign.spec.campaign_spec import CampaignSpec
from sciagent.errors import UsageError
from sciagent.scheduling.payoff import both_above, told
from sciagent.scheduling.rules.priced import FREE, TRUSTED, WARM_UP, WARM_UP_RUNG, WARM_UP_SHARE
from sciagent.scheduling.value import FLOOR, PRICES, U, nearest, solve_left
from sciagent.store.database.ledger import Ledger

if TYPE_CHECKING:
    from sciagent.campaign.core.build import Built

Array = NDArray[np.float64]

RATES = (0.01, 0.05, 0.20)  # shares of candidates that are hits: unknown before a start
ROUNDS = 6  # of prices of the resources
MOST_RUNGS = 5  # below the terminal one that are weighed at once


@dataclass(frozen=True)
class Bought:
    """hits, runs (by rung, the terminal one last) and the price of each allowance in hits a unit, as expected."""

    hits: float
    runs: Array
    prices: Mapping[str, float]


@dataclass(frozen=True)
class Plan:
    """steps: paid rungs, the terminal one last. limits: what may be spent, with (r, k) amounts a run. n: candidates.
    trusted: places of rungs that are known to tell. begins: the law begins with something, before any answer."""

    steps: tuple[Step, ...]
    limits: tuple[Allowance, ...]
    amounts: Array
    n: float
    trusted: frozenset[int]
    begins: bool


def plan(spec: CampaignSpec, ledger: Ledger | None = None) -> dict[str, Any]:
    """The JSON of `sciagent plan`. ledger: read for learnt costs and laws, never written.

    Raises UsageError where no paid rung measures what is wanted, or where no molecule can be read.
    """
    rungs = built_rungs(spec)
    ladder = _Ladder(rungs, spec.terminal_position, paid_of(rungs), spec.domain_objectives(), spec)
    reading = read(cast("Built", ladder))
    if reading is None:
        raise UsageError(
            f'campaign "{spec.campaign}": no paid rung up to "{spec.terminal}" measures an objective; there is nothing '
            "to plan"
        )
    if spec.terminal_position not in reading.paid:
        raise UsageError(f'campaign "{spec.campaign}": its terminal rung is a fast one; there is nothing to plan')
    sample = sample_of(spec, rungs)
    ratios, learnt, rate, source = from_ledger(ledger, spec, rungs, reading)
    steps = tuple(step_of(rungs, reading, i, sample, ratios[p], learnt) for i, p in enumerate(reading.paid))
    left_out = steps[:-1][: max(0, len(steps) - 1 - MOST_RUNGS)]
    kept = tuple(s for s in steps if s not in left_out or s.is_needed)
    places = [steps.index(s) for s in kept]
    limits = allowances(spec, reading.paid)
    amounts = np.array([[_amount(one, steps[j], j) for j in places] for one in limits]).reshape(-1, len(kept))
    n = math.inf if sample.total is None else sample.total * sample.passed
    known = reading.trusted | {reading.columns[hint.column].at for hint in reading.aims.hints}
    trusted = frozenset(places.index(j) for j in known if j in places)
    made = Plan(kept, limits, amounts, n, trusted, bool(reading.aims.hints))
    rates = [(r, "assumed") for r in RATES] + ([(rate, "learnt")] if rate is not None else [])
    cases = [_case(made, r) | {"hit_rate_is": kind} for r, kind in rates]
    deltas = {s.label: [_delta(made, s, c) for c in cases] for s in kept[:-1]}
    wanted = [reading.columns[reading.aims.aims[i].columns[-1]].property for i in asked(reading)]
    found: dict[str, Any] = {
        "campaign": spec.campaign,
        "scheduler": spec.scheduler.kind,
        "goal": spec.goal.model_dump(mode="json"),
        "candidates": None if math.isinf(n) else n,
        "sample": {
            "molecules": len(sample.molecules),
            "from": sample.source,
            "read": sample.read,
            "through_fast_rungs": sample.through_fast,
            "passed": sample.passed,
        },
        "limits": [limit_row(one, spec) for one in limits],
        "first": _first(made),
        "rungs": [rung_row(s, wanted, deltas.get(s.label), s in kept) for s in steps],
        "cases": [case_row(c, limits, spec) for c in cases],
        "learnt_from": source,
    }
    found["assumptions"] = assumptions(found, spec, reading, ledger is not None)
    return found | {"sentences": sentences(found, spec)}


@dataclass(frozen=True)
class _Ladder:
    """What `columns.read` needs of a campaign that is in no ledger yet."""

    rungs: tuple[BuiltRung, ...]
    terminal: int
    paid: tuple[BuiltRung, ...]
    objectives: tuple[Any, ...]
    spec: CampaignSpec


def _amount(one: Allowance, step: Step, at: int) -> float:
    """What one run of a rung takes of a limit, on average."""
    if one.rung is not None:
        return float(one.rung == at)
    amounts = step.costs.get(one.resource or "")
    return 0.0 if amounts is None or not len(amounts) else float(amounts.mean())


def _case(made: Plan, rate: float) -> dict[str, Any]:
    """hits: with every correlation at the low end, in the middle, at the high end."""
    found = {end: buy(made, rate, dict.fromkeys(range(len(made.steps)), end)) for end in ("low", "middle", "high")}
    alone = buy(_without(made, [s for s in made.steps[:-1] if not s.is_needed]), rate)
    middle = found["middle"]
    used = made.amounts @ middle.runs if middle is not None else np.zeros(len(made.limits))
    return {
        "hit_rate": rate,
        "hits": {end: None if one is None else one.hits for end, one in found.items()},
        "terminal_alone": None if alone is None else alone.hits,
        "runs": None if middle is None else {s.label: float(x) for s, x in zip(made.steps, middle.runs, strict=True)},
        "used": {a.name: float(x) for a, x in zip(made.limits, used, strict=True)},
        "price": {a.name: 0.0 if middle is None else middle.prices[a.name] for a in made.limits},
        "bought": middle,
    }


def _delta(made: Plan, step: Step, case: Mapping[str, Any]) -> dict[str, Any]:
    """Hits with a rung less hits without it, over the range of its own correlation; None where it cannot be left out,
    or where nothing would limit what is bought."""
    rate, at = case["hit_rate"], made.steps.index(step)
    without = None if step.is_needed else buy(_without(made, [step]), rate)
    ends = {"low": buy(made, rate, {at: "low"}), "middle": case["bought"], "high": buy(made, rate, {at: "high"})}
    if without is None:
        return {"hit_rate": rate, "low": None, "middle": None, "high": None, "without": None}
    gains = {end: None if found is None else found.hits - without.hits for end, found in ends.items()}
    return {"hit_rate": rate, **gains, "without": without.hits}


def _without(made: Plan, gone: Sequence[Step]) -> Plan:
    kept = [j for j, s in enumerate(made.steps) if s not in gone]
    trusted = frozenset(kept.index(j) for j in made.trusted if j in kept)
    return replace(made, steps=tuple(made.steps[j] for j in kept), amounts=made.amounts[:, kept], trusted=trusted)


def buy(made: Plan, rate: float, ends: Mapping[int, str] | None = None) -> Bought | None:
    """What is best bought if this share of the candidates are hits; None where no limit of the budget is drawn on and
    candidates are without number. ends: by place, where a rung's correlation is not the middle of its range.

    The law is learnt on whole ladders first, as `priced` does; what is left of the limits is spent by programmes.
    """
    k = len(made.steps)
    shares = _shares(made.steps, ends or {})
    u = ndtri(rate ** (1 / len(shares)))
    second = np.prod([both_above(np.full(1 << (k - 1), u), share) for share in shares], axis=0)
    left = np.maximum(1 - told(np.full(1 << (k - 1), rate), second), FLOOR)
    left[0] = 1.0
    needed = sum(1 << j for j, s in enumerate(made.steps[:-1]) if s.is_needed)
    most = np.array([one.limit for one in made.limits])
    first = _first(made)
    limits, n = np.maximum(most - made.amounts @ np.full(k, first), 0.0), made.n - first
    numeraire = Numeraire(made.limits)
    every = {a.name: i for i, a in enumerate(made.limits)}
    used = [every[a.name] for a in numeraire.allowances]
    alone = np.array([float(j == k - 1 or bool(needed >> j & 1)) for j in range(k)])
    hits, runs = np.array([rate]), alone[None]
    best, duals, chosen = -1.0, np.zeros(len(limits)), np.zeros(0)
    for _ in range(ROUNDS):
        if used:
            costs = numeraire.weights / most[used] @ made.amounts[used]
        else:
            costs = np.array([s.costs.get("core_seconds", np.zeros(1)).mean() for s in made.steps])
        costs = np.maximum(costs, LEAST_COST)
        more_hits, more_runs = _plans(left, costs, rate, needed)
        hits, runs = np.concatenate([hits, more_hits]), np.concatenate([runs, more_runs])
        a = np.vstack([runs @ row for row in made.amounts] + ([] if math.isinf(n) else [np.ones(len(hits))]))
        b = np.append(limits, [] if math.isinf(n) else [max(n, 0.0)])
        solved = linprog(-hits, A_ub=a, b_ub=b, method="highs") if len(b) else None
        if solved is None or solved.status != 0:
            return None
        chosen, duals = solved.x, -solved.ineqlin.marginals[: len(limits)]
        if -solved.fun <= best * (1 + 1e-4) + 1e-12 or len(used) < 2 or not (duals[used] > 0).any():
            break
        best = -solved.fun
        weights = duals[used] * most[used]
        numeraire.weights = np.maximum(weights / weights.sum(), 1e-4)
        numeraire.weights = numeraire.weights / numeraire.weights.sum()
    prices = {one.name: float(dual) for one, dual in zip(made.limits, duals, strict=True)}
    return Bought(float(chosen @ hits) + rate * first, chosen @ runs + first, prices)


def _shares(steps: Sequence[Step], ends: Mapping[int, str]) -> list[Array]:
    """Of each objective the share of its variance that sets of rungs tell, (2**m,): they err independently."""
    m, found = len(steps) - 1, []
    for i in range(len(steps[-1].tells)):
        odds = np.zeros(1 << m)
        for j, step in enumerate(steps[:-1]):
            one = step.tells[i]
            r = one.at(ends.get(j, "middle"))
            square = 1 - FLOOR if one.kind == "decides" else min(r, SURE) ** 2
            odds[np.arange(1 << m) >> j & 1 == 1] += square / (1 - square)
        found.append(odds / (1 + odds))
    return found


def _plans(left: Array, costs: Array, rate: float, needed: int) -> tuple[Array, Array]:
    """(p,) expected hits and (p, k) runs of one candidate that nothing is known of, by the programmes at all prices.

    They are those of the nearest point of the grid of u, and hits are scaled from its rate to this one."""
    relative = costs / costs[-1]
    programme = solve_left(left, relative[:-1].tolist(), None, needed)
    row = int(nearest(ndtri(np.array([rate])))[0])
    runs = programme.policy.from_rows(np.full(len(PRICES), row, dtype=np.intp))
    hits = (programme.value[row] + PRICES * (runs @ relative)) * rate / float(ndtr(U[row]))
    some = programme.value[row] > 0
    return hits[some], runs[some]


def _first(made: Plan) -> float:
    """Candidates that go up the whole ladder for the law to learn from; see `rules.priced`."""
    most = np.array([one.limit for one in made.limits])
    usable = most > 0
    if len(made.steps) == 1 or made.begins or not usable.any():
        return 0.0
    costs = Numeraire(made.limits).weights / most[usable] @ made.amounts[usable]
    free = 0
    for j, cost in enumerate(costs[:-1]):
        of_terminal, of_budget = TRUSTED if j in made.trusted else FREE
        free += bool(cost <= of_terminal * costs[-1] and (math.isinf(made.n) or made.n * cost <= of_budget))
    price = max(float(costs.sum()), LEAST_COST)
    wanted = WARM_UP + WARM_UP_RUNG * (len(costs) - 1 - free)
    wanted = max(WARM_UP, min(wanted, int(WARM_UP_SHARE * min(1.0, made.n * price) / price)))
    room = [float(limit / a) for limit, a in zip(most, made.amounts.sum(1), strict=True) if a > 0]
    return float(min([wanted, made.n, *room]))


__all__ = ["Bought", "Plan", "Step", "Tells", "buy", "plan"]
