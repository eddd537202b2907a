"""Values the open candidates: from the laws' forecasts to the programmes that give rungs to buy, and their index.

Forecasts take most of the time of an update, so not all candidates are evaluated in each. Without a hyper-parameter
fit, the candidates near the top and the new ones are evaluated. After a fit, all open candidates are evaluated if there
are at most `ALL`. Otherwise a random sample is. A regression on the sample (old index, known scores, costs -> new
index) predicts the others. The best predicted are evaluated too; the others keep their prediction. The sample
represents them in the calculation of the price.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.ladder import PaidIndex
from sciagent.scheduling.aims import Aims, Payoff, share_told, to_u
from sciagent.scheduling.arrays import Array, Mask, RowIndices
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
from sciagent.scheduling.law.chain import Chain
from sciagent.scheduling.law.transforms import TruthTransform

Plans = dict[int, tuple[Array, list[list[Programme]]]]  # levels, and programmes by level, for each set of rungs

SAMPLE = 256  # candidates whose median covariance represents their group
# with several properties, a rung's value depends on the candidate: programmes per level, APART in u
LEVELS = 5
APART = 0.5
TOLD = 48
FEWEST = 8  # candidates that represent a level: largest and smallest number
PLANS = 16  # largest number of plans for different relative costs, over all levels
ALIKE = 0.5  # range of relative costs per plan, in factors of two
DEAR = 0.01  # cost of a rung, in terminal verifications, from which what it seems to tell is fully doubted
SOME = 4096  # candidates whose costs determine the plans
BLOCK = 1 << 16  # candidates computed at a time
MOST_RUNGS = 5  # largest number of rungs in one programme


@dataclass(frozen=True)
class CandidateGroup:
    """Candidates with one programme: the same rungs are seen and open. If programmes were solved for several costs, it
    is the one whose plan is worth most to them."""

    places: RowIndices
    """(n,) positions in the candidates that were passed in."""
    rungs: tuple[PaidIndex, ...]
    """Open rungs below the terminal one."""
    u: Array
    """(n,) probit of the expected payoff, as in `value`."""
    expected: Array
    """(n,) expected payoff of a terminal verification."""
    weight: Array
    """(n,) the programme's unit of cost: a terminal verification, scaled by how much more the plan costs with the
    candidate's own costs."""
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
        """Returns (n,) position in `rungs` of the rung to buy, or TERMINAL: at this price, or at the candidate's index
        if the price is 0 or nothing pays."""
        at_index = self.programme.at_index(self.u)
        if price <= 0:
            return at_index
        now = self.programme.action(self.u, price * self.weight)
        return np.where(now == STOP, at_index, now)

    def to_go(self, prices: Array, of: Mask) -> Array:
        """Returns the expected cost to go of the candidates in `of`, at each of the ascending prices."""
        total = np.zeros(len(prices))
        bins = np.rint(2 * np.log2(self.weight)).astype(np.int64)
        for weight_bin in np.unique(bins[of]):
            mine = of & (bins == weight_bin)
            spend = self.programme.to_go(self.u[mine], self.weight[mine])
            price = prices * float(np.median(self.weight[mine]))
            total += np.interp(np.log(price), np.log(PRICES), spend)
        return total


