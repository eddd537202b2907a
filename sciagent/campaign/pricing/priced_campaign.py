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
from sciagent.scheduling.rules.priced import Priced
from sciagent.store.campaign_state import campaigns
from sciagent.store.results import laws


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


def priced_campaign(built: Built, connection: Connection) -> PricedCampaign | None:
    """None where nothing can be bought that leads to an objective."""
    schema, spec = observation_schema(built), built.spec.scheduler
    if schema is None:
        return None
    source = None
    if isinstance(spec, PricedSpec) and spec.law is not None:
        source = campaigns.get(connection, spec.law.source).id
    pool = LedgerPool(built, schema.paid, schema, connection, source)
    numeraire = Numeraire(allowances(built.spec, schema.paid))
    similarity = pool.structures if built.spec.subject == "molecule" else None
    budget = 1.0 if numeraire.allowances else math.inf
    scheduler = Priced(schema.aims, similarity, built.spec.seed, budget, schema.trusted)
    row = laws.last(connection, built.row.id)
    if row is not None and row.state["columns"] != [[c.rung, c.property] for c in schema.columns]:
        row = None
    if row is not None:
        names, weights = [one.name for one in numeraire.allowances], row.state["weights"]
        if set(names) == set(weights):  # else the budget was amended
            numeraire.weights = np.array([weights[name] for name in names], dtype=float)
        scheduler.restore(row.state["priced"])
    elif source is not None and (learnt := laws.last(connection, source)) is not None:
        scheduler.learn_from(learnt.state["priced"])
    found = PricedCampaign(built, schema, pool, numeraire, scheduler, row)
    found.price_jobs()
    return found
