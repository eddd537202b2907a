"""What an open candidate of a priced campaign promises, and what would be bought for it next: from the ledger alone.

The law is made again from its last row and the evidence there is now, as a driver that takes over would; hyper-
parameters are not looked for again, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built, open_for_people
from sciagent.campaign.pricing.numeraire import Numeraire
from sciagent.campaign.pricing.observations import ObservationSchema
from sciagent.campaign.pricing.predicted import foretold, sentence
from sciagent.campaign.pricing.priced_campaign import PricedCampaign, priced_campaign
from sciagent.domain.cost import RESOURCE_UNITS
from sciagent.domain.ladder import PaidIndex, Position
from sciagent.domain.valuation import Valuation
from sciagent.errors import SciagentError
from sciagent.scheduling.aims import questions
from sciagent.scheduling.indices import CandidateGroup, groups
from sciagent.scheduling.law.censoring import expected_answers
from sciagent.scheduling.law.hints import Padded, hinted
from sciagent.scheduling.law.similarity import Similarity
from sciagent.scheduling.law.stack import Law, Stack
from sciagent.scheduling.law.transforms import TruthTransform
from sciagent.scheduling.rules.priced import WARM_UP
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import laws
from sciagent.store.results.evidence import read_watermark
from sciagent.store.views import queries

Array = NDArray[np.float64]
Places = NDArray[np.intp]

MANY = 10_000  # candidates of a campaign beyond which making the law again takes more than ten seconds
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


def outlook(ledger: Ledger, connection: Connection, row: CampaignRow, candidate_id: int) -> dict[str, Any]:
    """The JSON of `outlook` in `sciagent explain`, of a candidate that waits in a priced campaign. `text` says it in
    words; where nothing can be foretold that is all there is."""
    n = queries.count(connection, t.campaign_candidate, t.campaign_candidate.c.campaign_id == row.id)
    if n > MANY:
        return _nothing(f"What it promises is not worked out here for a campaign of {n} candidates, more than {MANY}.")
    try:
        built = open_for_people(ledger, row.name)
        remade = remake(built, connection)
    except (SciagentError, OSError) as error:
        why = str(error).strip().splitlines()[0]
        return _nothing(f"What it promises cannot be worked out here, for the campaign cannot be put together: {why}")
    if remade is None:
        return _nothing(
            f"There is no law yet that could say what it promises: {row.spec['terminal']} has to answer for a few "
            f"candidates first, at least {WARM_UP}."
        )
    found = promise(remade, candidate_id)
    if found is None:
        return _nothing("Nothing can be bought for it any more.")
    return _told(connection, remade, candidate_id, found)


def _nothing(text: str) -> dict[str, Any]:
    names = (
        "value", "p_hit", "expected", "foretold", "index", "price", "ahead", "next_rung", "next_cost", "next_share",
        "later", "law_version", "law_watermark", "watermark", "units",
    )  # fmt: skip
    return dict.fromkeys(names) | {"text": text}


def _told(connection: Connection, remade: Remade, candidate_id: int, found: Promise) -> dict[str, Any]:
    campaign = remade.campaign
    pool, built, paid = campaign.pool, campaign.built, campaign.schema.paid
    row = int(np.flatnonzero(pool.ids == candidate_id)[-1])
    position = paid[found.rung]
    rung = built.rungs[position]
    cost = {
        resource: round(float(amounts[row, found.rung]) * rung.cost_model.factor, 6)
        for resource, amounts in pool.declared.items()
        if amounts[row, found.rung] > 0
    }
    hits, limited = campaign.schema.aims.kind == "hits", bool(campaign.numeraire.allowances)
    unit, worth = "hits" if hits else "utility", found.valuation
    per = f"{unit} a budget" if limited else f"{unit} a core-second"
    share = float(pool.costs[row, found.rung]) if limited else None
    told = {
        "value": worth.value, "p_hit": worth.p_hit, "expected": worth.payoff,
        "foretold": foretold(built, campaign.schema, remade.laws, remade.truths, pool.scores, row),
        "index": worth.index, "price": remade.price, "ahead": found.ahead, "next_rung": rung.spec.rung,
        "next_cost": cost, "next_share": share,
        "later": {built.rungs[paid[j]].spec.rung: round(n, 6) for j, n in sorted(found.later.items())},
        "law_version": remade.row.version, "law_watermark": remade.row.watermark,
        "watermark": read_watermark(connection),
        "units": {
            "value": unit, "p_hit": "probability", "expected": unit, "index": per, "price": per,
            "next_cost": {resource: RESOURCE_UNITS.get(resource, "") for resource in cost},
            "next_share": "of the whole budget", "later": "expected runs",
        },
    }  # fmt: skip
    return told | {"text": " ".join(_sentences(told, _places(connection, built, position)))}


def _places(connection: Connection, built: Built, position: Position) -> tuple[int, int] | None:
    """(used, limit) where the rung is limited by count."""
    limit = built.limit_by_rung.get(position)
    return (
        None
        if limit is None
        else (queries.jobs_by_rung(connection, built.row.id).get(built.rungs[position].id, 0), limit)
    )


def _sentences(told: Mapping[str, Any], places: tuple[int, int] | None) -> list[str]:
    if told["p_hit"] is not None:
        what = f"Its chance of a hit is {_percent(told['p_hit'])}"
    else:
        what = f"Its expected payoff is {told['expected']:.2g}"
    per = told["units"]["index"]
    found = [f"{what} by the law of now; its value, after what is still to be paid, {told['value']:.2g} {_unit(told)}."]
    found += [sentence(one) for one in told["foretold"]]
    index, price = told["index"], told["price"]
    if price <= 0:
        found.append(f"Its index is {index:.3g} {per}; the budget is enough for all that is worth anything.")
    elif index >= price:
        found.append(f"Its index, {index:.3g} {per}, is above the price, {price:.3g}: it is worth what it costs.")
    else:
        found.append(f"Its index, {index:.3g} {per}, is below the price, {price:.3g}: the budget does more elsewhere.")
    if told["ahead"] is not None:
        n = told["ahead"]
        many = (
            "No other open candidate has"
            if n == 0
            else "One other open candidate has"
            if n == 1
            else (f"{n} other open candidates have")
        )
        found.append(f"{many} a higher one.")
    share = "" if told["next_share"] is None else f", {_percent(told['next_share'])} of the budget"
    cost = " and ".join(f"{amount:.3g} {_words(name)}" for name, amount in told["next_cost"].items()) or "nothing"
    found.append(f"Next it would get {told['next_rung']}, for about {cost}{share}.")
    for rung, n in told["later"].items():
        found.append(f"Of 100 like it, {100 * n:.0f} would then get {rung}.")
    if places is not None and places[0] >= places[1]:
        found.append(f"But {places[0]} of {places[1]} places of {told['next_rung']} are used.")
    return found


def _unit(told: Mapping[str, Any]) -> str:
    return str(told["units"]["value"])


def _words(resource: str) -> str:
    return {"core_seconds": "core-seconds", "gpu_seconds": "GPU-seconds"}.get(resource, resource.replace("_", " "))


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else "100 %"


__all__ = ["Evaluation", "Promise", "Remade", "evaluate", "fitted", "outlook", "promise", "remake"]
