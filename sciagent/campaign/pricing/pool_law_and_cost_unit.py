"""Builds the pool, cost unit and law of a priced campaign from the ledger, for drivers, explanations and plans.

`priced_campaign` is for a driver. `rebuild_with_law` also computes the law and the price, without fitting
hyper-parameters again and without writing anything. `Numeraire` is the unit of cost, made of the `Allowance`s of the
budget. The law is the model that predicts the answers of rungs; the price is the least payoff per cost at which a
purchase is worth its cost.

The unit of cost for several limits is the mean share that a job takes of each limit, weighted by scarcity.
With weights w that sum to 1, limits B and amounts c of a job, the job costs sum_r w_r c_r / B_r. A price λ in this unit
is a price λ w_r / B_r on each resource. After each fit of the law, resources that would be overdrawn get a larger
weight, and resources that would be left over get a smaller one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.file.campaign_spec import CampaignSpec
from sciagent.campaign.pricing.observation_schema_and_ledger_pool import (
    LedgerPool,
    ObservationSchema,
    observation_schema,
)
from sciagent.domain.cost_and_budget import MEASURED
from sciagent.domain.rung_positions_and_tiers import PaidIndex, Position
from sciagent.scheduling.array_types import Array
from sciagent.scheduling.rules.priced import COST_SAMPLE, Priced
from sciagent.scheduling.rules.priced_settings import PricedSpec
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.results import laws_and_audits

WEIGHT_EXPONENT = 0.5  # exponent of the ratio of drawn to left by which a weight is multiplied
LEAST_WEIGHT = 1e-4  # weight of a resource that is not scarce
LEAST_RATIO = 1e-3  # least ratio of drawn to left, relative to the largest one, by which a weight is multiplied
LEAST_COST = 1e-9  # least cost of a job, as a share of the budget: no job is free
DECISION_SECONDS = 1e-3  # least time of a decision in seconds
TIME_RESOURCES = ("core_seconds", "gpu_seconds")
WALL_ALLOWANCE = "wall_seconds"  # the allowance of all workers' wall time
VERIFICATIONS_ALLOWANCE = "verifications"  # the allowance of candidates that the terminal rung is asked about


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

    def costs(
        self, declared: Mapping[str, Array], factors: Array, ceilings: Mapping[str, Array] | None = None
    ) -> Array:
        """Returns (n, k) costs of the jobs of n candidates at k rungs, in shares of the budget.

        declared: (n, k) declared amounts by resource. factors: (k,) learnt factors from declared to expected amounts.
        ceilings: (k,) largest amounts by resource that a job of each rung may take; None: no limits.
        """
        largest_amounts = ceilings or {}
        total: Array = np.zeros_like(declared["core_seconds"], dtype=float)
        if not self.allowances:
            total += np.minimum(declared["core_seconds"] * factors, largest_amounts.get("core_seconds", math.inf))
        for weight, allowance in zip(self.weights, self.allowances, strict=True):
            resource = allowance.resource
            if resource is not None and resource in declared:
                amounts = declared[resource] * allowance.factors(factors)
                limited_amounts = np.minimum(amounts, largest_amounts.get(resource, math.inf))
                total += limited_amounts * (weight / allowance.limit)
            elif allowance.rung is not None:
                total[:, allowance.rung] += weight / allowance.limit
        return np.maximum(total, LEAST_COST, out=total)

    def share(self, amounts: Mapping[str, float]) -> float:
        """Converts amounts, by allowance, to a share of the whole budget; an allowance without an amount adds
        nothing."""
        share = 0.0
        for weight, allowance in zip(self.weights, self.allowances, strict=True):
            share += weight * amounts.get(allowance.name, 0.0) / allowance.limit
        return float(share)

    def balanced(self, drawn: Mapping[str, float], left: Mapping[str, float]) -> Array:
        """Returns adjusted weights: larger ones for allowances that would be overdrawn, smaller ones for the others.

        drawn: amount that is expected to be taken of each allowance. left: amount that is available.
        """
        if len(self.allowances) < 2:
            return self.weights
        ratios = []
        for allowance in self.allowances:
            drawn_amount = drawn[allowance.name] + LEAST_COST
            ratios.append(drawn_amount / max(left[allowance.name], LEAST_COST))  # no division by 0
        ratio = np.array(ratios)
        moved = self.weights * np.clip(ratio / ratio.max(), LEAST_RATIO, 1.0) ** WEIGHT_EXPONENT
        weights: Array = np.maximum(moved / moved.sum(), LEAST_WEIGHT)
        weights /= weights.sum()
        return weights

    def price(self, price: float) -> dict[str, float]:
        """Returns the price by allowance, in hits per unit. price: hits per whole budget."""
        price_by_allowance = {}
        for weight, allowance in zip(self.weights, self.allowances, strict=True):
            price_by_allowance[allowance.name] = price * float(weight) / allowance.limit
        return price_by_allowance


def allowances(spec: CampaignSpec, paid: Sequence[Position], since: datetime | None = None) -> tuple[Allowance, ...]:
    """Returns the limits of the budget, named as in `BudgetTracker.limits`.

    A weekly limit counts for all weeks until its end; without an end, it counts for one week. paid: positions of the
    rungs to buy. since: beginning of the campaign; default: now.
    """
    budget = spec.budget
    weeks = budget.weeks(since or datetime.now(UTC))
    n_weeks = 1.0 if weeks is None else weeks
    weekly_limits = {name: rate * n_weeks for name, rate in budget.rates().items()}
    limit_by_resource = budget.stocks() | weekly_limits
    limits = [Allowance(name, limit, resource=name) for name, limit in limit_by_resource.items()]
    for label, limit in budget.rungs.items():
        position = spec.position(label)
        if position in paid:
            rung_index = PaidIndex(paid.index(position))
            limits.append(Allowance(f"rung {position}", float(limit), rung=rung_index))
    if budget.wall_minutes is not None:  # counted for all workers, since engines run on one thread
        worker_seconds = 60 * budget.wall_minutes * spec.workers
        limits.append(Allowance(WALL_ALLOWANCE, worker_seconds, resource="core_seconds"))
    return tuple(limits)


def verification_allowance(spec: CampaignSpec, paid: Sequence[Position]) -> Allowance | None:
    """Returns the limit `budget.verifications`; None if it is not set or the terminal rung is not bought.

    It is no part of the unit of cost of `priced`, which therefore does not release it in step with the proposals; a
    limit of the terminal rung in `budget.rungs` is released so. paid: positions of the rungs to buy.
    """
    limit = spec.budget.verifications
    terminal = spec.terminal_position
    if limit is None or terminal not in paid:
        return None
    return Allowance(VERIFICATIONS_ALLOWANCE, float(limit), rung=PaidIndex(paid.index(terminal)))


@dataclass(frozen=True)
class PricedCampaign:
    """A campaign's candidates, unit of cost and law, by the last row of `law` and the current evidence."""

    built: Built
    """The campaign."""
    schema: ObservationSchema
    """The answers that the law observes."""
    pool: LedgerPool
    """The candidates, with costs in the numeraire's unit."""
    numeraire: Numeraire
    """The unit of cost, with the weights of the last row of `law`."""
    scheduler: Priced
    """The scheduler, with hyper-parameters of the last row or of the campaign that it learns from."""
    row: laws_and_audits.LawRow | None
    """The last row of `law`; None if there is none or it is for other rungs."""

    @property
    def factors(self) -> Array:
        """(k,) ratio of learnt to declared cost of a job of each rung."""
        return np.array([self.built.rungs[position].cost_model.factor for position in self.schema.paid])

    @property
    def ceilings(self) -> dict[str, Array]:
        """(k,) largest amounts, by resource, that the limits of each rung allow to a job."""
        by_rung = [self.built.rungs[position].ceilings for position in self.schema.paid]
        names = sorted(set(chain.from_iterable(by_rung)))
        return {name: np.array([ceilings.get(name, math.inf) for ceilings in by_rung]) for name in names}

    def price_jobs(self) -> None:
        """Writes the expected costs of all jobs into the pool, by declared costs, learnt factors and the jobs' own
        limits."""
        self.pool.costs = self.numeraire.costs(self.pool.declared, self.factors, self.ceilings)

    def is_taken_by_jobs(self, allowance: Allowance) -> bool:
        """Whether a job of a candidate takes some of the allowance; most tokens, for example, go to the proposer."""
        return allowance.resource is None or allowance.resource in self.pool.declared

    def seconds_per_job(self) -> Array:
        """Returns (k,) seconds that a job of each rung keeps all workers busy; infinite if it takes other resources."""
        open_rows = self.pool.open
        step = max(1, math.ceil(len(open_rows) / COST_SAMPLE))
        sample = open_rows[::step]
        total = np.zeros(len(self.factors))
        for resource, declared in self.pool.declared.items():
            if not len(sample):
                continue
            amounts = np.median(declared[sample], axis=0)
            if resource in TIME_RESOURCES:
                total += amounts * self.factors
            else:
                total += np.where(amounts > 0, np.inf, 0.0)
        busy: Array = total / self.built.spec.workers + DECISION_SECONDS
        return busy

    def drawn(self) -> dict[str, float]:
        """Returns the amounts that the law expects to spend on all open candidates, by allowance."""
        expected_runs = self.scheduler.purchases
        declared = self.pool.declared
        factors = self.factors
        rows = self.pool.open
        rows = rows[rows < len(expected_runs)]  # later rows were not evaluated yet
        drawn = dict.fromkeys((allowance.name for allowance in self.numeraire.allowances), 0.0)
        for allowance in self.numeraire.allowances:
            if allowance.rung is not None:
                drawn[allowance.name] = float(expected_runs[rows, allowance.rung].sum())
            elif allowance.resource in declared:
                amounts = expected_runs[rows] * declared[allowance.resource][rows] * allowance.factors(factors)
                drawn[allowance.name] = float(amounts.sum())
        return drawn


