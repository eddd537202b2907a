"""Forecasts the value of an open candidate in a priced campaign, and its next purchases, without writing anything.

The law is rebuilt from its last row and the current evidence, as a new driver would. Hyper-parameters are not fitted
again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.pricing.priced_campaign import PricedCampaign, priced_campaign
from sciagent.domain.campaigns.ladder import PaidIndex
from sciagent.domain.objectives import Valuation
from sciagent.store.database import tables as t
from sciagent.store.results import laws

COMPARED = 3000  # most open candidates that are evaluated to count those with a higher index


@dataclass(frozen=True)
class Promise:
    """The value of an open candidate, and its expected purchases."""

    valuation: Valuation
    """Valuation by the current law at the current price."""
    rung: PaidIndex
    """The rung that would be bought next."""
    later: Mapping[PaidIndex, float]
    """Expected number of later purchases, by rung."""
    ahead: int | None
    """Number of open candidates with a higher index; None if there are too many open candidates to evaluate."""


def remake(built: Built, connection: Connection) -> PricedCampaign | None:
    """Rebuilds the campaign with its current law and price; returns None if there is no law or it is for other
    rungs."""
    campaign = priced_campaign(built, connection)
    if campaign is None or campaign.row is None or not campaign.scheduler.is_learnt:
        return None
    pool, scheduler = campaign.pool, campaign.scheduler
    scheduler.laws = scheduler.relearned(pool.scores, pool.errors, pool.bounds, built.spec.seed)
    if not scheduler.laws:
        return None
    scheduler.price = _price(connection, campaign, campaign.row)
    return campaign


def _price(connection: Connection, campaign: PricedCampaign, row: laws.LawRow) -> float:
    """Returns the price at the last purchase by this law; if there is none, the price in the law's row."""
    d = t.decision.c
    query = (
        sa.select(d.price)
        .where(d.campaign_id == campaign.built.row.id, d.action == "run", d.law_version == row.version)
        .order_by(d.id.desc())
        .limit(1)
    )
    known, limits = connection.execute(query).scalar(), {a.name: a.limit for a in campaign.numeraire.allowances}
    if known and set(known) == set(limits):  # sum of price * limit is the price per budget, since weights sum to 1
        return float(sum(amount * limits[name] for name, amount in known.items()))
    return float(row.state["priced"]["price"])


def promise(campaign: PricedCampaign, candidate_id: int) -> Promise | None:
    """Returns the promise of a candidate in a rebuilt campaign; None if no rung can be bought for it."""
    pool, scheduler = campaign.pool, campaign.scheduler
    rows = np.flatnonzero(pool.ids == candidate_id)
    if not len(rows) or pool.closed[rows[-1], -1]:
        return None
    row, open_ = int(rows[-1]), pool.open
    are_few = len(open_) <= COMPARED
    of = np.union1d(open_, [row]) if are_few else np.array([row])
    place = int(np.searchsorted(of, row))
    [(group, at)] = [
        (group, int(at)) for group in scheduler.evaluate(pool, of) for at in np.flatnonzero(group.places == place)
    ]
    buys = [*group.rungs, pool.paid[-1]]
    rung = buys[int(group.action(scheduler.price)[at])]
    # at most the price of its own index, so that a candidate below the price has purchases, too
    coming = group.purchases(min(scheduler.price, 0.99 * float(group.index[at])))[at]
    later = {j: float(n) for j, n in zip(buys, coming, strict=True) if j != rung and n > 0}
    free = scheduler.free(pool)
    if rung not in free and (waiting := [j for j in free if not pool.closed[row, j]]):
        later, rung = later | {rung: later.get(rung, 1.0)}, waiting[0]
    ahead = int((scheduler.index[of] > scheduler.index[row]).sum()) if are_few else None
    return Promise(scheduler.valuation(pool, row), rung, later, ahead)
