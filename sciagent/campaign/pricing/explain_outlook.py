"""The outlook of waiting candidates in a priced campaign: chance of a hit, index and next rung, in numbers and in
words.

A candidate's index is its expected payoff per cost; the price is the least index that is worth a purchase.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.campaign.core.create_and_open import open_campaign_for_people
from sciagent.campaign.pricing.pool_law_and_cost_unit import PricedCampaign, rebuild_with_law
from sciagent.domain.answers.explanation import Outlook, OutlookUnits, PropertyForecast
from sciagent.domain.cost_and_budget import RESOURCE_UNITS
from sciagent.domain.display_units import chosen_unit_of, limit_in_chosen_unit
from sciagent.domain.objectives import Valuation
from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.errors import SciagentError
from sciagent.scheduling.candidate_indices import CandidateGroup
from sciagent.scheduling.law.stacked_laws_with_and_without_structure import foretell
from sciagent.scheduling.rules.warm_up import MIN_WARM_UP
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import Ledger
from sciagent.store.results.evidence import read_watermark
from sciagent.store.views import campaign_counts_and_remarks

MAX_COMPARED = 3000  # most open candidates that are evaluated to count those with a higher index
MAX_CANDIDATES = 10_000  # number of candidates above which rebuilding the law takes more than ten seconds
SHARE_OF_OWN_INDEX = 0.99  # price, as a share of a candidate's index, at which the candidate certainly has purchases
ROUNDS_TO_WHOLE = 0.995  # share from which a text says 100 %


def outlook_of(ledger: Ledger, connection: Connection, row: CampaignRow, candidate_id: int) -> Outlook:
    """Returns the outlook of a waiting candidate; if there is none, only `text` is set, with the reason."""
    n = campaign_counts_and_remarks.n_candidates(connection, row.id)
    if n > MAX_CANDIDATES:
        text = f"What it promises is not worked out here for a campaign of {n} candidates, more than {MAX_CANDIDATES}."
        return Outlook(text=text)
    try:
        rebuilt = rebuild_with_law(open_campaign_for_people(ledger, row.name), connection)
    except (SciagentError, OSError) as error:
        why = str(error).strip().splitlines()[0]
        text = f"What it promises cannot be worked out here, for the campaign cannot be put together: {why}"
        return Outlook(text=text)
    if rebuilt is None:
        return Outlook(
            text=f"There is no law yet that could say what it promises: {row.spec['terminal']} has to answer for a few "
            f"candidates first, at least {MIN_WARM_UP}."
        )
    return outlook_in(rebuilt, connection, candidate_id)


def outlook_in(campaign: PricedCampaign, connection: Connection, candidate_id: int) -> Outlook:
    """Returns the outlook of a candidate in a rebuilt campaign."""
    pool = campaign.pool
    built = campaign.built
    paid = campaign.schema.paid
    law_row = campaign.row
    # a candidate may have an earlier row, too, as one of the earlier campaign that the law learns from
    rows = np.flatnonzero(pool.ids == candidate_id)
    if law_row is None or not len(rows) or pool.closed[rows[-1], -1]:
        return Outlook(text="Nothing can be bought for it any more.")
    row = int(rows[-1])
    next_rung, expected_runs, n_ahead = _next_and_later_rungs(campaign, row)
    worth = campaign.scheduler.valuation(pool, row)
    price = campaign.scheduler.price
    rung = built.rungs[paid[next_rung]]
    cost = {}
    for resource, amounts in pool.declared.items():
        declared = float(amounts[row, next_rung])
        if declared > 0:
            cost[resource] = round(declared * rung.cost_model.factor, 6)
    is_limited = bool(campaign.numeraire.allowances)
    unit = "hits" if campaign.schema.aims.kind == "hits" else "utility"
    per = f"{unit} a budget" if is_limited else f"{unit} a core-second"
    share = float(pool.costs[row, next_rung]) if is_limited else None
    later = {built.rungs[paid[j]].spec.rung: round(n, 6) for j, n in sorted(expected_runs.items())}
    foretold = forecasts(campaign, row)
    # number of jobs that the budget allows to the next rung
    limit = built.limit_by_rung.get(rung.rules.position, math.inf)
    used = campaign_counts_and_remarks.jobs_by_rung(connection, built.row.id).get(rung.id, 0)
    verifications_left = _verifications_sentence(campaign, connection)
    sentences = [
        _worth_sentence(worth),
        *(sentence(forecast) for forecast in foretold),
        _index_sentence(worth.index, price, lacks_verifications=bool(verifications_left)),
        _ahead_sentence(n_ahead),
        _next_rung_sentence(rung.spec.rung, cost, share),
        *(f"Of 100 like it, {100 * n:.0f} would then get {label}." for label, n in later.items()),
        f"But {used} of {limit} places of {rung.spec.rung} are used." if used >= limit else "",
        verifications_left,
    ]
    return Outlook(
        value=worth.value,
        p_hit=worth.p_hit,
        expected=worth.payoff,
        foretold=foretold,
        index=worth.index,
        price=price,
        ahead=n_ahead,
        next_rung=rung.spec.rung,
        next_cost=cost,
        next_share=share,
        later=later,
        law_version=law_row.version,
        law_watermark=law_row.watermark,
        watermark=read_watermark(connection),
        units=OutlookUnits(
            value=unit,
            p_hit="probability",
            expected=unit,
            index=per,
            price=per,
            next_cost={resource: RESOURCE_UNITS.get(resource, "") for resource in cost},
            next_share="of the whole budget",
            later="expected runs",
        ),
        text=" ".join(filter(None, sentences)),
    )


def _next_and_later_rungs(campaign: PricedCampaign, row: int) -> tuple[PaidIndex, dict[PaidIndex, float], int | None]:
    """Evaluates an open candidate at the current price. Returns the rung to buy next, the expected number of later
    purchases by rung, and the number of open candidates with a higher index.

    The last number is None if too many candidates are open. row: row of the candidate in the pool.
    """
    pool = campaign.pool
    scheduler = campaign.scheduler
    open_rows = campaign.pool.open
    are_compared = len(open_rows) <= MAX_COMPARED
    rows = np.union1d(open_rows, [row]) if are_compared else np.array([row])
    place = int(np.searchsorted(rows, row))
    evaluated = scheduler.evaluate(pool, rows)
    group, at = _group_with(evaluated, place)
    buys = [*group.rungs, pool.paid[-1]]  # rungs that the group lacks, the terminal one last
    rung = buys[int(group.action(scheduler.price)[at])]  # an action is a place in `buys`; the terminal rung is -1
    # the price is below the candidate's own index, so that a candidate that is not worth the price has purchases, too
    price = min(scheduler.price, SHARE_OF_OWN_INDEX * float(group.index[at]))
    expected_runs = group.purchases(price)[at]
    later_runs = {j: float(n) for j, n in zip(buys, expected_runs, strict=True) if j != rung and n > 0}
    rungs_for_everyone = scheduler.rungs_for_everyone(pool)
    lacking_rungs = [j for j in rungs_for_everyone if not pool.closed[row, j]]
    if rung not in rungs_for_everyone and lacking_rungs:  # the cheap rungs that everyone gets come first
        later_runs[rung] = later_runs.get(rung, 1.0)
        rung = lacking_rungs[0]
    rung = pool.needed_rung(row, rung) or rung
    if not are_compared:
        return rung, later_runs, None
    n_ahead = int((scheduler.index[rows] > scheduler.index[row]).sum())
    return rung, later_runs, n_ahead


def _group_with(groups: Sequence[CandidateGroup], place: int) -> tuple[CandidateGroup, int]:
    """Returns the group that holds the candidate at a place, and the candidate's index in it."""
    for group in groups:
        for at in np.flatnonzero(group.places == place):
            return group, int(at)
    raise LookupError(f"no group holds place {place}")


