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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Array = NDArray[np.float64]

U = np.linspace(-8.0, 8.0, 321)
# of one terminal verification, in hits; close together near 1, where candidates are nearly certain
PRICES = np.concatenate([np.logspace(-7, 0, 57)[:-1], [0.8, 0.85, 0.9, 0.93, 0.96, 0.98, 0.99, 0.999]])
TERMINAL = -1
STOP = -2
FLOOR = 1e-6  # of the variance, that is always left
_STEP = U[1] - U[0]


@dataclass(frozen=True)
class Programme:
    """Solved for candidates that have seen the same rungs.

    begins: (prices,) the u above which a candidate is worth something at each of PRICES. first: (prices,) the rung to
    buy there, as a place among `missing`, or TERMINAL. best: (U, prices) the place to buy at any u, STOP where nothing
    pays. value, spend: (U, prices) V, in hits, and the expected cost to go, in terminal verifications.
    """

    begins: Array
    first: NDArray[np.int64]
    best: NDArray[np.int64]
    value: Array
    spend: Array
    policy: _Policy

    def index(self, u: Array) -> Array:
        """(n,) highest price, in hits a terminal verification, at which a candidate at u is worth something."""
        found: Array = np.exp(np.interp(u, self.begins, np.log(PRICES)))
        return found

    def at_index(self, u: Array) -> NDArray[np.int64]:
        """What to buy at u, (n,), at the price of its own index: a place among the missing rungs, or TERMINAL."""
        found: NDArray[np.int64] = self.first[np.clip(np.searchsorted(self.begins, u) - 1, 0, len(PRICES) - 1)]
        return found

    def action(self, u: Array, price: float) -> NDArray[np.int64]:
        """What to buy at u, (n,), at `price`: a place among the missing rungs, TERMINAL or STOP."""
        found: NDArray[np.int64] = self.best[nearest(u), _column(price)]
        return found

    def worth(self, u: Array, price: float) -> Array:
        """V at u, (n,), in hits."""
        found: Array = self.value[nearest(u), _column(price)]
        return found

    def purchases(self, u: Array, price: float) -> Array:
        """Expected purchases to go at u: (n, m + 1), the terminal rung last."""
        found: Array = self.policy.bought(_column(price))[nearest(u)]
        return found

    def to_go(self, u: Array, weights: Array) -> Array:
        """(prices,) expected cost to go of candidates at u, (n,), together; weights: (n,) cost of a terminal
        verification of each."""
        total: Array = np.bincount(nearest(u), weights, len(U)) @ self.spend
        return total


def nearest(u: Array) -> NDArray[np.int64]:
    """Rows of U."""
    rows: NDArray[np.int64] = np.clip(np.rint((u - U[0]) / _STEP), 0, len(U) - 1).astype(np.int64)
    return rows


def _column(price: float) -> int:
    """The next lower of PRICES."""
    return int(np.clip(np.searchsorted(PRICES, price * (1 + 1e-9)) - 1, 0, len(PRICES) - 1))


def solve_price(to_go: Array, left: float) -> float:
    """The price at which the expected cost to go, (prices,), meets what is left; 0 where all can be afforded."""
    if to_go[0] <= left:
        return 0.0
    falling = np.minimum.accumulate(to_go)
    return float(np.exp(np.interp(-left, -falling, np.log(PRICES))))


def solve(covariance: Array, costs: Sequence[float], failures: Sequence[float] | None = None) -> Programme:
    """The programme of candidates with m rungs missing beside the terminal one.

    covariance: (m + 1, m + 1) of what the missing rungs and, last, the terminal one will say, given what is seen.
    costs, failures: as for `solve_left`.
    """
    return solve_left(variances_left(covariance, [[j] for j in range(len(costs))]), costs, failures)


