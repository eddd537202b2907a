"""Values the open candidates: from the laws' forecasts to the programmes that give rungs to buy, and their index.

Candidates with the same open rungs form a group. The programmes of each group are solved, and each candidate gets the
programme that is worth most to it (`groups`).

A law is a model that predicts the answers of rungs. A programme is the solution of the dynamic programme for one
candidate: which rung to buy at each state u, the probit of the expected payoff.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.aims_and_payoff import Aim, Aims, Payoff, share_told, to_u
from sciagent.scheduling.array_types import Array, Mask, RowIndices
from sciagent.scheduling.candidate_pool import CandidatePool
from sciagent.scheduling.dynamic_programme import (
    FLOOR,
    NEVER,
    PRICES,
    STOP,
    Programme,
    U,
    moves_of,
    solve_left,
    variances_left,
)
from sciagent.scheduling.law.answer_transforms import TruthTransform
from sciagent.scheduling.law.gaussian_process_chain import Chain, Forecast
from sciagent.scheduling.law.stacked_laws_with_and_without_structure import Law

Plans = dict[int, tuple[Array, list[list[Programme]]]]
"""By the code of a set of seen and open rungs: levels of u, and for each level its programmes."""

COVARIANCE_SAMPLE = 256  # candidates whose median covariance represents their group
# with several properties, the value of a rung depends on the candidate, so that each level of u has its own programmes
N_LEVELS = 5
LEVEL_SPACING = 0.5  # in u
MAX_PER_LEVEL = 48  # largest number of candidates that represent a level
MIN_PER_LEVEL = 8  # smallest number of candidates that represent a level
MAX_PLANS = 16  # largest number of plans for different relative costs, over all levels
PLAN_COST_RANGE = 0.5  # range of relative costs that one plan covers, in factors of two
DEAR_COST = 0.01  # cost of a rung, in terminal verifications, from which a whole answer is attributed to chance
COST_SAMPLE = 4096  # candidates whose costs determine the plans
BLOCK_ROWS = 1 << 16  # candidates computed at a time
MAX_RUNGS = 5  # largest number of rungs in one programme


@dataclass(frozen=True)
class CandidateGroup:
    """Candidates with one programme: the same rungs are seen and open. If programmes were solved for several costs, the
    group has the programme that is worth most to its candidates."""

    places: RowIndices
    """(n,) positions in the candidates that were passed in."""
    rungs: tuple[PaidIndex, ...]
    """Open rungs below the terminal one."""
    u: Array
    """(n,) probit of the expected payoff: the candidate's state in the programme."""
    expected: Array
    """(n,) expected payoff of a terminal verification."""
    utility: Array
    """(n,) expected utility by the same forecasts; NaN unless the goal is to count hits, where the payoff does not tell
    it."""
    weight: Array
    """(n,) the programme's unit of cost: the candidate's cost of a terminal verification, times the factor by which the
    plan costs more with the candidate's own costs."""
    index: Array
    """(n,) payoff per unit of cost."""
    programme: Programme
    """The solved dynamic programme."""

    def worth(self, price: float) -> Array:
        """Returns (n,) values V. price: payoff per unit of cost."""
        return self.programme.worth(self.u, price * self.weight)

    def purchases(self, price: float) -> Array:
        """Returns (n, m + 1) expected future purchases, terminal rung last."""
        return self.programme.purchases(self.u, price * self.weight)

    def action(self, price: float) -> NDArray[np.int64]:
        """Returns (n,) position in `rungs` of the rung to buy, or TERMINAL.

        If the price is 0 or nothing pays at it, the rung is the one to buy at the candidate's own index.
        """
        actions_at_index = self.programme.at_index(self.u)
        if price <= 0:
            return actions_at_index
        actions = self.programme.action(self.u, price * self.weight)
        return np.where(actions == STOP, actions_at_index, actions)

    def to_go(self, prices: Array, selected: Mask) -> Array:
        """Returns the expected cost to go of the selected candidates together, at each of the ascending prices.
        selected: (n,). Candidates whose weights agree within half a factor of two share their median weight."""
        total_spend = np.zeros(len(prices))
        weight_bins = np.rint(2 * np.log2(self.weight)).astype(np.int64)
        for weight_bin in np.unique(weight_bins[selected]):
            members = selected & (weight_bins == weight_bin)
            spend = self.programme.to_go(self.u[members], self.weight[members])
            unit_prices = prices * float(np.median(self.weight[members]))
            total_spend += np.interp(np.log(unit_prices), np.log(PRICES), spend)
        return total_spend


