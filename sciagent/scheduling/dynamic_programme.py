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

from sciagent.scheduling.array_types import Array, RowIndices

Moves = Mapping[tuple[int, int], Array]
"""By (set of rungs seen, one bit each; rung that answers next): the transition matrix, (U, U)."""

U = np.linspace(-6.0, 6.0, 241)  # values of u; beyond them, probabilities are as good as 0 or 1
# prices of one terminal verification, in hits; dense near 1, where candidates are nearly certain
PRICES = np.concatenate([np.logspace(-7, 0, 57)[:-1], [0.8, 0.85, 0.9, 0.93, 0.96, 0.98, 0.99, 0.999]])
TERMINAL = -1  # the purchase of the terminal rung, in place of a position among the missing rungs
STOP = -2  # no purchase
NEVER = 2.0  # cost, in terminal verifications, from which a rung is not bought before the terminal one
FLOOR = 1e-6  # smallest remaining fraction of the variance
MIN_NARROWING = 1e-4  # fraction by which a rung narrows the standard deviation at least; below it tells nothing
_STEP = U[1] - U[0]


@dataclass(frozen=True)
class Programme:
    """The solution for candidates with the same rungs seen, which lack the same m rungs below the terminal one.

    Candidates with other costs follow the same plan at their own costs, as if they paid another price: the hits found
    are the same, the spend differs. The index that they get is, to first order, the index of their own plan, and never
    higher.
    """

    begins: Array
    """(prices,) the u above which a candidate has a value, at each of PRICES."""
    first: NDArray[np.int64]
    """(prices,) the rung to buy at `begins`: a position among the missing rungs, or TERMINAL."""
    bought: Array
    """(prices, m + 1) expected purchases of a candidate that starts at `begins`, terminal rung last."""
    best: NDArray[np.int8]
    """(U, prices) the rung to buy at any u: a position among the missing rungs, TERMINAL, or STOP if nothing pays."""
    value: Array
    """(U, prices) V, in hits."""
    costs: Array
    """(m,) costs of the missing rungs, in terminal verifications."""
    policy: Policy
    """The purchases in the later states."""
    _purchases_by_price: dict[int, Array] = field(default_factory=dict, repr=False)
    """Cached results of `purchases`, (U, m + 1), by column of PRICES."""

    @cached_property
    def spend(self) -> Array:
        """(U, prices) expected cost to go, in terminal verifications."""
        cost_of_purchase = np.append(self.costs, 1.0)[:, None]
        return self.policy.expected_sums(slice(None), cost_of_purchase)[:, :, 0]

    def index(self, u: Array) -> Array:
        """Returns (n,) highest prices, in hits per terminal verification, at which a candidate at u has a value."""
        index: Array = np.exp(np.interp(u, self.begins, np.log(PRICES)))
        return index

    def cost_factors(self, u: Array, own: Array) -> Array:
        """Returns (n,) factors by which the plan costs more, at its index price, with a candidate's own costs. own:
        (n, m), in terminal verifications."""
        purchases = np.array([np.interp(u, self.begins, bought) for bought in self.bought.T])  # (m + 1, n)
        lower = purchases[:-1]
        terminal = purchases[-1]
        own_spend = terminal + np.einsum("nj,jn->n", own, lower)
        planned_spend = terminal + self.costs @ lower
        factors: Array = own_spend / planned_spend
        return factors

    def at_index(self, u: Array) -> NDArray[np.int64]:
        """Returns (n,) purchases at u, at its index price: positions among the missing rungs, or TERMINAL."""
        columns = np.searchsorted(self.begins, u) - 1  # of the highest price with a value at u
        return self.first[np.clip(columns, 0, len(PRICES) - 1)]

    def action(self, u: Array, price: float | Array) -> NDArray[np.int64]:
        """Returns (n,) purchases at u, at `price`: positions among the missing rungs, TERMINAL or STOP."""
        return self.best[nearest(u), _price_columns(price)].astype(np.int64)

    def worth(self, u: Array, price: float | Array) -> Array:
        """Returns (n,) values V at u, in hits."""
        return self.value[nearest(u), _price_columns(price)]

    def purchases(self, u: Array, price: float | Array) -> Array:
        """Returns (n, m + 1) expected future purchases at u, terminal rung last."""
        columns, places = np.unique(_price_columns(price), return_inverse=True)
        new_columns = [column for column in columns.tolist() if column not in self._purchases_by_price]
        if new_columns:
            one_per_rung = np.eye(len(self.costs) + 1)
            purchases = self.policy.expected_sums(np.array(new_columns), one_per_rung)  # (U, new columns, m + 1)
            for place, column in enumerate(new_columns):
                self._purchases_by_price[column] = purchases[:, place]
        by_column = np.array([self._purchases_by_price[column] for column in columns.tolist()])
        return by_column[places, nearest(u)]

    def to_go(self, u: Array, weights: Array) -> Array:
        """Returns (prices,) expected cost to go, summed over candidates at u, (n,). weights: (n,) each one's cost of a
        terminal verification."""
        return np.bincount(nearest(u), weights, len(U)) @ self.spend


