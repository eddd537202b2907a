"""One unit of cost out of several limits: a job costs the share that it takes of each budget, weighted by how scarce
each is.

With w the weights (they sum to 1), B the limits and c what a job takes of each, a job costs sum_r w_r c_r / B_r. A
price on this one number is a price λ w_r / B_r on each resource. Whatever would be overdrawn at the price that spends
the sum gets more weight, what would be left over gets less, after each look at all candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sciagent.campaign.spec.campaign_spec import CampaignSpec
from sciagent.domain.campaigns.ladder import PaidIndex, Position
from sciagent.domain.cost import MEASURED
from sciagent.scheduling.arrays import Array

STEP = 0.5  # of the logarithm of a weight, for the logarithm of how much too much or too little is drawn
LEAST = 1e-4  # weight of a resource that is not scarce
FLOOR = 1e-9  # share of all that a job costs at least: nothing is free


@dataclass(frozen=True)
class Allowance:
    """One limit of the budget."""

    name: str
    """As `BudgetTracker.limits` names it."""
    limit: float
    """What may be spent in all."""
    resource: str | None = None
    """The resource that is limited; None where jobs of one rung are counted."""
    rung: PaidIndex | None = None
    """The rung whose jobs are counted."""

    def factors(self, learnt: Array) -> Array:
        """(k,) by which jobs take more than declared."""
        return learnt if self.resource in MEASURED else np.ones_like(learnt)


class Numeraire:
    """allowances: the limits of the campaign; without any, costs are core-seconds and nothing is scarce."""

    def __init__(self, allowances: tuple[Allowance, ...]) -> None:
        self.allowances = tuple(allowance for allowance in allowances if allowance.limit > 0)
        n = len(self.allowances)
        self.weights: Array = np.full(n, 1 / max(n, 1))

    def costs(self, declared: Mapping[str, Array], factors: Array) -> Array:
        """(n, k) in shares of the whole budget. declared: by resource, (n, k); factors: (k,) of what is declared."""
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
        """Amounts by allowance, in shares of the whole budget."""
        return float(sum(w * amounts[a.name] / a.limit for w, a in zip(self.weights, self.allowances, strict=True)))

    def balanced(self, drawn: Mapping[str, float], left: Mapping[str, float]) -> Array:
        """Better weights. drawn: what the programme expects to take of each allowance; left: what there is."""
        if len(self.allowances) < 2:
            return self.weights
        ratio = np.array([(drawn[a.name] + FLOOR) / max(left[a.name], FLOOR) for a in self.allowances])
        moved = self.weights * np.clip(ratio / ratio.max(), 1e-3, 1.0) ** STEP
        weights: Array = np.maximum(moved / moved.sum(), LEAST)
        weights /= weights.sum()
        return weights

    def price(self, price: float) -> dict[str, float]:
        """The price of each resource, in hits a unit, from the price on the whole budget."""
        return {a.name: price * float(w) / a.limit for w, a in zip(self.weights, self.allowances, strict=True)}


def allowances(spec: CampaignSpec, paid: Sequence[Position]) -> tuple[Allowance, ...]:
    """The limits of a budget, under the names that `BudgetTracker.limits` gives them, for the positions `paid`."""
    budget = spec.budget
    limits = [Allowance(name, limit, name) for name, limit in budget.resources().items()]
    for label, limit in budget.rungs.items():
        if (position := spec.position(label)) in paid:
            limits.append(Allowance(f"rung {position}", float(limit), rung=PaidIndex(list(paid).index(position))))
    if budget.wall_minutes is not None:  # of all workers: engines run on one thread
        limits.append(Allowance("wall_seconds", 60 * budget.wall_minutes * spec.workers, "core_seconds"))
    return tuple(limits)
