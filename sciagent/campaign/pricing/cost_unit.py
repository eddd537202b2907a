"""One unit of cost for several limits: the mean share that a job takes of each limit, weighted by scarcity.

With weights w that sum to 1, limits B and amounts c of a job, the job costs sum_r w_r c_r / B_r. A price λ in this unit
is a price λ w_r / B_r on each resource. After each fit of the law, resources that would be overdrawn get a larger
weight, and resources that would be left over get a smaller one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sciagent.campaign.spec.campaign_spec import CampaignSpec
from sciagent.domain.campaigns.ladder import PaidIndex, Position
from sciagent.domain.cost import MEASURED
from sciagent.scheduling.arrays import Array

STEP = 0.5  # exponent of the ratio of drawn to left by which a weight is multiplied
LEAST = 1e-4  # weight of a resource that is not scarce
FLOOR = 1e-9  # least cost of a job, as a share of the budget: no job is free


@dataclass(frozen=True)
class Allowance:
    """One limit of the budget."""

    name: str
    """Name of the limit, as in `BudgetTracker.limits`."""
    limit: float
    """Total amount that may be spent, in the resource's unit."""
    resource: str | None = None
    """The limited resource; None if the limit counts jobs of one rung."""
    rung: PaidIndex | None = None
    """Index of the rung whose jobs are counted; None for a resource."""

    def factors(self, learnt: Array) -> Array:
        """Returns (k,) factors from declared to expected amounts. learnt: (k,) learnt factors of measured resources."""
        return learnt if self.resource in MEASURED else np.ones_like(learnt)


class Numeraire:
    """The unit of cost of a campaign. allowances: its limits; if there are none, costs are in core-seconds."""

    def __init__(self, allowances: tuple[Allowance, ...]) -> None:
        self.allowances = tuple(allowance for allowance in allowances if allowance.limit > 0)
        n = len(self.allowances)
        self.weights: Array = np.full(n, 1 / max(n, 1))

    def costs(self, declared: Mapping[str, Array], factors: Array) -> Array:
        """Returns (n, k) costs in shares of the budget. declared: (n, k) amounts by resource; factors: (k,) learnt."""
        total: Array = np.zeros_like(declared["core_seconds"], dtype=float)
        if not self.allowances:
            total += declared["core_seconds"] * factors
        for weight, allowance in zip(self.weights, self.allowances, strict=True):
            if allowance.resource is not None and allowance.resource in declared:
                total += declared[allowance.resource] * (allowance.factors(factors) * weight / allowance.limit)
            elif allowance.rung is not None:
                total[:, allowance.rung] += weight / allowance.limit
        return np.maximum(total, FLOOR, out=total)

    def share(self, amounts: Mapping[str, float]) -> float:
        """Converts amounts, by allowance, to a share of the whole budget."""
        return float(sum(w * amounts[a.name] / a.limit for w, a in zip(self.weights, self.allowances, strict=True)))

    def balanced(self, drawn: Mapping[str, float], left: Mapping[str, float]) -> Array:
        """Returns adjusted weights. drawn: expected amount taken of each allowance; left: amount available."""
        if len(self.allowances) < 2:
            return self.weights
        ratio = np.array([(drawn[a.name] + FLOOR) / max(left[a.name], FLOOR) for a in self.allowances])
        moved = self.weights * np.clip(ratio / ratio.max(), 1e-3, 1.0) ** STEP
        weights: Array = np.maximum(moved / moved.sum(), LEAST)
        weights /= weights.sum()
        return weights

    def price(self, price: float) -> dict[str, float]:
        """Returns the price by allowance, in hits per unit. price: hits per whole budget."""
        return {a.name: price * float(w) / a.limit for w, a in zip(self.weights, self.allowances, strict=True)}


def allowances(spec: CampaignSpec, paid: Sequence[Position]) -> tuple[Allowance, ...]:
    """Returns the limits of the budget, named as in `BudgetTracker.limits`. paid: positions of the rungs to buy."""
    budget = spec.budget
    limits = [Allowance(name, limit, name) for name, limit in (budget.stocks() | budget.rates()).items()]
    for label, limit in budget.rungs.items():
        if (position := spec.position(label)) in paid:
            limits.append(Allowance(f"rung {position}", float(limit), rung=PaidIndex(list(paid).index(position))))
    if budget.wall_minutes is not None:  # counted for all workers, since engines run on one thread
        limits.append(Allowance("wall_seconds", 60 * budget.wall_minutes * spec.workers, "core_seconds"))
    return tuple(limits)
