"""What an open candidate of a priced campaign promises, and what would be bought for it next: from the ledger alone.

The law is made again from its last row and the evidence there is now, as a driver that takes over would; hyper-
parameters are not looked for again, and nothing is written.
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
from sciagent.domain.valuation import Valuation
from sciagent.store.database import tables as t
from sciagent.store.results import laws

COMPARED = 3000  # open candidates that are evaluated to say how many promise more


@dataclass(frozen=True)
class Promise:
    """What an open candidate is worth, and what would be bought for it."""

    valuation: Valuation
    """What it is worth by the law of now, at the price of now."""
    rung: PaidIndex
    """The rung that would be bought next."""
    later: Mapping[PaidIndex, float]
    """Expected purchases after that, by rung."""
    ahead: int | None
    """Open candidates with a higher index; None where they are too many to look at."""


def remake(built: Built, connection: Connection) -> PricedCampaign | None:
    """The campaign with its law and its price as of now; None where there is no law yet, or it was learnt of other
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
    """As of the last purchase by this law; else as of the law."""
    d = t.decision.c
    query = (
        sa.select(d.price)
        .where(d.campaign_id == campaign.built.row.id, d.action == "run", d.law_version == row.version)
        .order_by(d.id.desc())
        .limit(1)
    )
    known, limits = connection.execute(query).scalar(), {a.name: a.limit for a in campaign.numeraire.allowances}
    if known and set(known) == set(limits):  # the weights sum to 1
        return float(sum(amount * limits[name] for name, amount in known.items()))
    return float(row.state["priced"]["price"])


def promise(campaign: PricedCampaign, candidate_id: int) -> Promise | None:
    """What a candidate of a remade campaign promises; None where nothing can be bought for it any more."""
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
    # where the price is too high for it, as it would be at the price of its own index
    coming = group.purchases(min(scheduler.price, 0.99 * float(group.index[at])))[at]
    later = {j: float(n) for j, n in zip(buys, coming, strict=True) if j != rung and n > 0}
    free = scheduler.free(pool)
    if rung not in free and (waiting := [j for j in free if not pool.closed[row, j]]):
        later, rung = later | {rung: later.get(rung, 1.0)}, waiting[0]
    ahead = int((scheduler.index[of] > scheduler.index[row]).sum()) if are_few else None
    return Promise(scheduler.valuation(pool, row), rung, later, ahead)