def priced_campaign(built: Built, connection: Connection) -> PricedCampaign | None:
    """Builds the campaign from the ledger; returns None if no paid rung leads to an objective."""
    schema = observation_schema(built)
    spec = built.spec.scheduler
    if schema is None:
        return None
    source_id = None  # ledger id of the campaign that the law learns from
    if isinstance(spec, PricedSpec) and spec.law is not None and spec.law.source is not None:
        source_id = campaigns.get(connection, spec.law.source).id
    pool = LedgerPool(built, schema.paid, schema, connection, source_id)
    numeraire = Numeraire(allowances(built.spec, schema.paid, built.row.created_at))
    budget = 1.0 if numeraire.allowances else math.inf  # costs are shares of the budget
    scheduler = Priced(
        schema.aims, pool.structures, built.spec.seed, budget=budget, trusted=schema.trusted, earlier=pool.n_earlier
    )
    row = _last_law(connection, built, schema)
    if row is not None:
        names = [allowance.name for allowance in numeraire.allowances]
        weights = row.state["weights"]
        if set(names) == set(weights):  # not so after an amendment of the budget
            numeraire.weights = np.array([weights[name] for name in names], dtype=float)
        scheduler.restore(row.state["priced"])
    elif source_id is not None:
        source_law = laws_and_audits.last(connection, source_id)
        if source_law is not None:
            scheduler.learn_from(source_law.state["priced"])
    campaign = PricedCampaign(built, schema, pool, numeraire, scheduler, row)
    campaign.price_jobs()
    return campaign


