"""What each open candidate promises: from laws to the programmes that say what to buy for it, and at which price."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.campaigns.ladder import PaidIndex
from sciagent.scheduling.aims import Aims
from sciagent.scheduling.arrays import Array, Mask, Places
from sciagent.scheduling.candidate_pool import CandidatePool
from sciagent.scheduling.law.chain import Chain
from sciagent.scheduling.law.transforms import TruthTransform
from sciagent.scheduling.payoff import Payoff, share_told, to_u
from sciagent.scheduling.value import FLOOR, NEVER, PRICES, STOP, Programme, U, moves_of, solve_left, variances_left

Plans = dict[int, tuple[Array, list[list[Programme]]]]  # levels, and programmes by level; by what was seen

SAMPLE = 256  # candidates whose covariance stands for those of their group
# where several things decide, rungs tell more of some candidates than of others: programmes for so many u, so far apart
LEVELS, APART = 5, 0.5
TOLD, FEWEST = 48, 8  # candidates that stand for those at a level, at most and at least
PLANS = 16  # for candidates whose rungs differ in relative cost, at most; at all levels together
ALIKE = 0.5  # factors of two between relative costs that one plan is made for
SOME = 4096  # candidates whose costs the plans are made for
BLOCK = 1 << 16  # candidates at a time
MOST_RUNGS = 5  # that a programme weighs at once


@dataclass(frozen=True)
class CandidateGroup:
    """Candidates that share a programme: they have seen the same rungs and can buy the same ones. Of the programmes for
    different costs it is the one by whose plan they are worth most."""

    places: Places
    """(n,) places in the candidates asked for."""
    rungs: tuple[PaidIndex, ...]
    """The rungs that can be bought, below the terminal one."""
    u: Array
    """(n,) probit of the expected payoff, as in `value`."""
    expected: Array
    """(n,) expected payoff of a terminal verification."""
    weight: Array
    """(n,) the programme's unit of cost: a terminal verification, or what one would cost were the programme's costs the
    candidate's own."""
    index: Array
    """(n,) payoff a unit of cost."""
    programme: Programme
    """The solved dynamic programme."""

    def worth(self, price: float) -> Array:
        """(n,) V; price: payoff a unit of cost."""
        return self.programme.worth(self.u, price * self.weight)

    def purchases(self, price: float) -> Array:
        """(n, m + 1) expected ones to come, the terminal rung last."""
        return self.programme.purchases(self.u, price * self.weight)

    def action(self, price: float) -> NDArray[np.int64]:
        """(n,) place in `rungs` of the one to buy, or TERMINAL: at the price, or where that is too high or 0, at the
        price of the index."""
        at_index = self.programme.at_index(self.u)
        if price <= 0:
            return at_index
        now = self.programme.action(self.u, price * self.weight)
        return np.where(now == STOP, at_index, now)

    def to_go(self, prices: Array, of: Mask | None = None) -> Array:
        """Expected cost to go of all, or of some, (n,), at each of prices: payoff a unit of cost, ascending."""
        total = np.zeros(len(prices))
        bins = np.rint(2 * np.log2(self.weight)).astype(np.int64)
        for weight_bin in np.unique(bins if of is None else bins[of]):
            mine = bins == weight_bin
            if of is not None:
                mine &= of
            spend = self.programme.to_go(self.u[mine], self.weight[mine])
            price = prices * float(np.median(self.weight[mine]))
            total += np.interp(np.log(price), np.log(PRICES), spend)
        return total


def groups(
    pool: CandidatePool,
    of: Places,
    aims: Aims,
    truths: Sequence[TruthTransform],
    payoff: Payoff,
    chains: Sequence[Chain],
    barred: Set[PaidIndex] = frozenset(),
    plans: Plans | None = None,
) -> Iterator[CandidateGroup]:
    """of: (n,) candidates. chains: one for each aim. barred: rungs that are not to be had. plans: kept from others, for
    whom the same law holds; what they lack is added."""
    last = pool.paid[-1]
    simple = len(truths) == 1 and truths[0].is_one_sided and aims.kind == "hits"
    deciding = {pool.rungs[aim.columns[-1]] for aim in aims.aims} - {last}
    plans = Plans() if plans is None else plans
    for code, places, had in _situations(pool, of, deciding):
        some, rungs = of[places], tuple(j for j in had if j not in barred)
        means, variances, shares = _forecasts(pool, some, rungs, aims, truths, chains)
        expected, u = _expected(payoff, means, variances, truths[0] if simple else None)
        lost = _lost(pool, some, rungs, aims)
        expected, u = np.where(lost, 0.0, expected), np.where(lost, U[0], u)
        if not simple or code not in plans:
            levels = U[:1] if simple else _levels(u)
            needed = sum(1 << place for place, j in enumerate(rungs) if j in deciding)
            lefts = [
                1 - shares[0] if simple else _left(payoff, means, variances, shares, _near(u, level))
                for level in levels
            ]
            plans[code] = levels, _solved(pool, some, rungs, lefts, needed)
        for start in range(0, len(some), BLOCK):
            mine = slice(start, start + BLOCK)
            yield from _assigned(pool, places[mine], some[mine], rungs, u[mine], expected[mine], *plans[code])


