"""What each open candidate promises: from laws to the programmes that say what to buy for it, and at which price."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sciagent.scheduling.aims import Aims
from sciagent.scheduling.board import Board
from sciagent.scheduling.law.chain import Chain
from sciagent.scheduling.law.transforms import TruthTransform
from sciagent.scheduling.payoff import Payoff, to_u, told
from sciagent.scheduling.value import FLOOR, Programme, solve_left, variances_left

Array = NDArray[np.float64]
Places = NDArray[np.intp]

SAMPLE = 256  # candidates whose covariance stands for those of their group
PROMISING = 48  # of them, those with the largest payoff, stand for how much rungs tell where several things decide
CLASSES = 16  # of relative costs, at most, in one group
MOST_RUNGS = 5  # that a programme weighs at once


@dataclass(frozen=True)
class Group:
    """Candidates for which one programme holds: the same rungs seen, the same ones to be had at about the same
    relative cost. places: in the candidates asked for. rungs: to be had, below the terminal one. u: (n,) as in
    `value`. expected: (n,) payoff of a terminal verification, which costs about `terminal`."""

    places: Places
    rungs: tuple[int, ...]
    u: Array
    expected: Array
    terminal: float
    programme: Programme


def groups(
    board: Board, of: Places, aims: Aims, truths: Sequence[TruthTransform], payoff: Payoff, chains: Sequence[Chain]
) -> Iterator[Group]:
    """of: (n,) candidates. chains: one for each aim."""
    last = board.costs.shape[1] - 1
    failures = board.failures()
    simple = len(truths) == 1 and truths[0].is_one_sided and aims.kind == "hits"
    for places, rungs in _situations(board, of):
        some = of[places]
        means, variances, shares = _forecasts(board, some, rungs, aims, truths, chains)
        if simple:
            u = means[0] / np.sqrt(variances[0])
            expected, left = truths[0].chance(means[0], np.sqrt(variances[0])), 1 - shares[0]
        else:
            expected = payoff.expected(means, variances)
            u, left = to_u(expected), _left(payoff, means, variances, expected, shares)
        needed = _needed(board, aims, rungs, last)
        costs = board.costs[some]
        for mine, relative, terminal in _cost_classes(costs[:, [*rungs, last]]):
            programme = solve_left(left, relative, failures[[*rungs, last]].tolist(), needed)
            yield Group(places[mine], rungs, u[mine], expected[mine], terminal, programme)


def _situations(board: Board, of: Places) -> Iterator[tuple[Places, tuple[int, ...]]]:
    """Places in `of` of candidates that have seen the same rungs and can buy the same ones, and the latter: a rung can
    be bought while it and all above it are open."""
    last = board.costs.shape[1] - 1
    bits = 1 << np.arange(last, dtype=np.int64)
    shut = np.logical_or.accumulate(board.closed[of][:, -2::-1], axis=1)[:, ::-1]
    seen = np.stack([board.answered(j)[of] for j in range(last)], axis=1) if last else np.zeros((len(of), 0), bool)
    codes = (shut @ bits) * (1 << last) + seen @ bits if last else np.zeros(len(of), dtype=np.int64)
    for code in np.unique(codes):
        rungs = [j for j in range(last) if not int(code) >> (last + j) & 1]
        yield np.flatnonzero(codes == code), tuple(rungs[-MOST_RUNGS:])


def _forecasts(
    board: Board, of: Places, rungs: Sequence[int], aims: Aims, truths: Sequence[TruthTransform],
    chains: Sequence[Chain],
) -> tuple[Array, Array, Array]:  # fmt: skip
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
                columns = [
                    [forecast.missing.index(c) for c, at in enumerate(aim.columns[:-1])
                     if board.rungs[at] == j and c in forecast.missing]
                    for j in rungs
                ]  # fmt: skip
                left = variances_left(np.median(some, axis=0), columns)
                shares[i] = 1 - left / left[0]
        decides = board.rungs[aim.columns[-1]]
        if decides in rungs:
            mine = np.arange(1 << len(rungs)) >> rungs.index(decides) & 1
            shares[i, mine == 1] = 1 - FLOOR
        said = board.scores[of, aim.columns[-1]]
        known = ~np.isnan(said)
        means[i, known], variances[i, known] = truth(said[known]), FLOOR
    return means, variances, shares


def _left(payoff: Payoff, means: Array, variances: Array, expected: Array, shares: Array) -> Array:
    """(2**m,) share of the variance left, by the candidates that promise most: there the decisions fall."""
    best = np.argsort(-expected, kind="stable")[:PROMISING]
    left: Array = np.ones(shares.shape[1])
    for seen in range(1, shares.shape[1]):
        second = payoff.second(means[:, best], variances[:, best], shares[:, seen])
        left[seen] = 1 - float(np.median(told(expected[best], second)))
    return np.maximum(left, FLOOR)


def _needed(board: Board, aims: Aims, rungs: Sequence[int], last: int) -> int:
    """The rungs, a bit each, that decide an objective which the terminal one does not measure."""
    decide = {board.rungs[aim.columns[-1]] for aim in aims.aims}
    return sum(1 << place for place, j in enumerate(rungs) if j in decide and j != last)


def _cost_classes(costs: Array) -> Iterator[tuple[Places, list[float], float]]:
    """Candidates in classes of about the same costs, (n, m + 1), the terminal rung last: places, what the rungs cost
    beside the terminal one, and what that costs."""
    logs = np.log2(np.maximum(costs, 1e-12 * costs[:, -1:]))
    logs[:, :-1] -= logs[:, -1:]
    spread, width = np.ptp(logs, axis=0), 1.0
    classes = np.zeros(len(costs), dtype=np.int64)
    while (spread >= width / 2).any():
        bins = np.rint((logs - logs.min(0)) / width).astype(np.int64)
        classes = np.ravel_multi_index(tuple(bins.T), tuple(bins.max(0) + 1))
        if len(np.unique(classes)) <= CLASSES:
            break
        width *= 2
    for one in np.unique(classes):
        mine = np.flatnonzero(classes == one)
        terminal = float(np.median(costs[mine, -1]))
        yield mine, [float(x) for x in np.median(costs[mine, :-1] / costs[mine, -1:], axis=0)], terminal
