"""Selects the candidates to evaluate in each update, since forecasts take most of its time.

Without a hyper-parameter fit, the candidates near the top and the new ones are evaluated. After a fit, all open
candidates are evaluated if there are at most `ALL`. Otherwise a random sample is. A regression on the sample (old
index, known scores, costs -> new index) predicts the others. The best predicted are evaluated too; the others keep
their prediction. The sample represents them in the calculation of the price.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sciagent.scheduling.arrays import Array, Mask, Places
from sciagent.scheduling.candidate_pool import CandidatePool

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

    of: Places
    """(n,) rows of the pool."""
    anew: bool
    """Whether the spend of all open candidates is computed from this update alone."""
    others: Array | None = None
    """(n,) number of unevaluated candidates that each one represents; None if all were evaluated."""


def ahead(of: Places, index: Array) -> Evaluated:
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


def guessed(pool: CandidatePool, of: Places, before: Array, seen: Mask, now: Array) -> Array:
    """Returns (n,) predicted indices, infinite if there is no prediction, 0 if the index was 0. before: as `index` in
    `ahead`. seen, now: (n,) whether a candidate was evaluated, and (m,) the indices of those."""
    guess, known = np.where(before == 0, 0.0, np.inf), np.full(len(of), np.nan)
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
        centre, spread = x.mean(0), np.maximum(x.std(0), 1e-9)
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
    chosen, others = np.zeros(len(guess), dtype=bool), np.zeros(len(guess))
    chosen[order[:certain]] = True
    below = order[certain:]
    if len(below):
        alike = seen & (guess <= guess[below[0]])
        others[alike] = len(below) / max(1, int(alike.sum()))
    return chosen, others


def _kinds(pool: CandidatePool, of: Places) -> Iterator[Places]:
    """Groups candidates by their known scores and open rungs. Yields, for each group, the indices into `of`."""
    known = np.concatenate([np.isnan(pool.scores[of]), pool.closed[of]], axis=1)
    codes = np.unique(np.packbits(known, axis=1), axis=0, return_inverse=True)[1].ravel()
    for code in range(int(codes.max()) + 1 if len(codes) else 0):
        yield np.flatnonzero(codes == code)


def _inputs(pool: CandidatePool, of: Places, before: Array, columns: Mask, rungs: Mask) -> Array:
    """Returns (n, d) inputs of the regression."""
    costs = np.log(np.maximum(pool.costs[of][:, rungs], 1e-300))
    return np.column_stack([np.log(before), pool.scores[of][:, columns], costs])


def _curved(x: Array) -> Array:
    x = np.clip(x, -6, 6)
    return np.column_stack([np.ones(len(x)), x, x * x])