def nearest(u: Array) -> NDArray[np.int64]:
    """Returns (n,) rows of U that are nearest to u, (n,)."""
    rows: NDArray[np.int64] = np.clip(np.rint((u - U[0]) / _STEP), 0, len(U) - 1).astype(np.int64)
    return rows


def _price_columns(price: float | Array) -> NDArray[np.int64]:
    """Returns the columns of the next lower PRICES."""
    columns = np.searchsorted(PRICES, np.asarray(price) * (1 + 1e-9)) - 1
    return np.clip(columns, 0, len(PRICES) - 1).astype(np.int64)


def solve_price(to_go: Array, left: float) -> float:
    """Returns the price at which the expected cost to go is the remaining budget; 0 if the budget is enough for all
    purchases. to_go: (prices,) at each of PRICES. left: the remaining budget."""
    if to_go[0] <= left:
        return 0.0
    falling = np.minimum.accumulate(to_go)
    log_price = np.interp(-left, -falling, np.log(PRICES))  # negated, since `interp` needs ascending values
    return float(np.exp(log_price))


def moves_of(left: Array) -> Moves:
    """Returns the transition matrix for each set of rungs seen and each next rung, except rungs that tell nothing.

    left: (2**m,) variance of the terminal answer after each set of the m missing rungs, one bit per rung.
    """
    sd = np.sqrt(np.maximum(left, FLOOR * left[0]))
    n_rungs = len(left).bit_length() - 1
    moves = {}
    for seen in range(len(left)):
        for j in range(n_rungs):
            if seen >> j & 1:
                continue
            sd_after = sd[seen | 1 << j]
            if sd_after < sd[seen] * (1 - MIN_NARROWING):
                moves[(seen, j)] = _move(sd[seen] / sd_after)
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
    needed: rungs, one bit each, without whose answer there is no hit; no higher rung is bought before them. moves: the
    moves of `left`, if they are known already.
    """
    m = len(costs)
    fails = np.zeros(m + 1) if failures is None else np.asarray(failures, dtype=float)
    moves = moves_of(left) if moves is None else moves
    terminal_gain = (1 - fails[-1]) * ndtr(U)[:, None] - PRICES
    weighed = [j for j in range(m) if costs[j] < NEVER or needed >> j & 1]  # the rungs that may be bought at all
    values: dict[tuple[int, int], Array] = {}
    actions: dict[tuple[int, int], NDArray[np.int8]] = {}
    # written over for each state and rung, so that no memory is allocated in the loop
    gain = np.empty_like(terminal_gain)
    gain_after_failure = np.empty_like(terminal_gain)
    is_better = np.empty(terminal_gain.shape, dtype=bool)
    # seen, gone: sets of rungs that have answered and that have failed; the last state is the first one, (0, 0)
    for seen, gone in _states(weighed, fails):
        has_all_needed = not needed & ~seen
        if has_all_needed:
            best_gain = terminal_gain.copy()
            best = np.full(terminal_gain.shape, TERMINAL, dtype=np.int8)
        else:
            best_gain = np.full(terminal_gain.shape, -np.inf)
            best = np.full(terminal_gain.shape, STOP, dtype=np.int8)
        for j in _buyable(seen, gone, weighed, needed, moves):
            value_after = values[seen | 1 << j, gone]
            if (seen, j) in moves:
                np.matmul(moves[seen, j], value_after, out=gain)
            else:
                np.copyto(gain, value_after)
            if fails[j] and not gone:
                gain *= 1 - fails[j]
                np.multiply(values[seen, 1 << j], fails[j], out=gain_after_failure)
                gain += gain_after_failure
            gain -= PRICES * costs[j]
            np.greater(gain, best_gain, out=is_better)
            np.copyto(best_gain, gain, where=is_better)
            np.copyto(best, j, where=is_better)
        np.copyto(best, STOP, where=best_gain <= 0)
        values[seen, gone] = np.maximum(best_gain, 0.0)
        actions[seen, gone] = best
    policy = Policy(m, fails, moves, actions)
    rows, begins = _crossings(best_gain)
    first = best[rows, np.arange(len(PRICES))].astype(np.int64)
    # if nothing pays, the rung that would be bought next: the lowest needed one, or the terminal one
    lowest_needed = (needed & -needed).bit_length() - 1  # position of the lowest bit
    first = np.where(first == STOP, lowest_needed if needed else TERMINAL, first)
    return Programme(
        begins=begins,
        first=first,
        bought=policy.expected_purchases_from(rows),
        best=best,
        value=values[0, 0],
        costs=np.array(costs, dtype=float),
        policy=policy,
    )


def _buyable(seen: int, gone: int, weighed: Sequence[int], needed: int, moves: Moves) -> list[int]:
    """Returns the rungs that can be bought in a state: the informative and the needed ones, up to the lowest needed
    rung without an answer, since a rung above would skip it. seen, gone: rungs that answered and that failed, one bit
    each."""
    buyable = []
    for j in weighed:
        is_tried = (seen | gone) >> j & 1
        is_useful = (seen, j) in moves or needed >> j & 1
        rungs_below = (1 << j) - 1
        skips_needed = needed & ~seen & rungs_below
        if not is_tried and is_useful and not skips_needed:
            buyable.append(j)
    return buyable


def _states(rungs: Sequence[int], fails: Array) -> list[tuple[int, int]]:
    """Returns sets of rungs seen, with none or one failed rung; each state after the states that it leads to."""
    sets = [0]
    for j in rungs:
        sets += [seen | 1 << j for seen in sets]
    failing = [1 << j for j in rungs if fails[j]]
    states = []
    for seen in sorted(sets, key=int.bit_count, reverse=True):
        states += [(seen, failed) for failed in failing if not seen & failed]
        states.append((seen, 0))
    return states


@dataclass(frozen=True)
class Policy:
    """The purchases from each state, and the transitions between states. A state is the set of rungs seen and the set
    of failed rungs, which has at most one."""

    m: int
    """Number of missing rungs below the terminal one."""
    fails: Array
    """(m + 1,) probability that a rung gives no answer, terminal rung last."""
    moves: Moves
    """The transitions between states, as `moves_of` returns them."""
    actions: Mapping[tuple[int, int], NDArray[np.int8]]
    """By state: (U, prices) the rung to buy, TERMINAL, or STOP if nothing pays."""

    def expected_sums(self, columns: slice | NDArray[np.int64], amounts: Array) -> Array:
        """Returns (U, columns, d) expected sums of d amounts over the future purchases.

        columns: columns of PRICES. amounts: (m + 1, d) the amounts that each purchase adds, terminal rung last.
        """
        sums_by_state: dict[tuple[int, int], Array] = {}
        for seen, gone in reversed(self._order()):
            best = self.actions[seen, gone][:, columns]
            sums = np.where((best == TERMINAL)[:, :, None], amounts[-1], 0.0)
            for j, answered, failed in self._next(seen, gone, best):
                later = sums_by_state[answered]
                if (seen, j) in self.moves:
                    later = (self.moves[seen, j] @ later.reshape(len(U), -1)).reshape(later.shape)
                if failed is not None:
                    later = (1 - self.fails[j]) * later + self.fails[j] * sums_by_state[failed]
                np.copyto(sums, later + amounts[j], where=np.equal(best, j)[:, :, None])
            sums_by_state[seen, gone] = sums
        return sums_by_state[0, 0]

    def expected_purchases_from(self, rows: RowIndices) -> Array:
        """Returns (prices, m + 1) expected purchases at each of PRICES; one terminal purchase if nothing pays. rows:
        (prices,) the row of U where the candidate starts."""
        purchases = np.zeros((len(PRICES), self.m + 1))
        begin = np.zeros((len(U), len(PRICES)))
        begin[rows, np.arange(len(PRICES))] = 1.0
        mass_by_state = {(0, 0): begin}  # (U, prices) probability of being in a state at a u
        for seen, gone in self._order():
            if (seen, gone) not in mass_by_state:
                continue
            mass = mass_by_state.pop((seen, gone))
            best = self.actions[seen, gone]
            purchases[:, -1] += (mass * (best == TERMINAL)).sum(0)
            for j, answered, failed in self._next(seen, gone, best):
                buying = mass * np.equal(best, j)
                bought = buying.sum(0)
                if not bought.any():
                    continue
                purchases[:, j] += bought
                if failed is not None:
                    mass_by_state[failed] = mass_by_state.get(failed, 0.0) + self.fails[j] * buying
                    buying = (1 - self.fails[j]) * buying
                if (seen, j) in self.moves:
                    buying = self.moves[seen, j].T @ buying
                mass_by_state[answered] = mass_by_state.get(answered, 0.0) + buying
        purchases[purchases.sum(1) == 0, -1] = 1.0
        return purchases

    def _order(self) -> list[tuple[int, int]]:
        """Returns the states, each before those that it leads to."""
        return sorted(self.actions, key=lambda state: (state[0].bit_count(), state[1]))

    def _next(
        self, seen: int, gone: int, best: NDArray[np.int8]
    ) -> Iterator[tuple[int, tuple[int, int], tuple[int, int] | None]]:
        """Yields each rung that is bought at some u, the state after its answer, and the state after its failure, which
        is None if the rung cannot fail or another one has failed."""
        for j in range(self.m):
            if (best == j).any():
                can_fail = self.fails[j] and not gone
                yield j, (seen | 1 << j, gone), ((seen, 1 << j) if can_fail else None)


def variances_left(covariance: Array, columns: Sequence[Sequence[int]]) -> Array:
    """Returns (2**m,) variance of the last variable after each set of m rungs.

    covariance: (v, v) of all variables. columns: for each rung, the positions of its variables.
    """
    total = float(covariance[-1, -1])
    left = np.full(1 << len(columns), total)
    for seen in range(1, len(left)):
        places = list[int]()
        for j, rung_columns in enumerate(columns):
            if seen >> j & 1:
                places.extend(rung_columns)
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
    knots = np.concatenate([[U[0] - _STEP], U, [U[-1] + _STEP]])
    x = (ratio * U[half:, None] - knots) / sd
    above = sd * (x * ndtr(x) + np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi))  # E[(u' - knot)+]
    hats: Array = np.empty((len(U), len(U)))
    hats[half:] = (above[:, :-2] - 2 * above[:, 1:-1] + above[:, 2:]) / _STEP
    # the end points get the weight beyond them
    hats[half:, -1] += (above[:, -2] - above[:, -1]) / _STEP
    hats[half:, 0] += 1 - hats[half:].sum(1)
    hats[:half] = hats[:half:-1, ::-1]
    return hats


def _crossings(q: Array) -> tuple[RowIndices, Array]:
    """Returns where the gain of the best purchase rises above 0 at each price: the row above, or the last row if it
    never rises, and the u in between. Both ascend with the price. q: (U, prices) gains."""
    pays = q > 0
    row_above = np.where(pays.any(0), pays.argmax(0), len(U) - 1)
    row_below = np.maximum(row_above - 1, 0)
    columns = np.arange(q.shape[1])
    gain_below = np.maximum(q[row_below, columns], -1e3)  # the gain is minus infinity where no purchase is possible
    gain_above = np.maximum(q[row_above, columns], -1e3)
    rises = gain_above > gain_below
    fraction = np.divide(-gain_below, gain_above - gain_below, out=np.ones_like(gain_below), where=rises)
    begins = U[row_below] + _STEP * np.where(rises, np.clip(fraction, 0, 1), 1.0)
    strictly_rising = 1e-9 * columns
    return row_above, np.maximum.accumulate(begins + strictly_rising)
