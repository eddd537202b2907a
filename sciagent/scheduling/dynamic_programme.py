"""The remaining value of a candidate and the next rung to buy: the dynamic programme of a priced ladder.

A candidate's state is the set O of rungs seen and u = mean / standard deviation of its terminal answer, hits above 0.
With λ the price of one terminal verification,

    V_O(u) = max{0, (1 - p_K) Φ(u) - λ,
                 max_{j not in O} (1 - p_j) E[V_{O+j}(u')] + p_j V_O^{without j}(u) - λ c_j / c_K}

where u' ~ N(r u, r² - 1), and r = sd_O / sd_{O+j} is the factor by which rung j narrows the answer. Only these ratios
matter, so one programme serves all candidates with the same rungs seen, for any mean and spread. A rung may be skipped;
an uninformative one (r = 1) always is. A candidate's index is the highest price at which V is above 0: with one rung,
the probability of a hit; for any ladder, the analogue of the indices of Gittins and Weitzman.

Sources: Weitzman, Econometrica 47, 641 (1979); Scully and Terenin, arXiv 2506.10872 (2025).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sciagent.scheduling.arrays import Array, RowIndices

Moves = Mapping[tuple[int, int], Array]

U = np.linspace(-6.0, 6.0, 241)  # beyond these, probabilities are as good as 0 or 1
# of one terminal verification, in hits; dense near 1, where candidates are nearly certain
PRICES = np.concatenate([np.logspace(-7, 0, 57)[:-1], [0.8, 0.85, 0.9, 0.93, 0.96, 0.98, 0.99, 0.999]])
TERMINAL = -1
STOP = -2
NEVER = 2.0  # terminal verifications: a rung that costs as much is not bought before one
FLOOR = 1e-6  # smallest remaining fraction of the variance
_STEP = U[1] - U[0]


@dataclass(frozen=True)
class Programme:
    """The solution for candidates with the same rungs seen.

    begins: (prices,) the u above which a candidate has a value at each of PRICES. first: (prices,) the rung to buy
    there, as a position among the missing rungs, or TERMINAL. bought: (prices, m + 1) expected purchases of a candidate
    that starts there, terminal rung last. best: (U, prices) the position to buy at any u, STOP if nothing pays. value:
    (U, prices) V, in hits. costs: (m,) of the missing rungs, in terminal verifications.

    Candidates with other costs follow the same plan at their own costs, as if they paid another price: the hits found
    are the same, the spend differs. Their index is, to first order, that of their own plan, and never higher.
    """

    begins: Array
    first: NDArray[np.int64]
    bought: Array
    best: NDArray[np.int8]
    value: Array
    costs: Array
    policy: Policy
    _ahead: dict[int, Array] = field(default_factory=dict, repr=False)  # cached results of `purchases`

    @cached_property
    def spend(self) -> Array:
        """(U, prices) expected cost to go, in terminal verifications."""
        return self.policy.ahead(slice(None), np.append(self.costs, 1.0)[:, None])[:, :, 0]

    def index(self, u: Array) -> Array:
        """Returns (n,) highest prices, in hits per terminal verification, at which a candidate at u has a value."""
        index: Array = np.exp(np.interp(u, self.begins, np.log(PRICES)))
        return index

    def dearer(self, u: Array, own: Array) -> Array:
        """Returns (n,) factors by which the plan costs more, at its index price, with the costs `own`, (n, m)."""
        plan = np.array([np.interp(u, self.begins, times) for times in self.bought.T])
        times: Array = (plan[-1] + np.einsum("nj,jn->n", own, plan[:-1])) / (plan[-1] + self.costs @ plan[:-1])
        return times

    def at_index(self, u: Array) -> NDArray[np.int64]:
        """Returns (n,) purchases at u, at its index price: positions among the missing rungs, or TERMINAL."""
        return self.first[np.clip(np.searchsorted(self.begins, u) - 1, 0, len(PRICES) - 1)]

    def action(self, u: Array, price: float | Array) -> NDArray[np.int64]:
        """Returns (n,) purchases at u, at `price`: positions among the missing rungs, TERMINAL or STOP."""
        return self.best[nearest(u), _columns(price)].astype(np.int64)

    def worth(self, u: Array, price: float | Array) -> Array:
        """Returns (n,) values V at u, in hits."""
        return self.value[nearest(u), _columns(price)]

    def purchases(self, u: Array, price: float | Array) -> Array:
        """Returns (n, m + 1) expected future purchases at u, terminal rung last."""
        columns, places = np.unique(_columns(price), return_inverse=True)
        if new := [int(column) for column in columns if int(column) not in self._ahead]:
            self._ahead.update(
                zip(new, self.policy.ahead(np.array(new), np.eye(len(self.costs) + 1)).swapaxes(0, 1), strict=True)
            )
        return np.array([self._ahead[int(column)] for column in columns])[places, nearest(u)]

    def to_go(self, u: Array, weights: Array) -> Array:
        """Returns (prices,) expected cost to go, summed over candidates at u, (n,). weights: (n,) each one's cost of a
        terminal verification."""
        return np.bincount(nearest(u), weights, len(U)) @ self.spend


def nearest(u: Array) -> NDArray[np.int64]:
    """Returns the nearest rows of U."""
    rows: NDArray[np.int64] = np.clip(np.rint((u - U[0]) / _STEP), 0, len(U) - 1).astype(np.int64)
    return rows


def _columns(price: float | Array) -> NDArray[np.int64]:
    """Returns the columns of the next lower PRICES."""
    columns = np.searchsorted(PRICES, np.asarray(price) * (1 + 1e-9)) - 1
    return np.clip(columns, 0, len(PRICES) - 1).astype(np.int64)


def solve_price(to_go: Array, left: float) -> float:
    """Returns the price at which the expected cost to go, (prices,), is what is left; 0 if all is affordable."""
    if to_go[0] <= left:
        return 0.0
    falling = np.minimum.accumulate(to_go)
    return float(np.exp(np.interp(-left, -falling, np.log(PRICES))))


def moves_of(left: Array) -> Moves:
    """Returns the transition matrix for each set of rungs seen and each next rung, except rungs that tell nothing.

    left: (2**m,) variance of the terminal answer after each set of the m missing rungs, one bit per rung.
    """
    sd = np.sqrt(np.maximum(left, FLOOR * left[0]))
    moves = {}
    for seen in range(len(left)):
        for j in range(len(left).bit_length() - 1):
            if not seen >> j & 1 and sd[seen | 1 << j] < sd[seen] * (1 - 1e-4):
                moves[(seen, j)] = _move(sd[seen] / sd[seen | 1 << j])
    return moves


def solve_left(
    left: Array,
    costs: Sequence[float],
    failures: Sequence[float] | None = None,
    needed: int = 0,
    moves: Moves | None = None,
) -> Programme:
    """Returns the programme of candidates with m missing rungs besides the terminal one.

    left: as in `moves_of`. costs: (m,) in terminal verifications. failures: (m + 1,) probability that a rung gives no
    answer; default 0. At most one failure per candidate is modelled, since a second one hardly changes the decision.
    needed: rungs, one bit each, without whose answer there is no hit; no higher rung is bought before them. moves: of
    `left`, if already known.
    """
    m = len(costs)
    fails = np.zeros(m + 1) if failures is None else np.asarray(failures, dtype=float)
    moves = moves_of(left) if moves is None else moves
    terminal = (1 - fails[-1]) * ndtr(U)[:, None] - PRICES
    weighed = [j for j in range(m) if costs[j] < NEVER or needed >> j & 1]
    values: dict[tuple[int, int], Array] = {}
    actions: dict[tuple[int, int], NDArray[np.int8]] = {}
    gain = np.empty_like(terminal)
    other = np.empty_like(terminal)
    better = np.empty(terminal.shape, dtype=bool)
    for seen, gone in _states(weighed, fails):
        possible = not needed & ~seen
        q = terminal.copy() if possible else np.full(terminal.shape, -np.inf)
        best = np.full(terminal.shape, TERMINAL if possible else STOP, dtype=np.int8)
        for j in _affordable(seen, gone, weighed, needed, moves):
            if (seen, j) in moves:
                np.matmul(moves[seen, j], values[seen | 1 << j, gone], out=gain)
            else:
                np.copyto(gain, values[seen | 1 << j, gone])
            if fails[j] and not gone:
                gain *= 1 - fails[j]
                gain += np.multiply(values[seen, 1 << j], fails[j], out=other)
            gain -= PRICES * costs[j]
            np.greater(gain, q, out=better)
            np.copyto(q, gain, where=better)
            np.copyto(best, j, where=better)
        np.copyto(best, STOP, where=q <= 0)
        values[seen, gone] = np.maximum(q, 0.0)
        actions[seen, gone] = best
    policy = Policy(m, fails, moves, actions)
    rows, begins = _crossings(q)
    first = best[rows, np.arange(len(PRICES))].astype(np.int64)
    if needed and (first == STOP).any():  # if nothing pays, the rung that would be bought next
        first = np.where(first == STOP, (needed & -needed).bit_length() - 1, first)
    first = np.where(first == STOP, TERMINAL, first)
    bought = policy.from_rows(rows)
    return Programme(begins, first, bought, best, values[0, 0], np.array(costs, dtype=float), policy)


def _affordable(seen: int, gone: int, weighed: Sequence[int], needed: int, moves: Moves) -> list[int]:
    """Returns the rungs that are informative or needed, without skipping needed ones, which would be lost."""
    return [
        j
        for j in weighed
        if not (seen | gone) >> j & 1
        and ((seen, j) in moves or needed >> j & 1)
        and not needed & ~seen & ((1 << j) - 1)
    ]


def _states(rungs: Sequence[int], fails: Array) -> list[tuple[int, int]]:
    """Returns sets of rungs seen, with none or one failed rung; each state after the states that it leads to."""
    sets = [0]
    for j in rungs:
        sets += [seen | 1 << j for seen in sets]
    failing = [1 << j for j in rungs if fails[j]]
    states = []
    for seen in sorted(sets, key=int.bit_count, reverse=True):
        for gone in (*(failed for failed in failing if not seen & failed), 0):
            states.append((seen, gone))
    return states


@dataclass(frozen=True)
class Policy:
    """The purchases from each state and the transitions. m: number of rungs. fails: (m + 1,). actions: (U, prices) the
    purchase, STOP if none pays, by the set of rungs seen and the set of failed rungs, which has at most one."""

    m: int
    fails: Array
    moves: Moves
    actions: Mapping[tuple[int, int], NDArray[np.int8]]

    def ahead(self, columns: slice | NDArray[np.int64], counts: Array) -> Array:
        """Returns (U, columns, d) expected sums of counts, (m + 1, d), over the future purchases."""
        known: dict[tuple[int, int], Array] = {}
        for seen, gone in reversed(self._order()):
            best = self.actions[seen, gone][:, columns]
            ahead = np.where((best == TERMINAL)[:, :, None], counts[-1], 0.0)
            for j, then, failed in self._next(seen, gone, best):
                later = known[then]
                if (seen, j) in self.moves:
                    later = (self.moves[seen, j] @ later.reshape(len(U), -1)).reshape(later.shape)
                if failed is not None:
                    later = (1 - self.fails[j]) * later + self.fails[j] * known[failed]
                np.copyto(ahead, later + counts[j], where=np.equal(best, j)[:, :, None])
            known[seen, gone] = ahead
        return known[0, 0]

    def from_rows(self, rows: RowIndices) -> Array:
        """Returns (prices, m + 1) expected purchases of candidates that start at rows (prices,) of U, at each of
        PRICES; one terminal purchase if none pays."""
        purchases = np.zeros((len(PRICES), self.m + 1))
        begin = np.zeros((len(U), len(PRICES)))
        begin[rows, np.arange(len(PRICES))] = 1.0
        here = {(0, 0): begin}
        for seen, gone in self._order():
            if (seen, gone) not in here:
                continue
            mass = here.pop((seen, gone))
            best = self.actions[seen, gone]
            purchases[:, -1] += (mass * (best == TERMINAL)).sum(0)
            for j, then, failed in self._next(seen, gone, best):
                going = mass * np.equal(best, j)
                if not (bought := going.sum(0)).any():
                    continue
                purchases[:, j] += bought
                if failed is not None:
                    here[failed] = here.get(failed, 0.0) + self.fails[j] * going
                    going = (1 - self.fails[j]) * going
                if (seen, j) in self.moves:
                    going = self.moves[seen, j].T @ going
                here[then] = here.get(then, 0.0) + going
        purchases[purchases.sum(1) == 0, -1] = 1.0
        return purchases

    def _order(self) -> list[tuple[int, int]]:
        """Returns the states, each before those that it leads to."""
        return sorted(self.actions, key=lambda at: (at[0].bit_count(), at[1]))

    def _next(
        self, seen: int, gone: int, best: NDArray[np.int8]
    ) -> Iterator[tuple[int, tuple[int, int], tuple[int, int] | None]]:
        """Yields the rungs that are bought at any u, with the state after an answer and after a failure, or None."""
        for j in range(self.m):
            if (best == j).any():
                yield j, (seen | 1 << j, gone), (seen, 1 << j) if self.fails[j] and not gone else None


def variances_left(covariance: Array, columns: Sequence[Sequence[int]]) -> Array:
    """Returns (2**m,) variance of the last variable after each set of m rungs. columns: of each rung."""
    total = float(covariance[-1, -1])
    left = np.full(1 << len(columns), total)
    for seen in range(1, len(left)):
        places = list[int]()
        for j, mine in enumerate(columns):
            if seen >> j & 1:
                places.extend(mine)
        if places:
            inner = covariance[np.ix_(places, places)]
            outer = covariance[places, -1]
            left[seen] -= float(outer @ np.linalg.lstsq(inner, outer, rcond=None)[0])
    floored: Array = np.maximum(left, FLOOR * total)
    return floored


def _move(ratio: float) -> Array:
    """Returns (U, U) weights that average a function over u' ~ N(ratio u, ratio² - 1). The function is linear between
    the points of U and constant beyond its ends."""
    sd = float(np.sqrt(ratio**2 - 1))
    half = len(U) // 2  # the other half follows by symmetry
    x = (ratio * U[half:, None] - np.concatenate([[U[0] - _STEP], U, [U[-1] + _STEP]])) / sd
    above = sd * (x * ndtr(x) + np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi))  # E[(u' - knot)+]
    hats: Array = np.empty((len(U), len(U)))
    hats[half:] = (above[:, :-2] - 2 * above[:, 1:-1] + above[:, 2:]) / _STEP
    # the end points get the weight beyond them
    hats[half:, -1] += (above[:, -2] - above[:, -1]) / _STEP
    hats[half:, 0] += 1 - hats[half:].sum(1)
    hats[:half] = hats[:half:-1, ::-1]
    return hats


def _crossings(q: Array) -> tuple[RowIndices, Array]:
    """Returns where the value of the best purchase, (U, prices), rises above 0 at each price: the row above, or the
    last row if it never does, and u. Both ascend with the price."""
    pays = q > 0
    up = np.where(pays.any(0), pays.argmax(0), len(U) - 1)
    low = np.maximum(up - 1, 0)
    prices = np.arange(q.shape[1])
    below, above = (np.maximum(q[rows, prices], -1e3) for rows in (low, up))
    rises = above > below
    part = np.divide(-below, above - below, out=np.ones_like(below), where=rises)
    begins = U[low] + _STEP * np.where(rises, np.clip(part, 0, 1), 1.0)
    return up, np.maximum.accumulate(begins + 1e-9 * prices)