def _expected(payoff: Payoff, means: Array, variances: Array, limit: TruthTransform | None) -> tuple[Array, Array]:
    """(n,) expected payoff and its probit. limit: the only one, where hits lie above it and nothing else counts."""
    if limit is None:
        expected = payoff.expected(means, variances)
        return expected, to_u(expected)
    sd = np.sqrt(variances[0])
    return limit.chance(means[0], sd), means[0] / sd


def _solved(
    pool: CandidatePool, of: Places, rungs: Sequence[PaidIndex], lefts: Sequence[Array], needed: int
) -> list[list[Programme]]:
    """The programmes of each level, for typical costs of the candidates. lefts: by level, as for `moves_of`."""
    last = pool.paid[-1]
    costs = _typical(pool.costs[of][:, [*rungs, last]], PLANS // len(lefts))
    fails = pool.failures()[[*rungs, last]].tolist()
    made = []
    for left in lefts:
        moves = moves_of(left)
        made.append([solve_left(left, typical, fails, needed, moves) for typical in costs])
    return made


def _assigned(
    pool: CandidatePool,
    places: Places,
    of: Places,
    rungs: tuple[PaidIndex, ...],
    u: Array,
    expected: Array,
    levels: Array,
    plans: Sequence[Sequence[Programme]],
) -> Iterator[CandidateGroup]:
    """Assign to each candidate its most valuable plan at the level of u nearest to its own. Its index is interpolated
    between the two levels around it. plans: the plans of each level."""
    terminal = pool.costs[of, -1]
    own = pool.costs[of[:, None], np.array(rungs, dtype=np.intp)] / terminal[:, None]
    alike = len(plans[0]) == 1 and np.allclose(own, plans[0][0].costs, rtol=1e-6, atol=1e-9)
    shares = np.array([np.interp(u, levels, unit) for unit in np.eye(len(levels))])
    logs, weight, most = np.zeros(len(u)), terminal.copy(), np.zeros(len(u))
    chosen = np.zeros((2, len(u)), dtype=np.intp)
    for number, level in enumerate(plans):
        mine = np.flatnonzero(shares[number] > 0)
        indices = np.array([plan.index(u[mine]) for plan in level])
        dearer = np.ones(indices.shape) if alike else np.array([plan.dearer(u[mine], own[mine]) for plan in level])
        best = np.argmax(indices / dearer, axis=0)
        dearer = dearer[best, np.arange(len(mine))]
        logs[mine] += shares[number, mine] * np.log(indices[best, np.arange(len(mine))] / dearer)
        nearer = shares[number, mine] > most[mine]
        here = mine[nearer]
        most[here], weight[here] = shares[number, here], terminal[here] * dearer[nearer]
        chosen[0, here], chosen[1, here] = number, best[nearer]
    index = np.exp(logs) / terminal
    codes = chosen[0] * len(plans[0]) + chosen[1]
    for code in np.flatnonzero(np.bincount(codes)):
        (number, plan), mine = divmod(int(code), len(plans[0])), np.flatnonzero(codes == code)
        yield CandidateGroup(
            places[mine], rungs, u[mine], expected[mine], weight[mine], index[mine], plans[number][plan]
        )


def _situations(
    pool: CandidatePool, of: Places, deciding: Set[PaidIndex]
) -> Iterator[tuple[int, Places, tuple[PaidIndex, ...]]]:
    """A number for, and places in `of` of, candidates that have seen the same rungs and can buy the same ones, and the
    latter: a rung can be bought while it and all above it are open. deciding: rungs that are not left out where there
    are too many."""
    last = pool.paid[-1]
    bits = 1 << np.arange(last, dtype=np.int64)
    shut = np.logical_or.accumulate(pool.closed[of][:, -2::-1], axis=1)[:, ::-1]
    seen = np.array([pool.answered(j, of) for j in pool.paid[:-1]]).T if last else np.zeros((len(of), 0), bool)
    codes = (shut @ bits) * (1 << last) + seen @ bits if last else np.zeros(len(of), dtype=np.int64)
    for code in np.unique(codes):
        rungs = [j for j in pool.paid[:-1] if not int(code) >> (last + j) & 1]
        spare = [j for j in rungs if j not in deciding][: max(0, len(rungs) - MOST_RUNGS)]
        yield int(code), np.flatnonzero(codes == code), tuple(j for j in rungs if j not in spare)


def _forecasts(
    pool: CandidatePool,
    of: Places,
    rungs: Sequence[int],
    aims: Aims,
    truths: Sequence[TruthTransform],
    chains: Sequence[Chain],
) -> tuple[Array, Array, Array]:
    """Means and variances (q, n) of each aim's property, and the share (q, 2**m) of the variance that sets of rungs
    tell. What has been decided already is known, and nothing tells more of it."""
    q, n = len(aims.aims), len(of)
    means, variances, shares = np.zeros((q, n)), np.ones((q, n)), np.zeros((q, 1 << len(rungs)))
    for i, (aim, truth, chain) in enumerate(zip(aims.aims, truths, chains, strict=True)):
        heaviest = 0
        for places, forecast in chain.forecast(of):
            means[i, places], variances[i, places] = forecast.mean, forecast.variance
            if len(places) > heaviest:
                heaviest = len(places)
                some = forecast.covariance[:: max(1, len(places) // SAMPLE)]
                at = [pool.rungs[aim.columns[c]] for c in forecast.missing]
                columns = [[place for place, rung in enumerate(at) if rung == j] for j in rungs]
                left = variances_left(np.median(some, axis=0), columns)
                shares[i] = 1 - left / left[0]
        decides = pool.rungs[aim.columns[-1]]
        if decides in rungs:
            mine = np.arange(1 << len(rungs)) >> rungs.index(decides) & 1
            shares[i, mine == 1] = 1 - FLOOR
        answers = pool.scores[of, aim.columns[-1]]
        known = ~np.isnan(answers)
        means[i, known], variances[i, known] = truth(answers[known]), FLOOR
    return means, variances, shares


def _lost(pool: CandidatePool, of: Places, rungs: Sequence[int], aims: Aims) -> Mask:
    """(n,) where an objective was not decided and cannot be any more: its rung failed or was passed over."""
    last, lost = pool.costs.shape[1] - 1, np.zeros(len(of), dtype=bool)
    for aim in aims.aims:
        rung = pool.rungs[aim.columns[-1]]
        if 0 <= rung < last and rung not in rungs:
            lost |= np.isnan(pool.scores[of, aim.columns[-1]])
    return lost


def _levels(u: Array) -> Array:
    """From the most promising candidate down; ascending."""
    levels: Array = u.max() - APART * np.arange(LEVELS)[::-1]
    reached: Array = levels[levels >= u.min()]
    return reached


def _near(u: Array, level: float) -> Places:
    """Candidates that stand for those at a level of u."""
    away = np.abs(u - level)
    near = np.flatnonzero(away <= APART / 2)
    if len(near) < FEWEST:
        return np.argsort(away, kind="stable")[:FEWEST]
    return near[:: math.ceil(len(near) / TOLD)]


def _left(payoff: Payoff, means: Array, variances: Array, shares: Array, some: Places) -> Array:
    """(2**m,) share of the variance left, by some of the candidates."""
    left: Array = np.ones(shares.shape[1])
    for seen in range(1, shares.shape[1]):
        expected, second = payoff.moments(means[:, some], variances[:, some], shares[:, seen])
        left[seen] = 1 - float(np.median(share_told(expected, second)))
    return np.maximum(left, FLOOR)


def _typical(costs: Array, most: int) -> list[list[float]]:
    """What the rungs cost in terminal verifications, as plans are made for, about `most`; costs: (n, m + 1), the
    terminal rung last. The candidates are halved where they differ most, again and again; and there is a plan with each
    rung alone, and with none."""
    costs = costs[:: max(1, len(costs) // SOME)]
    logs = np.log2(np.clip(costs[:, :-1] / costs[:, -1:], 1e-12, NEVER))
    boxes = [logs]
    while logs.shape[1] and len(boxes) < most:
        spreads = [np.ptp(box, axis=0).max() for box in boxes]
        widest = int(np.argmax(spreads))
        if spreads[widest] < ALIKE:
            break
        box = boxes.pop(widest)
        column = box[:, int(np.argmax(np.ptp(box, axis=0)))]
        middle = (column.min() + column.max()) / 2
        boxes += [box[column <= middle], box[column > middle]]
    typical = [2.0 ** np.median(box, axis=0) for box in boxes]
    if len(boxes) > 1:
        middle = 2.0 ** np.median(logs, axis=0)
        typical += [np.where(np.arange(len(middle)) == j, middle, NEVER) for j in range(-1, len(middle))]
    return [costs.tolist() for costs in typical]