def groups(
    pool: CandidatePool,
    of: RowIndices,
    aims: Aims,
    truths: Sequence[TruthTransform],
    payoff: Payoff,
    chains: Sequence[Chain],
    barred: Set[PaidIndex] = frozenset(),
    plans: Plans | None = None,
) -> Iterator[CandidateGroup]:
    """Yields groups of the candidates `of`, (n,). chains: one per aim. barred: rungs that cannot be bought. plans: kept
    from candidates with the same law; missing ones are added."""
    last = pool.paid[-1]
    simple = len(truths) == 1 and truths[0].is_one_sided and aims.kind == "hits"
    deciding = {pool.rungs[aim.columns[-1]] for aim in aims.aims} - {last}
    plans = Plans() if plans is None else plans
    for code, places, had in _situations(pool, of, deciding):
        some = of[places]
        rungs = tuple(j for j in had if j not in barred)
        means, variances, shares = _forecasts(pool, some, rungs, aims, truths, chains)
        expected, u = _expected(payoff, means, variances, truths[0] if simple else None)
        lost = _lost(pool, some, rungs, aims)
        expected = np.where(lost, 0.0, expected)
        u = np.where(lost, U[0], u)
        if not simple or code not in plans:
            levels = U[:1]
            lefts = [1 - shares[0]]
            if not simple:
                levels = _levels(u)
                lefts = [_left(payoff, means, variances, shares, _near(u, level)) for level in levels]
            plans[code] = levels, _solved(pool, some, rungs, lefts, deciding)
        for start in range(0, len(some), BLOCK):
            mine = slice(start, start + BLOCK)
            yield from _assigned(pool, places[mine], some[mine], rungs, u[mine], expected[mine], *plans[code])


def _expected(payoff: Payoff, means: Array, variances: Array, limit: TruthTransform | None) -> tuple[Array, Array]:
    """Returns (n,) expected payoff and its probit. limit: the only limit, if hits above it are the whole payoff."""
    if limit is None:
        expected = payoff.expected(means, variances)
        return expected, to_u(expected)
    sd = np.sqrt(variances[0])
    return limit.chance(means[0], sd), means[0] / sd


