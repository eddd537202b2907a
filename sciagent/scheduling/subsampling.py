"""Whom the law looks at: forecasts are what a round takes, and most candidates are far from being bought.

Between searches for hyper-parameters those near the top are looked at, and those that are new. After a search all are,
as long as they are not tens of thousands. Where they are, some are drawn, each time others. What they turn out to be
worth now, by what they were worth before, what is known of them and what they cost, says roughly what the rest are
worth: of those the best are looked at, too, and the others have to be content with that guess until they are. The drawn
ones stand for them when the price is made.
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
    """of: (n,) candidates. anew: what all open ones would spend is reckoned from this look alone. others: (n,) for how
    many more that were not looked at each stands, where not all were."""

    of: Places
    anew: bool
    others: Array | None = None


def ahead(of: Places, index: Array) -> Evaluated:
    """Those near the top, for the order changes slowly, and those who were never seen. of: all that are open. index:
    (n,) of each as it was last seen, NaN where it never was."""
    new = np.isnan(index)
    certain = AHEAD + int(new.sum())
    if len(of) <= certain:
        return Evaluated(of, True)
    chosen = np.argpartition(np.where(new, -np.inf, -index), certain)[:certain]
    return Evaluated(np.sort(of[chosen]), False)


def first(index: Array) -> Mask:
    """(n,) who is among the `AHEAD` with the largest."""
    near = np.ones(len(index), dtype=bool)
    if len(index) > AHEAD:
        near[np.argpartition(-index, AHEAD)[AHEAD:]] = False
    return near


def drawn(index: Array, rng: np.random.Generator) -> Mask:
    """(n,) who is looked at after a fit before anything is guessed: all, or of very many those who were never seen and
    a part of the others. index: as for `ahead`."""
    new = np.isnan(index)
    if len(index) <= ALL or len(index) - new.sum() <= UPPER:
        return np.ones(len(index), dtype=bool)
    return new | (rng.random(len(index)) < DRAWN)


def guessed(pool: CandidatePool, of: Places, before: Array, seen: Mask, now: Array) -> Array:
    """(n,) index of all, infinite where it cannot be guessed, 0 where it was. before: as for `ahead`. seen, now: (n,)
    who was looked at, and (m,) what those are worth."""
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
        x = _told(pool, of[some], before[some], columns, open_)
        centre, spread = x.mean(0), np.maximum(x.std(0), 1e-9)
        weights = np.linalg.lstsq(_curved((x - centre) / spread), np.log(known[some]), rcond=None)[0]
        for start in range(0, len(kind), BLOCK):
            mine = kind[start : start + BLOCK]
            x = _told(pool, of[mine], before[mine], columns, open_)
            guess[mine] = np.exp(np.minimum(_curved((x - centre) / spread) @ weights, 700.0))
    return guess


def promising(guess: Array, seen: Mask) -> tuple[Mask, Array]:
    """(n,) who else is looked at; and (n,) for how many of those who are not each of the drawn ones stands that look
    no better than they."""
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
    """Places in `of` of those who have seen the same and can buy the same."""
    known = np.concatenate([np.isnan(pool.scores[of]), pool.closed[of]], axis=1)
    codes = np.unique(np.packbits(known, axis=1), axis=0, return_inverse=True)[1].ravel()
    for code in range(int(codes.max()) + 1 if len(codes) else 0):
        yield np.flatnonzero(codes == code)


def _told(pool: CandidatePool, of: Places, before: Array, columns: Mask, rungs: Mask) -> Array:
    """(n, d) what a guess goes by."""
    costs = np.log(np.maximum(pool.costs[of][:, rungs], 1e-300))
    return np.column_stack([np.log(before), pool.scores[of][:, columns], costs])


def _curved(x: Array) -> Array:
    x = np.clip(x, -6, 6)
    return np.column_stack([np.ones(len(x)), x, x * x])
