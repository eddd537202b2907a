"""What a priced campaign decides with, made from the ledger: for its driver, and for whoever explains a candidate."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.pricing.ledger_pool import LedgerPool
from sciagent.campaign.pricing.numeraire import Numeraire, allowances
from sciagent.campaign.pricing.observations import ObservationSchema, observation_schema
from sciagent.campaign.spec.sources import PricedSpec
from sciagent.scheduling.arrays import Array
from sciagent.scheduling.rules.priced import SOME, Priced
from sciagent.store.campaign_state import campaigns
from sciagent.store.results import laws

DECIDING = 1e-3  # seconds that a decision takes at least, whatever it buys
TIMES = ("core_seconds", "gpu_seconds")


@dataclass(frozen=True)
class PricedCampaign:
    """A campaign's candidates, its unit of cost and its law, as of the last row of `law` and the evidence of now."""

    built: Built
    """The campaign."""
    schema: ObservationSchema
    """Which answers the law observes."""
    pool: LedgerPool
    """The candidates, with costs in the numeraire's unit."""
    numeraire: Numeraire
    """The unit of cost, with the weights that the law was written with."""
    scheduler: Priced
    """The law with the hyper-parameters of the row, or of the campaign that it learns from."""
    row: laws.LawRow | None
    """The last row of `law`; None before the first, and where it was learnt of other rungs."""

    @property
    def factors(self) -> Array:
        """(k,) what a job of each rung costs, over what its verifier declares."""
        return np.array([self.built.rungs[position].cost_model.factor for position in self.schema.paid])

    def price_jobs(self) -> None:
        """Write the expected costs of all jobs into the pool, by what was learnt of each rung's."""
        self.pool.costs = self.numeraire.costs(self.pool.declared, self.factors)

    def seconds(self) -> Array:
        """(k,) how long a job of each rung keeps all workers busy; for ever where it takes more than their time."""
        rows = self.pool.open
        rows = rows[:: math.ceil(len(rows) / SOME) or 1]
        total = np.zeros(len(self.factors))
        for resource, declared in self.pool.declared.items():
            each = np.median(declared[rows], axis=0) if len(rows) else np.zeros(len(total))
            total += each * self.factors if resource in TIMES else np.where(each > 0, np.inf, 0.0)
        busy: Array = total / self.built.spec.workers + DECIDING
        return busy

    def drawn(self) -> dict[str, float]:
        """By allowance, what the law expects to draw of each budget for all open candidates."""
        bought, declared, factors = self.scheduler.purchases, self.pool.declared, self.factors
        rows = self.pool.open
        rows = rows[rows < len(bought)]
        drawn = dict.fromkeys((allowance.name for allowance in self.numeraire.allowances), 0.0)
        for allowance in self.numeraire.allowances:
            if allowance.rung is not None:
                drawn[allowance.name] = float(bought[rows, allowance.rung].sum())
            elif allowance.resource in declared:
                amounts = bought[rows] * declared[allowance.resource][rows] * allowance.factors(factors)
                drawn[allowance.name] = float(amounts.sum())
        return drawn


def priced_campaign(built: Built, connection: Connection) -> PricedCampaign | None:
    """The campaign as of the ledger; None where nothing can be bought that leads to an objective."""
    schema, spec = observation_schema(built), built.spec.scheduler
    if schema is None:
        return None
    teacher = spec.law.source if isinstance(spec, PricedSpec) and spec.law is not None else None
    source = None if teacher is None else campaigns.get(connection, teacher).id
    pool = LedgerPool(built, schema.paid, schema, connection, source)
    numeraire = Numeraire(allowances(built.spec, schema.paid))
    similarity = pool.structures if built.spec.subject == "molecule" else None
    budget = 1.0 if numeraire.allowances else math.inf
    scheduler = Priced(schema.aims, similarity, built.spec.seed, budget, schema.trusted)
    row = _last_law(connection, built, schema)
    if row is not None:
        names, weights = [allowance.name for allowance in numeraire.allowances], row.state["weights"]
        if set(names) == set(weights):  # else the budget was amended
            numeraire.weights = np.array([weights[name] for name in names], dtype=float)
        scheduler.restore(row.state["priced"])
    elif source is not None and (learnt := laws.last(connection, source)) is not None:
        scheduler.learn_from(learnt.state["priced"])
    campaign = PricedCampaign(built, schema, pool, numeraire, scheduler, row)
    campaign.price_jobs()
    return campaign


def _last_law(connection: Connection, built: Built, schema: ObservationSchema) -> laws.LawRow | None:
    """The campaign's last law; None where it was learnt of other rungs."""
    row = laws.last(connection, built.row.id)
    same = row is not None and row.state["columns"] == [[c.rung, c.property] for c in schema.columns]
    return row if same else None