def groups(
    pool: CandidatePool,
    rows: RowIndices,
    aims: Aims,
    truths: Sequence[TruthTransform],
    payoff: Payoff,
    chains: Sequence[Chain],
    barred: Set[PaidIndex] = frozenset(),
    plans: Plans | None = None,
) -> Iterator[CandidateGroup]:
    """Yields groups of the candidates in `rows`, (n,).

    chains: one per aim. barred: rungs that cannot be bought. plans: plans that were solved for other candidates under
    the same law; missing plans are added to the mapping.
    """
    terminal = pool.paid[-1]
    has_one_limit = len(truths) == 1 and truths[0].is_one_sided and aims.kind == "hits"
    only_limit = truths[0] if has_one_limit else None
    deciding = {pool.rungs[aim.columns[-1]] for aim in aims.aims} - {terminal}
    plans = Plans() if plans is None else plans
    for code, places, open_rungs in _situations(pool, rows, deciding):
        members = rows[places]
        rungs = tuple(j for j in open_rungs if j not in barred)
        means, variances, shares = _forecasts(pool, members, rungs, aims, truths, chains)
        expected, u = _expected_payoff(payoff, means, variances, only_limit)
        utility = np.full(len(members), np.nan)
        if aims.kind == "hits":
            utility = aims.expected_utility(truths, means, variances)
        cannot_hit = _is_undecidable(pool, members, rungs, aims)
        expected = np.where(cannot_hit, 0.0, expected)
        u = np.where(cannot_hit, U[0], u)
        if not has_one_limit:
            levels = _levels(u)
            lefts = []
            for level in levels:
                representatives = _representatives(u, level)
                lefts.append(_remaining_shares(payoff, means, variances, shares, representatives))
            plans[code] = (levels, _solved_programmes(pool, members, rungs, lefts, deciding))
        elif (
            code not in plans
        ):  # with one limit, the remaining shares are the same at every u, so that one level suffices
            plans[code] = (U[:1], _solved_programmes(pool, members, rungs, [1 - shares[0]], deciding))
        levels, programmes = plans[code]
        for start in range(0, len(members), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            yield from _assigned_groups(
                pool,
                places[block],
                members[block],
                rungs,
                u[block],
                expected[block],
                utility[block],
                levels,
                programmes,
            )


def _expected_payoff(
    payoff: Payoff, means: Array, variances: Array, limit: TruthTransform | None
) -> tuple[Array, Array]:
    """Returns (n,) expected payoffs and their probits. limit: the only limit, if a hit is the whole payoff; else
    None."""
    if limit is None:
        expected = payoff.expected(means, variances)
        return expected, to_u(expected)
    sd = np.sqrt(variances[0])
    return limit.chance(means[0], sd), means[0] / sd


def _solved_programmes(
    pool: CandidatePool, rows: RowIndices, rungs: Sequence[PaidIndex], lefts: Sequence[Array], deciding: Set[PaidIndex]
) -> list[list[Programme]]:
    """Returns the programmes of each level, one for each of the candidates' typical costs.

    lefts: for each level, `left` as in `moves_of`.
    """
    rungs_and_terminal = [*rungs, pool.paid[-1]]
    typical_costs = _typical_costs(pool.costs[rows][:, rungs_and_terminal], MAX_PLANS // len(lefts))
    failures = pool.failures()[rungs_and_terminal].tolist()
    needed = 0  # one bit for each rung that decides an objective
    for place, j in enumerate(rungs):
        if j in deciding:
            needed |= 1 << place
    programmes_by_level = []
    for left in lefts:
        moves = moves_of(left)  # the same for all costs
        programmes_by_level.append([solve_left(left, costs, failures, needed, moves) for costs in typical_costs])
    return programmes_by_level


def _assigned_groups(
    pool: CandidatePool,
    places: RowIndices,
    rows: RowIndices,
    rungs: tuple[PaidIndex, ...],
    u: Array,
    expected: Array,
    utility: Array,
    levels: Array,
    plans: Sequence[Sequence[Programme]],
) -> Iterator[CandidateGroup]:
    """Assigns to each candidate its most valuable plan at the nearest level of u, and yields the candidates by plan.

    A candidate's index is interpolated between the indices of its best plans at the two neighbouring levels. plans: by
    level; each level has the same number of them.
    """
    n = len(u)
    terminal_cost = pool.costs[rows, -1]
    own_costs = pool.costs[rows[:, None], np.array(rungs, dtype=np.intp)] / terminal_cost[:, None]
    have_plan_costs = len(plans[0]) == 1 and np.allclose(own_costs, plans[0][0].costs, rtol=1e-6, atol=1e-9)
    # (levels, n) weight of each level in the linear interpolation at u
    level_shares = np.array([np.interp(u, levels, unit) for unit in np.eye(len(levels))])
    log_index = np.zeros(n)
    weight = terminal_cost.copy()
    largest_share = np.zeros(n)
    chosen_level = np.zeros(n, dtype=np.intp)
    chosen_plan = np.zeros(n, dtype=np.intp)
    for number, level_plans in enumerate(plans):
        members = np.flatnonzero(level_shares[number] > 0)
        member_shares = level_shares[number, members]
        indices = np.array([plan.index(u[members]) for plan in level_plans])
        cost_factors = np.ones(indices.shape)
        if not have_plan_costs:
            cost_factors = np.array([plan.cost_factors(u[members], own_costs[members]) for plan in level_plans])
        best = np.argmax(indices / cost_factors, axis=0)
        best_factor = cost_factors[best, np.arange(len(members))]
        best_index = indices[best, np.arange(len(members))]
        log_index[members] += member_shares * np.log(best_index / best_factor)
        is_nearer = member_shares > largest_share[members]
        nearer = members[is_nearer]
        largest_share[nearer] = member_shares[is_nearer]
        weight[nearer] = terminal_cost[nearer] * best_factor[is_nearer]
        chosen_level[nearer] = number
        chosen_plan[nearer] = best[is_nearer]
    index = np.exp(log_index) / terminal_cost
    codes = chosen_level * len(plans[0]) + chosen_plan
    for code in np.unique(codes).tolist():
        level_number, plan_number = divmod(code, len(plans[0]))
        members = np.flatnonzero(codes == code)
        yield CandidateGroup(
            places=places[members],
            rungs=rungs,
            u=u[members],
            expected=expected[members],
            utility=utility[members],
            weight=weight[members],
            index=index[members],
            programme=plans[level_number][plan_number],
        )


def _situations(
    pool: CandidatePool, rows: RowIndices, deciding: Set[PaidIndex]
) -> Iterator[tuple[int, RowIndices, tuple[PaidIndex, ...]]]:
    """Yields, for candidates with the same rungs seen and open: a code, their positions in `rows`, and the open rungs.
    A rung is open if it and all rungs between it and the terminal one can be bought. Of more than MAX_RUNGS, the lowest
    that are not `deciding` are left out."""
    lower_rungs = pool.paid[:-1]
    n_lower = len(lower_rungs)
    codes = np.zeros(len(rows), dtype=np.int64)  # a bit for each seen rung, then one for each rung that is not open
    if n_lower:
        bits = 1 << np.arange(n_lower, dtype=np.int64)
        closed_from_above = pool.closed[rows][:, -2::-1]  # highest rung first, without the terminal one
        in_the_way = closed_from_above
        if pool.spared is not None:
            in_the_way = closed_from_above & ~pool.spared[rows][:, -2::-1]  # the ladder leads past a spared rung
        not_open = (np.logical_or.accumulate(in_the_way, axis=1) | closed_from_above)[:, ::-1]
        seen = np.array([pool.answered(j, rows) for j in lower_rungs]).T
        codes = (not_open @ bits) * (1 << n_lower) + seen @ bits
    for code in np.unique(codes).tolist():
        open_rungs = [j for j in lower_rungs if not code >> (n_lower + j) & 1]
        n_too_many = max(0, len(open_rungs) - MAX_RUNGS)
        left_out = [j for j in open_rungs if j not in deciding][:n_too_many]
        yield code, np.flatnonzero(codes == code), tuple(j for j in open_rungs if j not in left_out)


def _forecasts(
    pool: CandidatePool,
    rows: RowIndices,
    rungs: Sequence[int],
    aims: Aims,
    truths: Sequence[TruthTransform],
    chains: Sequence[Chain],
) -> tuple[Array, Array, Array]:
    """Returns means and variances (q, n) of each aim's property, and the share (q, 2**m) of the variance that each set
    of rungs explains. The shares are those of the largest set of candidates that lack the same answers. A property
    whose deciding rung has answered has that answer as its mean, and no further rung tells more about it."""
    q = len(aims.aims)
    n = len(rows)
    deciding_scores = pool.deciding_scores
    means = np.zeros((q, n))
    variances = np.ones((q, n))
    shares = np.zeros((q, 1 << len(rungs)))
    for i, (aim, truth, chain) in enumerate(zip(aims.aims, truths, chains, strict=True)):
        largest_size = 0
        for places, forecast in chain.forecast(rows):
            means[i, places] = forecast.mean
            variances[i, places] = forecast.variance
            if len(places) > largest_size:
                largest_size = len(places)
                shares[i] = _explained_shares(pool, rows, rungs, aim, chain, forecast)
        deciding_rung = pool.rungs[aim.columns[-1]]
        if deciding_rung in rungs:
            has_deciding_rung = np.arange(1 << len(rungs)) >> rungs.index(deciding_rung) & 1
            shares[i, has_deciding_rung == 1] = 1 - FLOOR
        _set_decided(means[i], variances[i], deciding_scores[rows, aim.columns[-1]], truth)
    return means, variances, shares


def _set_decided(means: Array, variances: Array, answers: Array, truth: TruthTransform) -> None:
    """Replaces the forecasts (n,) of candidates whose deciding rung has answered. answers: (n,), NaN without one."""
    known = ~np.isnan(answers)
    means[known] = truth(answers[known])
    variances[known] = FLOOR


def expected_payoffs(
    laws: Sequence[Law],
    rows: RowIndices,
    aims: Aims,
    truths: Sequence[TruthTransform],
    scores: Array,
    payoff: Payoff,
    with_slope_doubt: bool = False,
) -> Array:
    """Returns (n,) expected payoffs of a terminal verification: the mean over the laws by weight, as the scheduler
    takes it.

    rows: (n,) the candidates. scores: all answers, as of a pool. with_slope_doubt: outside the verified range, the
    variance includes the doubt about slopes, so that no policy earns by extrapolation; no purchase depends on it.
    """
    expected = np.zeros(len(rows))
    for law in laws:
        means = np.zeros((len(truths), len(rows)))
        variances = np.ones((len(truths), len(rows)))
        for i, (aim, truth, chain) in enumerate(zip(aims.aims, truths, law.chains, strict=True)):
            for places, forecast in chain.forecast(rows):
                means[i, places] = forecast.mean
                variances[i, places] = forecast.variance
                if with_slope_doubt:
                    variances[i, places] += chain.reach.sd_by_slope_doubt(forecast.mean) ** 2
            _set_decided(means[i], variances[i], scores[rows, aim.columns[-1]], truth)
        expected += law.weight * payoff.expected(means, variances)
    return expected


def _explained_shares(
    pool: CandidatePool, rows: RowIndices, rungs: Sequence[int], aim: Aim, chain: Chain, forecast: Forecast
) -> Array:
    """Returns the share (2**m,) of the variance that each set of rungs explains beyond chance, for the candidates of
    one forecast. rows: (n,) the candidates whose costs say how far to doubt a rung."""
    covariances = forecast.covariance[:: max(1, len(forecast.covariance) // COVARIANCE_SAMPLE)]
    missing_rungs = [pool.rungs[aim.columns[c]] for c in forecast.missing]
    columns_by_rung = [[place for place, rung in enumerate(missing_rungs) if rung == j] for j in rungs]
    chance_shares = [
        _answers_by_chance(pool, rows, rung) / max(chain.pairs(c), 1)
        for c, rung in zip(forecast.missing, missing_rungs, strict=True)
    ]
    left = variances_left(np.median(covariances, axis=0), columns_by_rung)
    chance_by_rung = [sum(chance_shares[c] for c in columns) for columns in columns_by_rung]
    return _shares_beyond_chance(1 - left / left[0], chance_by_rung)


def _answers_by_chance(pool: CandidatePool, rows: RowIndices, rung: int) -> float:
    """Returns how many of a rung's answers are attributed to chance when its share is judged: one, or less for a cheap
    rung, since a wrong belief in it costs little."""
    costs = pool.costs[rows[:: math.ceil(len(rows) / COST_SAMPLE)]]
    relative_cost = float(np.median(costs[:, rung] / costs[:, -1]))
    return min(1.0, relative_cost / DEAR_COST)


def _shares_beyond_chance(shares: Array, chance: Sequence[float]) -> Array:
    """Returns (2**m,) shares of the variance that sets of rungs explain beyond chance, since few answers show a
    relation even between unrelated numbers. shares: (2**m,) as the law has them. chance: (m,) share of a variance that
    an unrelated rung would explain.

    As for the adjusted coefficient of determination, a share s becomes s - (1 - s) sum_j chance_j over the rungs j of
    the set. The share of a set is at least the share of any of its subsets.
    """
    adjusted = np.zeros_like(shares)
    for seen in range(1, len(shares)):
        rungs = [j for j in range(len(chance)) if seen >> j & 1]
        own_share = float(shares[seen] - (1 - shares[seen]) * sum(chance[j] for j in rungs))
        subset_shares = [adjusted[seen & ~(1 << j)] for j in rungs]
        adjusted[seen] = max(own_share, *subset_shares)
    return adjusted


def _is_undecidable(pool: CandidatePool, rows: RowIndices, rungs: Sequence[int], aims: Aims) -> Mask:
    """Returns (n,) whether an objective can no longer be decided, since its rung failed or was passed over."""
    terminal = pool.costs.shape[1] - 1
    is_undecidable = np.zeros(len(rows), dtype=bool)
    for aim in aims.aims:
        rung = pool.rungs[aim.columns[-1]]
        is_bought_below_terminal = 0 <= rung < terminal
        if is_bought_below_terminal and rung not in rungs:
            is_undecidable |= np.isnan(pool.deciding_scores[rows, aim.columns[-1]])
    return is_undecidable


def _levels(u: Array) -> Array:
    """Returns the levels of u in ascending order, spaced by LEVEL_SPACING down from the most promising candidate."""
    levels: Array = u.max() - LEVEL_SPACING * np.arange(N_LEVELS)[::-1]
    reached: Array = levels[levels >= u.min()]
    return reached


def _representatives(u: Array, level: float) -> RowIndices:
    """Returns positions in u of the candidates that represent a level of u."""
    distance = np.abs(u - level)
    near = np.flatnonzero(distance <= LEVEL_SPACING / 2)
    if len(near) < MIN_PER_LEVEL:
        return np.argsort(distance, kind="stable")[:MIN_PER_LEVEL]
    return near[:: math.ceil(len(near) / MAX_PER_LEVEL)]


def _remaining_shares(payoff: Payoff, means: Array, variances: Array, shares: Array, sample: RowIndices) -> Array:
    """Returns (2**m,) shares of the variance that remain after each set of rungs: medians over a sample of the
    candidates."""
    left: Array = np.ones(shares.shape[1])
    for seen in range(1, shares.shape[1]):
        expected, second = payoff.moments(means[:, sample], variances[:, sample], shares[:, seen])
        left[seen] = 1 - float(np.median(share_told(expected, second)))
    return np.maximum(left, FLOOR)


def _typical_costs(costs: Array, n_plans: int) -> list[list[float]]:
    """Returns typical costs of the rungs, in terminal verifications, for about `n_plans` plans.

    costs: (n, m + 1), terminal rung last. Candidates are split repeatedly along the widest cost range. After a split,
    there are also costs for a plan without rungs, and for a plan with each rung alone.
    """
    sample = costs[:: max(1, len(costs) // COST_SAMPLE)]
    log_costs = np.log2(np.clip(sample[:, :-1] / sample[:, -1:], 1e-12, NEVER))
    boxes = [log_costs]
    while log_costs.shape[1] and len(boxes) < n_plans:
        spreads = [np.ptp(box, axis=0).max() for box in boxes]
        widest = int(np.argmax(spreads))
        if spreads[widest] < PLAN_COST_RANGE:
            break
        box = boxes.pop(widest)
        column = box[:, int(np.argmax(np.ptp(box, axis=0)))]
        middle = (column.min() + column.max()) / 2
        boxes += [box[column <= middle], box[column > middle]]
    typical = [2.0 ** np.median(box, axis=0) for box in boxes]
    if len(boxes) > 1:
        median_costs = 2.0 ** np.median(log_costs, axis=0)
        typical.append(np.full(len(median_costs), NEVER))
        for j, cost in enumerate(median_costs):
            only_this_rung = np.full(len(median_costs), NEVER)
            only_this_rung[j] = cost
            typical.append(only_this_rung)
    return [rung_costs.tolist() for rung_costs in typical]