def forecasts(campaign: PricedCampaign, row: int) -> tuple[PropertyForecast, ...]:
    """Predicts the deciding rung's answer for each objective without one: mean and 90 % interval, in the campaign's
    unit. row: row of the candidate in the pool."""
    schema = campaign.schema
    scheduler = campaign.scheduler
    predicted = []
    units = campaign.built.row.units
    for question, (aim, truth) in enumerate(zip(schema.aims.aims, scheduler.truths or (), strict=True)):
        if not math.isnan(campaign.pool.deciding_scores[row, aim.columns[-1]]):
            continue
        deciding = schema.columns[aim.columns[-1]]
        interval = foretell(scheduler.laws, question, np.array([row])).in_unit(truth)
        predicted.append(
            PropertyForecast(
                property=deciding.property,
                rung=campaign.built.rungs[deciding.rung].spec.rung,
                unit=chosen_unit_of(deciding.property, units),
                value=limit_in_chosen_unit(deciding.property, float(interval.mean[0]), units),
                low=limit_in_chosen_unit(deciding.property, float(interval.low[0]), units),
                high=limit_in_chosen_unit(deciding.property, float(interval.high[0]), units),
            )
        )
    return tuple(predicted)


def sentence(forecast: PropertyForecast) -> str:
    """Returns the forecast as a sentence.

    Its numbers are rounded to the second significant digit of half the interval's width.
    """
    unit = "" if forecast.unit == "1" else f" {forecast.unit}"
    if forecast.low == forecast.high:  # a yes or no
        return f"{forecast.rung} is expected to say {forecast.property} = {forecast.low:g}{unit}, nine times in ten."
    half_width = (forecast.high - forecast.low) / 2
    places = 1 - math.floor(math.log10(half_width))
    value = _rounded_text(forecast.value, places)
    low = _rounded_text(forecast.low, places)
    high = _rounded_text(forecast.high, places)
    text = f"{forecast.property} = {value}{unit}, nine times in ten between {low} and {high}"
    return f"{forecast.rung} is expected to say {text}."