def rebuild_with_law(built: Built, connection: Connection) -> PricedCampaign | None:
    """Rebuilds the campaign with its current law and price; returns None if there is no law or it is for other
    rungs."""
    campaign = priced_campaign(built, connection)
    if campaign is None or campaign.row is None or not campaign.scheduler.is_learnt:
        return None
    pool = campaign.pool
    scheduler = campaign.scheduler
    scheduler.relearn(pool)  # with the hyper-parameters of the law's row
    if not scheduler.laws:
        return None
    scheduler.price = _price(connection, campaign, campaign.row)
    return campaign


def _price(connection: Connection, campaign: PricedCampaign, row: laws_and_audits.LawRow) -> float:
    """Returns the price at the last purchase by this law; if there is none, the price in the law's row."""
    d = t.decision.c
    query = sa.select(d.price).where(
        d.campaign_id == campaign.built.row.id, d.action == "run", d.law_version == row.version
    )
    last_prices = connection.execute(query.order_by(d.id.desc()).limit(1)).scalar()  # by allowance
    limits = {allowance.name: allowance.limit for allowance in campaign.numeraire.allowances}
    if last_prices and set(last_prices) == set(limits):
        # the sum of price * limit is the price per budget, since the weights sum to 1
        return float(sum(price * limits[name] for name, price in last_prices.items()))
    return float(row.state["priced"]["price"])


def _last_law(connection: Connection, built: Built, schema: ObservationSchema) -> laws_and_audits.LawRow | None:
    """Returns the campaign's last row of `law`; None if there is none or it is for other rungs."""
    row = laws_and_audits.last(connection, built.row.id)
    columns = [[column.rung, column.property] for column in schema.columns]
    if row is None or row.state["columns"] != columns:
        return None
    return row
