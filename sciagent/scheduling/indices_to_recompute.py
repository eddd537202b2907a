"""Selects the candidates whose indices an update evaluates.

Forecasts take most of the time of an update, so an update does not evaluate all candidates. Without a hyper-parameter
fit, it evaluates the candidates near the top and the new ones. After a fit, it evaluates all open candidates if there
are at most `MAX_ALL_EVALUATED`. If there are more, it evaluates a random sample. A regression on the sample (old index,
known scores, costs -> new index) predicts the index of the other candidates. The candidates with the best predictions
are then evaluated, too. The remaining candidates keep their prediction, and the sample represents them in the
calculation of the price.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sciagent.scheduling.array_types import Array, Mask, RowIndices
from sciagent.scheduling.candidate_pool import CandidatePool

N_NEAR_TOP = 3000  # candidates near the top that are evaluated between fits
MAX_ALL_EVALUATED = 30_000  # largest number of open candidates that are all evaluated after a fit
SAMPLED_FRACTION = 0.1  # fraction of the candidates in the random sample
N_BEST_PREDICTED = 12_000  # candidates outside the sample that are evaluated for their predictions
MIN_PER_COEFFICIENT = 10  # sampled candidates per coefficient of a regression; with fewer there is no prediction
MAX_FITTED = 10_000  # largest number of sampled candidates per regression
REGRESSION_BLOCK = 1 << 14  # candidates computed at a time
LEAST_SPREAD = 1e-9  # least standard deviation of an input, so that none is divided by 0
LEAST_COST = 1e-300  # least cost whose logarithm is taken
MAX_DEVIATIONS = 6  # standard deviations to which an input of a regression is limited
MAX_EXPONENT = 700.0  # so that a predicted index does not overflow


@dataclass(frozen=True)
class Evaluated:
    """The candidates that are evaluated in one update."""

    rows: RowIndices
    """(n,) rows of the pool."""
    covers_all: bool
    """Whether the spend of all open candidates follows from this update alone."""
    n_represented: Array | None = None
    """(n,) number of unevaluated candidates that each one represents; None if all were evaluated."""


def candidates_near_top(open_rows: RowIndices, index: Array) -> Evaluated:
    """Selects the new candidates and the candidates near the top, since the order changes slowly. open_rows: (n,) all
    open candidates. index: (n,) index of each when last evaluated, NaN if never."""
    is_new = np.isnan(index)
    n_selected = N_NEAR_TOP + int(is_new.sum())
    if len(open_rows) <= n_selected:
        return Evaluated(open_rows, covers_all=True)
    rank_key = np.where(is_new, -np.inf, -index)
    selected = np.argpartition(rank_key, n_selected)[:n_selected]
    return Evaluated(np.sort(open_rows[selected]), covers_all=False)


def is_near_top(index: Array) -> Mask:
    """Returns (n,) whether a candidate has one of the `N_NEAR_TOP` largest indices."""
    is_near = np.ones(len(index), dtype=bool)
    if len(index) > N_NEAR_TOP:
        largest_first = np.argpartition(-index, N_NEAR_TOP)
        is_near[largest_first[N_NEAR_TOP:]] = False
    return is_near


def draw_sample(index: Array, rng: np.random.Generator) -> Mask:
    """Returns (n,) whether a candidate is evaluated after a fit without a prediction: all candidates, or, if there are
    very many, the new ones and a sample of the others. index: as in `candidates_near_top`."""
    is_new = np.isnan(index)
    n_known = len(index) - is_new.sum()
    if len(index) <= MAX_ALL_EVALUATED or n_known <= N_BEST_PREDICTED:
        return np.ones(len(index), dtype=bool)
    return is_new | (rng.random(len(index)) < SAMPLED_FRACTION)


def predict_indices(
    pool: CandidatePool, rows: RowIndices, old_index: Array, is_sampled: Mask, sample_index: Array
) -> Array:
    """Returns (n,) predicted indices, infinite if there is no prediction, 0 if the old index was 0.

    old_index: as `index` in `candidates_near_top`. is_sampled: (n,) whether a candidate was evaluated. sample_index:
    (m,) new indices of the m evaluated candidates.
    """
    predicted = np.where(old_index == 0, 0.0, np.inf)
    new_index = np.full(len(rows), np.nan)
    new_index[is_sampled] = sample_index
    for alike in _alike_candidates(pool, rows):
        members = alike[old_index[alike] > 0]
        fitted = members[is_sampled[members] & (new_index[members] > 0)]
        fitted = fitted[:: max(1, len(fitted) // MAX_FITTED)]
        columns: Mask = np.all(~np.isnan(pool.scores[rows[fitted]]), axis=0)
        open_rungs: Mask = np.all(~pool.closed[rows[fitted]], axis=0)
        n_coefficients = 3 + 2 * (columns.sum() + open_rungs.sum())
        if len(fitted) < MIN_PER_COEFFICIENT * n_coefficients:
            continue
        inputs = _regression_inputs(pool, rows[fitted], old_index[fitted], columns, open_rungs)
        centre = inputs.mean(0)
        spread = np.maximum(inputs.std(0), LEAST_SPREAD)
        terms = _quadratic_terms((inputs - centre) / spread)
        coefficients = np.linalg.lstsq(terms, np.log(new_index[fitted]), rcond=None)[0]
        for start in range(0, len(members), REGRESSION_BLOCK):
            block = members[start : start + REGRESSION_BLOCK]
            inputs = _regression_inputs(pool, rows[block], old_index[block], columns, open_rungs)
            log_index = _quadratic_terms((inputs - centre) / spread) @ coefficients
            predicted[block] = np.exp(np.minimum(log_index, MAX_EXPONENT))
    return predicted


def select_best_predicted(predicted: Array, is_sampled: Mask) -> tuple[Mask, Array]:
    """Returns (n,) which candidates outside the sample to evaluate, too, and (n,) how many of the candidates that are
    not evaluated each sampled candidate with a similarly low prediction represents."""
    unsampled = np.flatnonzero(~is_sampled)
    best_first = unsampled[np.argsort(-predicted[unsampled], kind="stable")]
    n_without_prediction = int(np.isinf(predicted[unsampled]).sum())
    n_selected = max(N_BEST_PREDICTED, n_without_prediction)
    selected = np.zeros(len(predicted), dtype=bool)
    selected[best_first[:n_selected]] = True
    n_represented = np.zeros(len(predicted))
    unevaluated = best_first[n_selected:]
    if len(unevaluated):
        is_as_low = is_sampled & (predicted <= predicted[unevaluated[0]])
        n_represented[is_as_low] = len(unevaluated) / max(1, int(is_as_low.sum()))
    return selected, n_represented


def _alike_candidates(pool: CandidatePool, rows: RowIndices) -> Iterator[RowIndices]:
    """Groups candidates by their known scores and open rungs. Yields, for each group, positions in `rows`."""
    unknown_or_closed = np.concatenate([np.isnan(pool.scores[rows]), pool.closed[rows]], axis=1)
    _, inverse = np.unique(np.packbits(unknown_or_closed, axis=1), axis=0, return_inverse=True)
    group_of_each = inverse.ravel()
    for group in np.unique(group_of_each):
        yield np.flatnonzero(group_of_each == group)


def _regression_inputs(pool: CandidatePool, rows: RowIndices, old_index: Array, columns: Mask, rungs: Mask) -> Array:
    """Returns (n, d) inputs of the regression: logarithm of the old index, known scores, logarithms of the costs."""
    log_costs = np.log(np.maximum(pool.costs[rows][:, rungs], LEAST_COST))
    return np.column_stack([np.log(old_index), pool.scores[rows][:, columns], log_costs])


def _quadratic_terms(x: Array) -> Array:
    """Returns (n, 1 + 2 d) terms 1, x and x² of standardised inputs, (n, d), limited to `MAX_DEVIATIONS`."""
    clipped = np.clip(x, -MAX_DEVIATIONS, MAX_DEVIATIONS)
    return np.column_stack([np.ones(len(x)), clipped, clipped * clipped])
