"""Selects the candidates that are evaluated at a look, since forecasts take most of its time.

Between searches for hyper-parameters the candidates near the top are evaluated, and the new ones. After a search all
are, up to `ALL` open candidates. Of more, a random sample is evaluated. A regression on the sample (old index, known
scores, costs -> new index) predicts the rest. The best-predicted are evaluated as well, and the others keep their
prediction. The sample stands for them when the price is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sciagent.scheduling.arrays import Array, Mask, Places
from sciagent.scheduling.candidate_pool import CandidatePool

AHEAD = 3000  # candidates near the top that are looked at again between fits
ALL = 30_000  # open candidates that are all looked at after a fit
DRAWN = 0.1  # of more than that, the share that is drawn,
UPPER = 12_000  # and of the others so many that promise most, as they are guessed
EACH = 10  # drawn candidates of a kind for each number that is fitted to them; without them nothing is guessed
FITTED = 10_000  # of a kind, at most
BLOCK = 1 << 14  # candidates at a time


@dataclass(frozen=True)
class Evaluated:
    """The candidates that are evaluated at a look."""

    of: Places
    """(n,) rows of the pool."""
    anew: bool
    """Whether the spend of all open candidates is reckoned from this look alone."""
    others: Array | None = None
    """(n,) for how many more, that were not evaluated, each stands; None where all were."""


def ahead(of: Places, index: Array) -> Evaluated:
    """The candidates near the top, since the order changes slowly, and the new ones. of: all that are open. index: (n,)
    of each when it was last evaluated, NaN where it never was."""
    new = np.isnan(index)
    certain = AHEAD + int(new.sum())
    if len(of) <= certain:
        return Evaluated(of, True)
    chosen = np.argpartition(np.where(new, -np.inf, -index), certain)[:certain]
    return Evaluated(np.sort(of[chosen]), False)


def first(index: Array) -> Mask:
    """(n,) which candidates are among the `AHEAD` with the largest index."""
    near = np.ones(len(index), dtype=bool)
    if len(index) > AHEAD:
        near[np.argpartition(-index, AHEAD)[AHEAD:]] = False
    return near


def drawn(index: Array, rng: np.random.Generator) -> Mask:
    """(n,) which candidates are evaluated after a search before any is predicted: all, or of very many the new ones and
    a sample of the others. index: as for `ahead`."""
    new = np.isnan(index)
    if len(index) <= ALL or len(index) - new.sum() <= UPPER:
        return np.ones(len(index), dtype=bool)
    return new | (rng.random(len(index)) < DRAWN)


def guessed(pool: CandidatePool, of: Places, before: Array, seen: Mask, now: Array) -> Array:
    """(n,) index of all, infinite where it cannot be predicted, 0 where it was 0. before: as `index` for `ahead`. seen,
    now: (n,) which candidates were evaluated, and (m,) their indices."""
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
        for start in range(0, len(kind), BLOCK):
            mine = kind[start : start + BLOCK]
            x = _inputs(pool, of[mine], before[mine], columns, open_)
            guess[mine] = np.exp(np.minimum(_curved((x - centre) / spread) @ weights, 700.0))
    return guess


def promising(guess: Array, seen: Mask) -> tuple[Mask, Array]:
    """(n,) which others are evaluated; and (n,) for how many of the rest each candidate of the sample stands that is
    predicted no better than they are."""
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
    """Places in `of` of candidates with the same known scores and the same rungs to buy."""
    known = np.concatenate([np.isnan(pool.scores[of]), pool.closed[of]], axis=1)
    codes = np.unique(np.packbits(known, axis=1), axis=0, return_inverse=True)[1].ravel()
    for code in range(int(codes.max()) + 1 if len(codes) else 0):
        yield np.flatnonzero(codes == code)


def _inputs(pool: CandidatePool, of: Places, before: Array, columns: Mask, rungs: Mask) -> Array:
    """(n, d) inputs of the regression."""
    costs = np.log(np.maximum(pool.costs[of][:, rungs], 1e-300))
    return np.column_stack([np.log(before), pool.scores[of][:, columns], costs])


def _curved(x: Array) -> Array:
    x = np.clip(x, -6, 6)
    return np.column_stack([np.ones(len(x)), x, x * x])
