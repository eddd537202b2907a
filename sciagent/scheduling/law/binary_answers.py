"""Answers that are yes or no in the law: a yes means that a hidden value lies above the limit of a hit, a no below it.

The hidden value has the Gaussian process's distribution, and the chance of a yes is that of a value above the limit
(probit). Expectation propagation replaces each answer by a normal answer of the hidden value, with a mean and a
variance such that the process gets the moments that the answer implies. To the law these are answers like any others.

Sources: Minka, UAI 2001, 362; Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), sections 3.6 and
5.5.1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.special import log_ndtr

from sciagent.scheduling.array_types import Array, Mask
from sciagent.scheduling.law.gaussian_process import CENTRES, JITTER, Hyper, Rows, covariance, fit_hyper

MIN_ANSWERS = 4  # answers that must have at most two values, one on each side of the limit
SLACK = 1e-9  # for answers at the limit, which are hits
MAX_SWEEPS = 60  # sweeps of expectation propagation over all answers
TURNS = 3  # times that hidden answers and then hyper-parameters are found
# change of a sweep, in standard deviations of the hidden value, below which the answers have settled
SETTLED_CHANGE = 1e-3
DAMPING = 0.7  # fraction of each step, since all answers are replaced at once
MIN_PRECISION = 1e-6  # precision of an answer that tells nothing


def is_yes(answers: Array) -> Mask:
    """Returns (n,) whether answers, in the law's unit, lie at the limit of a hit or above it."""
    return answers >= -SLACK


def is_yes_or_no(answers: Array) -> bool:
    """Returns whether (n,) answers, in the law's unit, look like yes or no: all equal, or one value for each."""
    if len(answers) < MIN_ANSWERS:
        return False
    values = np.unique(answers)
    if len(values) == 2:
        below, above = is_yes(values).tolist()
        return bool(above and not below)
    return len(values) == 1


def choices_of(answers: Array) -> tuple[float, float]:
    """Returns the answers for no and yes. answers: (n,) of at most two values. If all are equal, the other value is
    taken as far on the other side of the limit."""
    low = float(answers.min())
    high = float(answers.max())
    if low < high:
        return low, high
    distance = 2 * abs(low) or 1.0  # between the answers; 1 if all lie at the limit
    return (low - distance, low) if is_yes(answers)[0] else (low, low + distance)


def fit_hyper_to_hidden(rows: Rows, expected: Array, start: Hyper | None = None) -> Hyper:
    """Returns likely hyper-parameters. rows, expected: as in `hidden_answers`.

    Hidden answers and hyper-parameters are found by turns. Where they no longer change, the gradient is the gradient of
    the evidence by expectation propagation.
    """
    hyper = start or Hyper(CENTRES)
    for _ in range(TURNS):
        hyper = fit_hyper(hidden_answers(hyper, rows, expected), hyper)
    return hyper


def hidden_answers(hyper: Hyper, rows: Rows, expected: Array) -> Rows:
    """Returns the rows with normal answers in place of yes and no.

    expected: (n,) hidden values expected before any answer. rows: `y` is the answer less `expected`, and the answer is
    at least 0 for a yes and below 0 for a no. In the returned rows, `y` is the normal answer less `expected`, and
    `extra` includes its variance.
    """
    prior = covariance(hyper, rows.z, rows.z, rows.similarity)
    prior[np.diag_indices(len(rows.y))] += hyper.noise + rows.extra + JITTER
    side = np.where(is_yes(rows.y + expected), 1, -1).astype(np.int8)
    precision = np.full(len(rows.y), MIN_PRECISION)  # of the normal answers
    shift = np.zeros(len(rows.y))  # precision times mean of the normal answers
    for _ in range(MAX_SWEEPS):
        root = np.sqrt(precision)
        lower = cholesky(np.eye(len(root)) + root[:, None] * prior * root, lower=True)
        half = solve_triangular(lower, root[:, None] * prior, lower=True)
        posterior = prior - half.T @ half
        mean = posterior @ shift
        variance = np.diag(posterior)
        # the distribution of each hidden value by the other answers
        others_precision = np.maximum(1 / variance - precision, MIN_PRECISION)
        others_mean = (mean / variance - shift) / others_precision
        others_spread = 1 / np.sqrt(others_precision)
        implied, spread = truncated_moments(others_mean, others_spread, -expected, side)
        precision_step = 1 / spread**2 - others_precision - precision
        shift_step = implied / spread**2 - others_mean * others_precision - shift
        precision = np.maximum(precision + DAMPING * precision_step, MIN_PRECISION)
        shift = shift + DAMPING * shift_step
        if (np.abs(implied - mean) < SETTLED_CHANGE * np.sqrt(variance)).all():
            break
    return Rows(rows.z, shift / precision, rows.extra + 1 / precision, rows.similarity)


FAR = -30.0  # standard deviations from the mean below which the variance comes from its asymptote


def truncated_moments(mean: Array, sd: Array, bound: Array, side: NDArray[np.int8]) -> tuple[Array, Array]:
    """Returns mean and standard deviation of normal distributions truncated at a bound, (n,) each. side: -1 if the
    value is below its bound, 1 if above.

    With b = (bound - mean) / sd and h = φ(b) / Φ(b), for the part below the bound:

        mean' = mean - sd h        variance' = sd² (1 - b h - h²)

    The part above follows by symmetry. Far below the mean the variance falls as sd² (1 - 6 / b²) / b².
    """
    sign = -side.astype(np.float64)  # mirrored if the value is above its bound, so that the part below is needed
    b = sign * (bound - mean) / sd
    hazard = np.exp(-0.5 * b**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(b))
    share = 1 - b * hazard - hazard**2
    near = np.minimum(b, FAR)
    share = np.where(b < FAR, (1 - 6 / near**2) / near**2, np.clip(share, 0.0, 1.0))
    return mean - sign * sd * hazard, sd * np.sqrt(share)
