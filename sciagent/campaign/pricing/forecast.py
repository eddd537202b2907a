"""What an open candidate of a priced campaign promises, and what would be bought for it next: from the ledger alone.

The law is made again from its last row and the evidence there is now, as a driver that takes over would; hyper-
parameters are not looked for again, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.pricing.numeraire import Numeraire
from sciagent.campaign.pricing.observations import ObservationSchema
from sciagent.campaign.pricing.priced_campaign import PricedCampaign, priced_campaign
from sciagent.domain.campaigns.ladder import PaidIndex
from sciagent.domain.valuation import Valuation
from sciagent.scheduling.aims import questions
from sciagent.scheduling.arrays import Array, Places
from sciagent.scheduling.indices import CandidateGroup, groups
from sciagent.scheduling.law.censoring import expected_answers
from sciagent.scheduling.law.hints import Padded, hinted
from sciagent.scheduling.law.similarity import Similarity
from sciagent.scheduling.law.stack import Law, Stack
from sciagent.scheduling.law.transforms import TruthTransform
from sciagent.store.database import tables as t
from sciagent.store.results import laws

COMPARED = 3000  # open candidates that are looked at to say how many promise more


@dataclass(frozen=True)
class Remade:
    """The law of a campaign as of now."""

    campaign: PricedCampaign
    """The campaign with its candidates and its unit of cost."""

    row: laws.LawRow
    """The row of `law` that the hyper-parameters are from."""

    truths: tuple[TruthTransform, ...]
    """One for each aim: from the unit of its property to that of the law."""

    laws: tuple[Law, ...]
    """The law with structure and the one without, with their weights."""

    price: float
    """Payoff for the whole budget, or for a core-second where nothing is limited."""


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


def remake(built: Built, connection: Connection) -> Remade | None:
    """None where there is no law yet, or it was learnt of other rungs."""
    campaign = priced_campaign(built, connection)
    if campaign is None or campaign.row is None or (truths := campaign.scheduler.truths) is None:
        return None
    pool = campaign.pool
    structures = pool.structures if built.spec.subject == "molecule" else None
    made = fitted(
        campaign.row, campaign.schema, pool.scores, truths, structures, built.spec.seed, pool.errors, pool.bounds
    )
    if not made:
        return None
    price = _price(connection, built.row.id, campaign.row, campaign.numeraire)
    return Remade(campaign, campaign.row, truths, made, price)


def fitted(
    row: laws.LawRow,
    schema: ObservationSchema,
    scores: Array,
    truths: Sequence[TruthTransform],
    structures: Similarity | None,
    seed: int,
    errors: NDArray[np.float32] | None = None,
    bounds: NDArray[np.int8] | None = None,
) -> tuple[Law, ...]:
    """The laws with the hyper-parameters of the row; none without an answer to each question. scores, errors, bounds:
    (n, c), as in `CandidatePool`.
    structures: how alike the n candidates are, or None for the law without structure alone."""
    aims, padded = schema.aims, None if structures is None else Padded(structures)
    if padded is not None:
        padded.n = len(scores)

    def fit(scores: Array, errors: NDArray[np.float32] | None) -> tuple[Law, ...]:
        decided = int((~np.isnan(scores[:, [a.columns[-1] for a in aims.aims]])).all(1).sum())
        scores, errors = hinted(aims.hints, scores, errors, decided)
        if np.isnan(scores[:, [a.columns[-1] for a in aims.aims]]).all(0).any():
            return ()
        stack = Stack(padded, np.random.default_rng(seed))
        stack.restore(row.state["priced"]["stack"])
        return tuple(stack.fit(questions(aims, truths, scores, errors), 0))  # 0: hyper-parameters stay as they are

    if bounds is not None:
        scores, errors = expected_answers(scores, errors, bounds, aims, truths, fit)
    return fit(scores, errors)


def _price(connection: Connection, campaign_id: int, row: laws.LawRow, numeraire: Numeraire) -> float:
    """As of the last purchase by this law; else as of the law."""
    d = t.decision.c
    query = (
        sa.select(d.price)
        .where(d.campaign_id == campaign_id, d.action == "run", d.law_version == row.version)
        .order_by(d.id.desc())
        .limit(1)
    )
    known, limits = connection.execute(query).scalar(), {a.name: a.limit for a in numeraire.allowances}
    if known and set(known) == set(limits):  # the weights sum to 1
        return float(sum(amount * limits[name] for name, amount in known.items()))
    return float(row.state["priced"]["price"])


def promise(remade: Remade, candidate_id: int) -> Promise | None:
    """None where nothing can be bought for it any more."""
    campaign, pool = remade.campaign, remade.campaign.pool
    rows = np.flatnonzero(pool.ids == candidate_id)
    if not len(rows) or pool.closed[rows[-1], -1]:
        return None
    mine, open_ = int(rows[-1]), pool.open
    of: Places = np.union1d(open_, [mine]) if len(open_) <= COMPARED else np.array([mine])
    found = evaluate(remade, of)
    place, last = int(np.flatnonzero(of == mine)[0]), pool.paid[-1]
    group, at = found.chosen[place]
    buys = [*group.rungs, last]
    action = int(group.action(remade.price)[at])
    rung = buys[action] if action >= 0 else last
    # where the price is too high for it, as it would be at the price of its own index
    coming = group.purchases(min(remade.price, 0.99 * float(group.index[at])))[at]
    later = {j: float(n) for j, n in zip(buys, coming, strict=True) if j != rung and n > 0}
    free = campaign.scheduler.free(pool)
    if (waiting := [j for j in free if not pool.closed[mine, j]]) and rung not in free:
        later = {**later, rung: 1.0} if rung not in later else later
        rung = waiting[0]
    index = np.array([one.index for one in found.valuations])
    ahead = int((index > index[place]).sum()) if len(open_) <= COMPARED else None
    return Promise(found.valuations[place], rung, later, ahead)


@dataclass(frozen=True)
class Evaluation:
    """What the law of now says of some candidates."""

    valuations: list[Valuation]
    """(n,) in the order asked for."""

    chosen: list[tuple[CandidateGroup, int]]
    """(n,) the programme of each by the heavier law, and its place there."""


def evaluate(remade: Remade, of: Places) -> Evaluation:
    """Evaluate candidates by the laws together, at the price of now. of: (n,) rows of the pool, all of them open."""
    campaign, pool = remade.campaign, remade.campaign.pool
    payoff = campaign.schema.aims.payoff(remade.truths, pool.scores)
    heaviest = max(remade.laws, key=lambda law: law.weight)
    index, expected, value, cost = np.zeros((4, len(of)))
    chosen: dict[int, tuple[CandidateGroup, int]] = {}
    for law in remade.laws:
        for group in groups(pool, of, campaign.schema.aims, remade.truths, payoff, law.chains):
            places = group.places
            index[places] += law.weight * group.index
            expected[places] += law.weight * group.expected
            value[places] += law.weight * group.worth(remade.price)
            if law is heaviest:
                buys = [*group.rungs, pool.paid[-1]]
                cost[places] = (group.purchases(remade.price) * pool.costs[of[places]][:, buys]).sum(1)
                chosen.update({int(place): (group, at) for at, place in enumerate(places)})
    hits = campaign.schema.aims.kind == "hits"
    found = [
        Valuation(float(e), float(e) if hits else None, float(c), float(v), float(i))
        for e, c, v, i in zip(expected, cost, value, index, strict=True)
    ]
    return Evaluation(found, [chosen[place] for place in range(len(of))])


__all__ = ["Evaluation", "Promise", "Remade", "evaluate", "fitted", "promise", "remake"]
