"""What a candidate is still worth, and what to buy for it next: the dynamic programme of a priced ladder.

A candidate's state is the set O of rungs it has seen and u = mean / standard deviation of its terminal answer, hits
above 0. With λ the price of one terminal verification,

    V_O(u) = max{0, (1 - p_K) Φ(u) - λ,
                 max_{j not in O} (1 - p_j) E[V_{O+j}(u')] + p_j V_O^{without j}(u) - λ c_j / c_K}

where u' ~ N(r u, r² - 1), and r = sd_O / sd_{O+j} is how much rung j narrows the answer. Only these ratios matter, so
one programme serves all candidates that have seen the same rungs, whatever their mean and their spread. A rung may be
skipped; a worthless one (r = 1) is, by itself. The index of a candidate is the highest price at which V is above 0:
with one rung the probability of a hit, and for any ladder what Gittins and Weitzman proved for theirs.

Sources: Weitzman, Econometrica 47, 641 (1979); Scully and Terenin, arXiv 2506.10872 (2025).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sciagent.scheduling.arrays import Array, Places

Moves = Mapping[tuple[int, int], Array]

U = np.linspace(-6.0, 6.0, 241)  # beyond, a chance is as good as 0 or 1
# of one terminal verification, in hits; close together near 1, where candidates are nearly certain
PRICES = np.concatenate([np.logspace(-7, 0, 57)[:-1], [0.8, 0.85, 0.9, 0.93, 0.96, 0.98, 0.99, 0.999]])
TERMINAL = -1
STOP = -2
NEVER = 2.0  # terminal verifications: a rung that costs as much as one is not bought before it
FLOOR = 1e-6  # of the variance, that is always left
_STEP = U[1] - U[0]


@dataclass(frozen=True)
class Programme:
    """Solved for candidates that have seen the same rungs.

    begins: (prices,) the u above which a candidate is worth something at each of PRICES. first: (prices,) the rung to
    buy there, as a place among `missing`, or TERMINAL. bought: (prices, m + 1) expected purchases of a candidate that
    begins there, the terminal rung last. best: (U, prices) the place to buy at any u, STOP where nothing pays. value:
    (U, prices) V, in hits. costs: (m,) of the missing rungs, in terminal verifications.

    Candidates whose costs differ from these follow the same plan at their own: what they find stays, what they spend
    does not, as if they paid another price. The index is then, to first order, that of a plan of their own, and never
    more.
    """

    begins: Array
    first: NDArray[np.int64]
    bought: Array
    best: NDArray[np.int8]
    value: Array
    costs: Array
    policy: Policy
    _ahead: dict[int, Array] = field(default_factory=dict, repr=False)  # what `purchases` has worked out

    @cached_property
    def spend(self) -> Array:
        """(U, prices) expected cost to go, in terminal verifications."""
        return self.policy.ahead(slice(None), np.append(self.costs, 1.0)[:, None])[:, :, 0]

    def index(self, u: Array) -> Array:
        """(n,) highest price, in hits a terminal verification, at which a candidate at u is worth something."""
        index: Array = np.exp(np.interp(u, self.begins, np.log(PRICES)))
        return index

    def dearer(self, u: Array, own: Array) -> Array:
        """(n,) how many times more the plan costs, at the price of the index, those who pay `own`, (n, m)."""
        plan = np.array([np.interp(u, self.begins, times) for times in self.bought.T])
        times: Array = (plan[-1] + np.einsum("nj,jn->n", own, plan[:-1])) / (plan[-1] + self.costs @ plan[:-1])
        return times

    def at_index(self, u: Array) -> NDArray[np.int64]:
        """What to buy at u, (n,), at the price of its own index: a place among the missing rungs, or TERMINAL."""
        return self.first[np.clip(np.searchsorted(self.begins, u) - 1, 0, len(PRICES) - 1)]

    def action(self, u: Array, price: float | Array) -> NDArray[np.int64]:
        """What to buy at u, (n,), at `price`, (n,) or one: a place among the missing rungs, TERMINAL or STOP."""
        return self.best[nearest(u), _columns(price)].astype(np.int64)

    def worth(self, u: Array, price: float | Array) -> Array:
        """V at u, (n,), in hits."""
        return self.value[nearest(u), _columns(price)]

    def purchases(self, u: Array, price: float | Array) -> Array:
        """Expected purchases to go at u: (n, m + 1), the terminal rung last."""
        columns, places = np.unique(_columns(price), return_inverse=True)
        if new := [int(column) for column in columns if int(column) not in self._ahead]:
            self._ahead.update(
                zip(new, self.policy.ahead(np.array(new), np.eye(len(self.costs) + 1)).swapaxes(0, 1), strict=True)
            )
        return np.array([self._ahead[int(column)] for column in columns])[places, nearest(u)]

    def to_go(self, u: Array, weights: Array) -> Array:
        """(prices,) expected cost to go of candidates at u, (n,), together; weights: (n,) cost of a terminal
        verification of each."""
        return np.bincount(nearest(u), weights, len(U)) @ self.spend


def nearest(u: Array) -> NDArray[np.int64]:
    """Rows of U."""
    rows: NDArray[np.int64] = np.clip(np.rint((u - U[0]) / _STEP), 0, len(U) - 1).astype(np.int64)
    return rows


def _columns(price: float | Array) -> NDArray[np.int64]:
    """The next lower of PRICES, of each."""
    columns = np.searchsorted(PRICES, np.asarray(price) * (1 + 1e-9)) - 1
    return np.clip(columns, 0, len(PRICES) - 1).astype(np.int64)


def solve_price(to_go: Array, left: float) -> float:
    """The price at which the expected cost to go, (prices,), meets what is left; 0 where all can be afforded."""
    if to_go[0] <= left:
        return 0.0
    falling = np.minimum.accumulate(to_go)
    return float(np.exp(np.interp(-left, -falling, np.log(PRICES))))


def moves_of(left: Array) -> Moves:
    """How candidates move when a rung answers, by rungs seen and rung; those that tell nothing are left out.

    left: (2**m,) variance of the terminal answer once a set of the m missing rungs, a bit each, has answered.
    """
    sd = np.sqrt(np.maximum(left, FLOOR * left[0]))
    return {
        (seen, j): _move(sd[seen] / sd[seen | 1 << j])
        for seen in range(len(left))
        for j in range(len(left).bit_length() - 1)
        if not seen >> j & 1 and sd[seen | 1 << j] < sd[seen] * (1 - 1e-4)
    }


def solve_left(
    left: Array,
    costs: Sequence[float],
    failures: Sequence[float] | None = None,
    needed: int = 0,
    moves: Moves | None = None,
) -> Programme:
    """The programme of candidates with m rungs missing beside the terminal one.

    left: as for `moves_of`. costs: (m,) in terminal verifications. failures: (m + 1,) probability that a rung gives no
    answer; default none. A second failure of the same candidate would hardly change what to do and is left out. needed:
    the rungs, a bit each, without whose answer there is no hit; no rung above one of them is bought before it. moves:
    of `left`, where they are known already.
    """
    m = len(costs)
    fails = np.zeros(m + 1) if failures is None else np.asarray(failures, dtype=float)
    moves = moves_of(left) if moves is None else moves
    terminal = (1 - fails[-1]) * ndtr(U)[:, None] - PRICES
    weighed = [j for j in range(m) if costs[j] < NEVER or needed >> j & 1]
    values: dict[tuple[int, int], Array] = {}
    actions: dict[tuple[int, int], NDArray[np.int8]] = {}
    gain, other, better = np.empty_like(terminal), np.empty_like(terminal), np.empty(terminal.shape, dtype=bool)
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
        values[seen, gone], actions[seen, gone] = np.maximum(q, 0.0), best
    policy = Policy(m, fails, moves, actions)
    rows, begins = _crossings(q)
    first = best[rows, np.arange(len(PRICES))].astype(np.int64)
    if needed and (first == STOP).any():  # where nothing pays, what would be bought next
        first = np.where(first == STOP, (needed & -needed).bit_length() - 1, first)
    first = np.where(first == STOP, TERMINAL, first)
    bought = policy.from_rows(rows)
    return Programme(begins, first, bought, best, values[0, 0], np.array(costs, dtype=float), policy)


def _affordable(seen: int, gone: int, weighed: Sequence[int], needed: int, moves: Moves) -> list[int]:
    """The rungs that tell something or are needed, and leave no needed rung behind that could not be bought later."""
    return [
        j
        for j in weighed
        if not (seen | gone) >> j & 1
        and ((seen, j) in moves or needed >> j & 1)
        and not needed & ~seen & ((1 << j) - 1)
    ]


def _states(rungs: Sequence[int], fails: Array) -> list[tuple[int, int]]:
    """Sets of rungs seen and, of the others, none or one that failed; each after those that it leads to."""
    sets = [0]
    for j in rungs:
        sets += [seen | 1 << j for seen in sets]
    failing = [1 << j for j in rungs if fails[j]]
    return [
        (seen, gone)
        for seen in sorted(sets, key=int.bit_count, reverse=True)
        for gone in (*(failed for failed in failing if not seen & failed), 0)
    ]


@dataclass(frozen=True)
class Policy:
    """What is bought from each set of rungs seen, and where a candidate goes from there. m: rungs. fails: (m + 1,).
    actions: (U, prices) the purchase, STOP where none pays, by set of rungs seen and set of those that failed, which is
    empty or one."""

    m: int
    fails: Array
    moves: Moves
    actions: Mapping[tuple[int, int], NDArray[np.int8]]

    def ahead(self, columns: slice | NDArray[np.int64], counts: Array) -> Array:
        """(U, columns, d) expected sum of counts, (m + 1, d), over the purchases to go."""
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

    def from_rows(self, rows: Places) -> Array:
        """(prices, m + 1) the same of candidates that begin at one of U, rows: (prices,), at each of PRICES; the
        terminal rung where none buys anything."""
        purchases = np.zeros((len(PRICES), self.m + 1))
        begin = np.zeros((len(U), len(PRICES)))
        begin[rows, np.arange(len(PRICES))] = 1.0
        here = {(0, 0): begin}
        for seen, gone in self._order():
            if (seen, gone) not in here:
                continue
            mass, best = here.pop((seen, gone)), self.actions[seen, gone]
            purchases[:, -1] += (mass * (best == TERMINAL)).sum(0)
            for j, then, failed in self._next(seen, gone, best):
                going = mass * np.equal(best, j)
                if not (asked := going.sum(0)).any():
                    continue
                purchases[:, j] += asked
                if failed is not None:
                    here[failed] = here.get(failed, 0.0) + self.fails[j] * going
                    going = (1 - self.fails[j]) * going
                if (seen, j) in self.moves:
                    going = self.moves[seen, j].T @ going
                here[then] = here.get(then, 0.0) + going
        purchases[purchases.sum(1) == 0, -1] = 1.0
        return purchases

    def _order(self) -> list[tuple[int, int]]:
        """States, each before those that it leads to."""
        return sorted(self.actions, key=lambda at: (at[0].bit_count(), at[1]))

    def _next(
        self, seen: int, gone: int, best: NDArray[np.int8]
    ) -> Iterator[tuple[int, tuple[int, int], tuple[int, int] | None]]:
        """The rungs that are bought anywhere, with the state after an answer and, where it may fail, after none."""
        for j in range(self.m):
            if (best == j).any():
                yield j, (seen | 1 << j, gone), (seen, 1 << j) if self.fails[j] and not gone else None


def variances_left(covariance: Array, columns: Sequence[Sequence[int]]) -> Array:
    """(2**m,) variance of the last variable once sets of m rungs have answered; columns: of each rung."""
    total = float(covariance[-1, -1])
    left = np.full(1 << len(columns), total)
    for seen in range(1, len(left)):
        places = [c for j, mine in enumerate(columns) if seen >> j & 1 for c in mine]
        if places:
            inner, outer = covariance[np.ix_(places, places)], covariance[places, -1]
            left[seen] -= float(outer @ np.linalg.lstsq(inner, outer, rcond=None)[0])
    floored: Array = np.maximum(left, FLOOR * total)
    return floored


def _move(ratio: float) -> Array:
    """(U, U) weights that average a function on U, linear between its points and constant beyond their ends, over
    u' ~ N(ratio u, ratio² - 1)."""
    sd = float(np.sqrt(ratio**2 - 1))
    half = len(U) // 2  # the other half is its mirror image
    x = (ratio * U[half:, None] - np.concatenate([[U[0] - _STEP], U, [U[-1] + _STEP]])) / sd
    above = sd * (x * ndtr(x) + np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi))  # E[(u' - knot)+]
    hats: Array = np.empty((len(U), len(U)))
    hats[half:] = (above[:, :-2] - 2 * above[:, 1:-1] + above[:, 2:]) / _STEP
    # what the hats at the ends leave out lies beyond them
    hats[half:, -1] += (above[:, -2] - above[:, -1]) / _STEP
    hats[half:, 0] += 1 - hats[half:].sum(1)
    hats[:half] = hats[:half:-1, ::-1]
    return hats


def _crossings(q: Array) -> tuple[Places, Array]:
    """Where the value of the best purchase, (U, prices), rises above 0 at each price, ascending with the price: the row
    above, or the last one where it does nowhere, and u."""
    pays = q > 0
    up = np.where(pays.any(0), pays.argmax(0), len(U) - 1)
    low, prices = np.maximum(up - 1, 0), np.arange(q.shape[1])
    below, above = (np.maximum(q[rows, prices], -1e3) for rows in (low, up))
    rises = above > below
    part = np.divide(-below, above - below, out=np.ones_like(below), where=rises)
    begins = U[low] + _STEP * np.where(rises, np.clip(part, 0, 1), 1.0)
    return up, np.maximum.accumulate(begins + 1e-9 * prices)