def _solved(
    pool: CandidatePool, of: RowIndices, rungs: Sequence[PaidIndex], lefts: Sequence[Array], deciding: Set[PaidIndex]
) -> list[list[Programme]]:
    """Returns the programmes of each level, for typical costs of the candidates. lefts: per level, as in `moves_of`."""
    last = pool.paid[-1]
    costs = _typical(pool.costs[of][:, [*rungs, last]], PLANS // len(lefts))
    fails = pool.failures()[[*rungs, last]].tolist()
    needed = sum(1 << place for place, j in enumerate(rungs) if j in deciding)
    solved = []
    for left in lefts:
        moves = moves_of(left)
        solved.append([solve_left(left, typical, fails, needed, moves) for typical in costs])
    return solved


def _assigned(
    pool: CandidatePool,
    places: RowIndices,
    of: RowIndices,
    rungs: tuple[PaidIndex, ...],
    u: Array,
    expected: Array,
    levels: Array,
    plans: Sequence[Sequence[Programme]],
) -> Iterator[CandidateGroup]:
    """Assigns to each candidate its most valuable plan at the nearest level of u. Its index is interpolated between the
    two neighbouring levels. plans: by level."""
    terminal = pool.costs[of, -1]
    own = pool.costs[of[:, None], np.array(rungs, dtype=np.intp)] / terminal[:, None]
    alike = len(plans[0]) == 1 and np.allclose(own, plans[0][0].costs, rtol=1e-6, atol=1e-9)
    shares = np.array([np.interp(u, levels, unit) for unit in np.eye(len(levels))])
    logs = np.zeros(len(u))
    weight = terminal.copy()
    most = np.zeros(len(u))
    chosen = np.zeros((2, len(u)), dtype=np.intp)
    for number, level in enumerate(plans):
        mine = np.flatnonzero(shares[number] > 0)
        indices = np.array([plan.index(u[mine]) for plan in level])
        dearer = np.ones(indices.shape)
        if not alike:
            dearer = np.array([plan.dearer(u[mine], own[mine]) for plan in level])
        best = np.argmax(indices / dearer, axis=0)
        dearer = dearer[best, np.arange(len(mine))]
        logs[mine] += shares[number, mine] * np.log(indices[best, np.arange(len(mine))] / dearer)
        nearer = shares[number, mine] > most[mine]
        here = mine[nearer]
        most[here] = shares[number, here]
        weight[here] = terminal[here] * dearer[nearer]
        chosen[0, here] = number
        chosen[1, here] = best[nearer]
    index = np.exp(logs) / terminal
    codes = chosen[0] * len(plans[0]) + chosen[1]
    for code in np.flatnonzero(np.bincount(codes)):
        (number, plan) = divmod(int(code), len(plans[0]))
        mine = np.flatnonzero(codes == code)
        yield CandidateGroup(
            places[mine], rungs, u[mine], expected[mine], weight[mine], index[mine], plans[number][plan]
        )


def _situations(
    pool: CandidatePool, of: RowIndices, deciding: Set[PaidIndex]
) -> Iterator[tuple[int, RowIndices, tuple[PaidIndex, ...]]]:
    """Yields candidates with the same rungs seen and open: a code, their positions in `of`, and the open rungs. A rung
    is open if it and all rungs above it can be bought. deciding: rungs that are kept if there are too many."""
    last = pool.paid[-1]
    bits = 1 << np.arange(last, dtype=np.int64)
    shut = np.logical_or.accumulate(pool.closed[of][:, -2::-1], axis=1)[:, ::-1]
    codes = np.zeros(len(of), dtype=np.int64)
    if last:
        seen = np.array([pool.answered(j, of) for j in pool.paid[:-1]]).T
        codes = (shut @ bits) * (1 << last) + seen @ bits
    for code in np.unique(codes):
        rungs = [j for j in pool.paid[:-1] if not int(code) >> (last + j) & 1]
        spare = [j for j in rungs if j not in deciding][: max(0, len(rungs) - MOST_RUNGS)]
        yield int(code), np.flatnonzero(codes == code), tuple(j for j in rungs if j not in spare)


def _forecasts(
    pool: CandidatePool,
    of: RowIndices,
    rungs: Sequence[int],
    aims: Aims,
    truths: Sequence[TruthTransform],
    chains: Sequence[Chain],
) -> tuple[Array, Array, Array]:
    """Returns means and variances (q, n) of each aim's property, and the share (q, 2**m) of the variance that each set
    of rungs explains. Decided properties are known; no rung tells more about them."""
    q = len(aims.aims)
    n = len(of)
    means = np.zeros((q, n))
    variances = np.ones((q, n))
    shares = np.zeros((q, 1 << len(rungs)))
    for i, (aim, truth, chain) in enumerate(zip(aims.aims, truths, chains, strict=True)):
        heaviest = 0
        for places, forecast in chain.forecast(of):
            means[i, places] = forecast.mean
            variances[i, places] = forecast.variance
            if len(places) > heaviest:
                heaviest = len(places)
                some = forecast.covariance[:: max(1, len(places) // SAMPLE)]
                at = [pool.rungs[aim.columns[c]] for c in forecast.missing]
                columns = [[place for place, rung in enumerate(at) if rung == j] for j in rungs]
                chance = [
                    _chance(pool, of, rung) / max(chain.pairs(c), 1)
                    for c, rung in zip(forecast.missing, at, strict=True)
                ]
                left = variances_left(np.median(some, axis=0), columns)
                shares[i] = _doubted(1 - left / left[0], [sum(chance[c] for c in mine) for mine in columns])
        decides = pool.rungs[aim.columns[-1]]
        if decides in rungs:
            mine = np.arange(1 << len(rungs)) >> rungs.index(decides) & 1
            shares[i, mine == 1] = 1 - FLOOR
        answers = pool.scores[of, aim.columns[-1]]
        known = ~np.isnan(answers)
        means[i, known] = truth(answers[known])
        variances[i, known] = FLOOR
    return means, variances, shares


def _chance(pool: CandidatePool, of: RowIndices, rung: int) -> float:
    """Returns the number of answers whose worth of chance is taken off what a rung seems to tell: less than one for a
    cheap rung, since a wrong belief in it costs little."""
    some = pool.costs[of[:: math.ceil(len(of) / SOME)]]
    return min(1.0, float(np.median(some[:, rung] / some[:, -1])) / DEAR)


def _doubted(shares: Array, chance: Sequence[float]) -> Array:
    """Returns (2**m,) shares of the variance that sets of rungs explain beyond chance, since few answers show a
    relation even between unrelated numbers. shares: (2**m,) as the law has them. chance: (m,) share of a variance that
    an unrelated rung would explain.

    As for the adjusted coefficient of determination, a share s becomes s - (1 - s) sum_j chance_j over the rungs j of
    the set. It is at least that of any smaller set.
    """
    doubted = np.zeros_like(shares)
    for seen in range(1, len(shares)):
        rungs = [j for j in range(len(chance)) if seen >> j & 1]
        told = float(shares[seen] - (1 - shares[seen]) * sum(chance[j] for j in rungs))
        doubted[seen] = max(told, *(doubted[seen & ~(1 << j)] for j in rungs))
    return doubted


def _lost(pool: CandidatePool, of: RowIndices, rungs: Sequence[int], aims: Aims) -> Mask:
    """Returns (n,) whether an objective can no longer be decided, since its rung failed or was passed over."""
    last = pool.costs.shape[1] - 1
    lost = np.zeros(len(of), dtype=bool)
    for aim in aims.aims:
        rung = pool.rungs[aim.columns[-1]]
        if 0 <= rung < last and rung not in rungs:
            lost |= np.isnan(pool.scores[of, aim.columns[-1]])
    return lost


def _levels(u: Array) -> Array:
    """Returns the levels of u in ascending order, spaced by APART down from the most promising candidate."""
    levels: Array = u.max() - APART * np.arange(LEVELS)[::-1]
    reached: Array = levels[levels >= u.min()]
    return reached


def _near(u: Array, level: float) -> RowIndices:
    """Returns candidates that represent a level of u."""
    away = np.abs(u - level)
    near = np.flatnonzero(away <= APART / 2)
    if len(near) < FEWEST:
        return np.argsort(away, kind="stable")[:FEWEST]
    return near[:: math.ceil(len(near) / TOLD)]


def _left(payoff: Payoff, means: Array, variances: Array, shares: Array, some: RowIndices) -> Array:
    """Returns (2**m,) remaining shares of the variance, from some of the candidates."""
    left: Array = np.ones(shares.shape[1])
    for seen in range(1, shares.shape[1]):
        expected, second = payoff.moments(means[:, some], variances[:, some], shares[:, seen])
        left[seen] = 1 - float(np.median(share_told(expected, second)))
    return np.maximum(left, FLOOR)


def _typical(costs: Array, most: int) -> list[list[float]]:
    """Returns typical costs of the rungs, in terminal verifications, for about `most` plans. costs: (n, m + 1),
    terminal rung last. Candidates are split repeatedly along the widest cost range. If they are, there is also a plan
    without rungs, and one for each rung alone."""
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


AHEAD = 3000  # candidates near the top that are evaluated between fits
ALL = 30_000  # largest number of open candidates that are all evaluated after a fit
DRAWN = 0.1  # fraction in the random sample,
UPPER = 12_000  # and number of best-predicted others that are evaluated
EACH = 10  # sampled candidates per fitted number of a regression; with fewer there is no prediction
FITTED = 10_000  # largest number of sampled candidates per regression
SUBSAMPLE_BLOCK = 1 << 14  # candidates computed at a time


@dataclass(frozen=True)
class Evaluated:
    """The candidates that are evaluated in one update."""

    of: RowIndices
    """(n,) rows of the pool."""
    anew: bool
    """Whether the spend of all open candidates is computed from this update alone."""
    others: Array | None = None
    """(n,) number of unevaluated candidates that each one represents; None if all were evaluated."""


def ahead(of: RowIndices, index: Array) -> Evaluated:
    """Selects the candidates near the top, since the order changes slowly, and new ones. of: all open candidates.
    index: (n,) of each when last evaluated, NaN if never."""
    new = np.isnan(index)
    certain = AHEAD + int(new.sum())
    if len(of) <= certain:
        return Evaluated(of, True)
    chosen = np.argpartition(np.where(new, -np.inf, -index), certain)[:certain]
    return Evaluated(np.sort(of[chosen]), False)


def first(index: Array) -> Mask:
    """Returns (n,) whether a candidate has one of the `AHEAD` largest indices."""
    near = np.ones(len(index), dtype=bool)
    if len(index) > AHEAD:
        near[np.argpartition(-index, AHEAD)[AHEAD:]] = False
    return near


def drawn(index: Array, rng: np.random.Generator) -> Mask:
    """Returns (n,) whether a candidate is evaluated after a fit before any prediction: all of them, or of very many the
    new ones and a sample of the others. index: as in `ahead`."""
    new = np.isnan(index)
    if len(index) <= ALL or len(index) - new.sum() <= UPPER:
        return np.ones(len(index), dtype=bool)
    return new | (rng.random(len(index)) < DRAWN)


def guessed(pool: CandidatePool, of: RowIndices, before: Array, seen: Mask, now: Array) -> Array:
    """Returns (n,) predicted indices, infinite if there is no prediction, 0 if the index was 0. before: as `index` in
    `ahead`. seen, now: (n,) whether a candidate was evaluated, and (m,) the indices of those."""
    guess = np.where(before == 0, 0.0, np.inf)
    known = np.full(len(of), np.nan)
    known[seen] = now
    for kind in _kinds(pool, of):
        kind = kind[before[kind] > 0]
        some = kind[seen[kind] & (known[kind] > 0)] if len(kind) else kind
        some = some[:: max(1, len(some) // FITTED)]
        columns: Mask = np.all(~np.isnan(pool.scores[of[some]]), axis=0)
        open_: Mask = np.all(~pool.closed[of[some]], axis=0)
        if len(some) < EACH * (3 + 2 * (columns.sum() + open_.sum())):
            continue
        x = _inputs(pool, of[some], before[some], columns, open_)
        centre = x.mean(0)
        spread = np.maximum(x.std(0), 1e-9)
        weights = np.linalg.lstsq(_curved((x - centre) / spread), np.log(known[some]), rcond=None)[0]
        for start in range(0, len(kind), SUBSAMPLE_BLOCK):
            mine = kind[start : start + SUBSAMPLE_BLOCK]
            x = _inputs(pool, of[mine], before[mine], columns, open_)
            guess[mine] = np.exp(np.minimum(_curved((x - centre) / spread) @ weights, 700.0))
    return guess


def promising(guess: Array, seen: Mask) -> tuple[Mask, Array]:
    """Returns (n,) which other candidates to evaluate, and (n,) how many of the remaining ones each sampled candidate
    with a similarly low prediction represents."""
    rest = np.flatnonzero(~seen)
    order = rest[np.argsort(-guess[rest], kind="stable")]
    certain = max(UPPER, int(np.isinf(guess[rest]).sum()))
    chosen = np.zeros(len(guess), dtype=bool)
    others = np.zeros(len(guess))
    chosen[order[:certain]] = True
    below = order[certain:]
    if len(below):
        alike = seen & (guess <= guess[below[0]])
        others[alike] = len(below) / max(1, int(alike.sum()))
    return chosen, others


def _kinds(pool: CandidatePool, of: RowIndices) -> Iterator[RowIndices]:
    """Groups candidates by their known scores and open rungs. Yields, for each group, the indices into `of`."""
    known = np.concatenate([np.isnan(pool.scores[of]), pool.closed[of]], axis=1)
    codes = np.unique(np.packbits(known, axis=1), axis=0, return_inverse=True)[1].ravel()
    for code in range(int(codes.max()) + 1 if len(codes) else 0):
        yield np.flatnonzero(codes == code)


def _inputs(pool: CandidatePool, of: RowIndices, before: Array, columns: Mask, rungs: Mask) -> Array:
    """Returns (n, d) inputs of the regression."""
    costs = np.log(np.maximum(pool.costs[of][:, rungs], 1e-300))
    return np.column_stack([np.log(before), pool.scores[of][:, columns], costs])


def _curved(x: Array) -> Array:
    x = np.clip(x, -6, 6)
    return np.column_stack([np.ones(len(x)), x, x * x])