def _rounded_text(number: float, places: int) -> str:
    """Returns the number rounded to `places` decimals; a negative number of places rounds to tens or hundreds."""
    rounded = round(number, places) + 0.0  # adding 0 turns -0.0 into 0.0
    return f"{rounded:.{max(places, 0)}f}"


def _worth_sentence(worth: Valuation) -> str:
    chance = None if worth.p_hit is None else f"chance of a hit is {_percent_text(worth.p_hit)}"
    what = chance or f"expected payoff is {worth.payoff:.2g}"
    return f"Its {what}, as predicted from the results so far."


def _index_sentence(index: float, price: float, lacks_verifications: bool) -> str:
    """Returns a sentence that compares index and price.

    It is empty at a price of 0 if verifications are lacking, since the price does not know of their limit.
    """
    if price <= 0:
        return "" if lacks_verifications else "The budget is enough for all that is worth anything."
    if index >= price:
        return "It is worth what it costs."
    return "The budget does more on other candidates."


def _ahead_sentence(n_ahead: int | None) -> str:
    if n_ahead is None:
        return ""
    if n_ahead == 0:
        subject = "No other open candidate promises"
    elif n_ahead == 1:
        subject = "One other open candidate promises"
    else:
        subject = f"{n_ahead} other open candidates promise"
    return f"{subject} more for its cost."


def _next_rung_sentence(label: str, cost: dict[str, float], share: float | None) -> str:
    words = {"core_seconds": "core-seconds", "gpu_seconds": "GPU-seconds"}
    amounts = []
    for name, amount in cost.items():
        unit = words.get(name, name.replace("_", " "))
        amounts.append(f"{amount:.3g} {unit}")
    all_amounts = " and ".join(amounts) or "nothing"
    of_budget = "" if share is None else f", {_percent_text(share)} of the budget"
    return f"Next it would get {label}, for about {all_amounts}{of_budget}."


def _verifications_sentence(campaign: PricedCampaign, connection: Connection) -> str:
    """Returns a sentence on the limit `budget.verifications`; it is empty if the limit holds all open candidates."""
    built = campaign.built
    limit = built.spec.budget.verifications
    if limit is None:
        return ""
    n_left = limit - campaign_counts_and_remarks.verifications(connection, built.row.id, built.terminal)
    n_open = len(campaign.pool.open)
    terminal = built.rungs[built.terminal].spec.rung
    if n_left <= 0:
        return f"But all {limit} verifications by {terminal} are used, so nothing more is bought for it."
    if n_left >= n_open:
        return ""
    verb = "is" if n_left == 1 else "are"
    return f"But {n_left} of {limit} verifications by {terminal} {verb} left for {n_open} open candidates."


def _percent_text(share: float) -> str:
    return f"{100 * share:.2g} %" if share < ROUNDS_TO_WHOLE else "100 %"