def solve_left(
    left: Array, costs: Sequence[float], failures: Sequence[float] | None = None, needed: int = 0
) -> Programme:
    """The same from what each set of rungs leaves open.

    left: (2**m,) variance of the terminal answer once a set of the m missing rungs, a bit each, has answered.
    costs: (m,) in terminal verifications. failures: (m + 1,) probability that a rung gives no answer; default none. A
    second failure of the same candidate would hardly change what to do and is left out. needed: the rungs, a bit each,
    without whose answer there is no hit.
    """
    m = len(costs)
    fails = np.zeros(m + 1) if failures is None else np.asarray(failures, dtype=float)
    sd = np.sqrt(np.maximum(left, FLOOR * left[0]))
    moves = {
        (seen, j): _move(sd[seen] / sd[seen | 1 << j])
        for seen in range(1 << m) for j in range(m)
        if not seen >> j & 1 and sd[seen | 1 << j] < sd[seen] * (1 - 1e-4)
    }  # fmt: skip
    shape = (len(U), len(PRICES))
    terminal = (1 - fails[-1]) * ndtr(U)[:, None] - PRICES
    solved: dict[tuple[int, int], _Solved] = {}

    def state(seen: int, gone: int) -> _Solved:
        if (seen, gone) in solved:
            return solved[seen, gone]
        if needed & ~seen:
            q, spend, best = np.full(shape, -np.inf), np.zeros(shape), np.full(shape, STOP)
        else:
            q, spend, best = terminal.copy(), np.ones(shape), np.full(shape, TERMINAL)
        for j in range(m):
            if (seen | gone) >> j & 1 or ((seen, j) not in moves and not needed >> j & 1):
                continue
            then = state(seen | 1 << j, gone)
            gain, to_go = then.value, then.spend
            if (seen, j) in moves:
                both = moves[seen, j] @ np.hstack([gain, to_go])
                gain, to_go = both[:, : shape[1]], both[:, shape[1] :]
            if fails[j] and not gone:
                other = state(seen, 1 << j)
                gain = (1 - fails[j]) * gain + fails[j] * other.value
                to_go = (1 - fails[j]) * to_go + fails[j] * other.spend
            gain = gain - PRICES * costs[j]
            better = gain > q
            q, spend = np.where(better, gain, q), np.where(better, costs[j] + to_go, spend)
            best[better] = j
        pays = q > 0
        solved[seen, gone] = _Solved(q, np.where(pays, q, 0.0), np.where(pays, spend, 0.0), np.where(pays, best, STOP))
        return solved[seen, gone]

    found = state(0, 0)
    begins, first = _crossings(found.q, found.best)
    return Programme(begins, first, found.best, found.value, found.spend, _Policy(m, fails, moves, solved))


@dataclass(frozen=True)
class _Solved:
    """Of one set of rungs seen: value of the best purchase (it may be below 0), value, spend, the purchase; each
    (U, prices)."""

    q: Array
    value: Array
    spend: Array
    best: NDArray[np.int64]


@dataclass(frozen=True)
class _Policy:
    """What is bought from each set of rungs seen, and where a candidate goes from there."""

    m: int
    fails: Array
    moves: Mapping[tuple[int, int], Array]
    solved: Mapping[tuple[int, int], _Solved]

    def bought(self, column: int) -> Array:
        """(U, m + 1) expected purchases to go of each rung, the terminal one last, at one of PRICES."""
        return self._from(0, 0, column, {})

    def _from(self, seen: int, gone: int, column: int, known: dict[tuple[int, int], Array]) -> Array:
        if (seen, gone) in known:
            return known[seen, gone]
        best = self.solved[seen, gone].best[:, column]
        found = np.zeros((len(U), self.m + 1))
        found[best == TERMINAL, -1] = 1.0
        for j in set(best.tolist()) - {TERMINAL, STOP}:
            later = self._from(seen | 1 << j, gone, column, known)
            if (seen, j) in self.moves:
                later = self.moves[seen, j] @ later
            if self.fails[j] and not gone:
                failed = self._from(seen, 1 << j, column, known)
                later = (1 - self.fails[j]) * later + self.fails[j] * failed
            found[best == j] = later[best == j]
            found[best == j, j] += 1.0
        known[seen, gone] = found
        return found


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
    x = (ratio * U[:, None] - np.concatenate([[U[0] - _STEP], U, [U[-1] + _STEP]])) / sd
    above = sd * (x * ndtr(x) + np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi))  # E[(u' - knot)+]
    hats: Array = (above[:, :-2] - 2 * above[:, 1:-1] + above[:, 2:]) / _STEP
    # what the hats at the ends leave out lies beyond them
    hats[:, -1] += (above[:, -2] - above[:, -1]) / _STEP
    hats[:, 0] += 1 - hats.sum(1)
    return hats


def _crossings(q: Array, best: NDArray[np.int64]) -> tuple[Array, NDArray[np.int64]]:
    """Where the value of the best purchase rises above 0 at each price, ascending with the price."""
    begins, first = np.empty(len(PRICES)), np.empty(len(PRICES), dtype=np.int64)
    for place in range(len(PRICES)):
        up = int(np.argmax(q[:, place] > 0)) if (q[:, place] > 0).any() else len(U) - 1
        low = max(up - 1, 0)
        rise = q[up, place] - q[low, place]
        begins[place] = U[low] + (_STEP * np.clip(-q[low, place] / rise, 0, 1) if rise > 0 else _STEP)
        first[place] = best[up, place] if best[up, place] != STOP else TERMINAL
    return np.maximum.accumulate(begins + 1e-9 * np.arange(len(begins))), first
