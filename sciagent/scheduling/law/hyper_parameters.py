"""The posterior of a process's hyper-parameters: its maximum, and points that stand for it where rows are few.

With few rows the data hardly say which hyper-parameters hold, and the most probable ones are too sure of a relation.
The points are the maximum of the posterior and two on each principal axis of its curvature there. With the weights of
the unscented transform they have mean and covariance of a Gaussian with this curvature; the ratio of both densities
corrects the weights. Sources: Rue, Martino, Chopin, J. R. Stat. Soc. B 71, 319 (2009); Julier, Uhlmann, Proc. IEEE 92,
401 (2004).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from sciagent.scheduling.arrays import Array
from sciagent.scheduling.law.kernel import CENTRES, WIDTH, Hyper, parts, squared_distance
from sciagent.scheduling.law.process import JITTER, Rows

MAX_FIT_ROWS = 250
STEP = 0.05  # of the differences of gradients, in logarithms
LEAST_CURVATURE = 0.5  # the posterior is at most as wide as twice the prior: 1 / WIDTH**2 is 2
LOWEST, HIGHEST = CENTRES - 4 * WIDTH, CENTRES + 4 * WIDTH
LONGEST_MOVE = 0.7  # from hyper-parameters that were fitted to fewer rows to the maximum, along an axis
CENTRE = 1.0  # the maximum has a weight of CENTRE / (CENTRE + 5) in a Gaussian
NEGLIGIBLE = 1e-3  # weight below which a point is left out


def log_posterior(rows: Rows) -> Callable[[Array], tuple[float, Array]]:
    """Returns a function of (5,) logarithms: minus the log density of the posterior but for a constant, and its
    gradient (5,)."""
    distance, product = squared_distance(rows.z, rows.z), rows.z @ rows.z.T
    n = len(rows.y)

    def loss(log_values: Array) -> tuple[float, Array]:
        hyper = Hyper(log_values)
        k, derivatives = parts(hyper, rows.z, distance, product, rows.similarity)
        k[np.diag_indices(n)] += hyper.noise + rows.extra + JITTER
        try:
            factor = cho_factor(k, lower=True)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros(5)
        inverse = cho_solve(factor, np.eye(n))
        weights = inverse @ rows.y
        inner = inverse - np.outer(weights, weights)
        gradient = np.empty(5)
        gradient[:4] = np.einsum("ij,pij->p", inner, derivatives) / 2
        gradient[4] = hyper.noise * np.trace(inner)
        away = (log_values - CENTRES) / WIDTH
        value = rows.y @ weights / 2 + np.log(np.diag(factor[0])).sum() + (away**2).sum() / 2
        return float(value), gradient + away / WIDTH

    return loss


def fit_hyper(rows: Rows, start: Hyper | None = None) -> Hyper:
    """Returns the hyper-parameters with the largest posterior density, by L-BFGS with analytic gradients."""
    begin = CENTRES if start is None else start.log_values
    bounds = list(zip(LOWEST, HIGHEST, strict=True))
    fit = minimize(log_posterior(rows), begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 40})
    return Hyper(np.asarray(fit.x))


def likely_hypers(rows: Rows, near: Hyper) -> tuple[list[Hyper], Array]:
    """Returns the points and their weights, which add up to 1. near: hyper-parameters near the maximum."""
    loss, start = log_posterior(rows), near.log_values
    size = len(start)
    steps = STEP * np.eye(size)
    curvature = np.array([(loss(start + step)[1] - loss(start - step)[1]) / (2 * STEP) for step in steps])
    values, axes = np.linalg.eigh((curvature + curvature.T) / 2)
    values = np.maximum(values, LEAST_CURVATURE)
    top = start - axes @ np.clip((axes.T @ loss(start)[1]) / values, -LONGEST_MOVE, LONGEST_MOVE)
    moves = (np.sqrt((size + CENTRE) / values) * axes).T
    points = np.clip([top, *(top + moves), *(top - moves)], LOWEST, HIGHEST)
    in_gaussian = np.array([0.0] + 2 * size * [-(size + CENTRE) / 2])
    shares = np.array([CENTRE] + 2 * size * [0.5])
    densities = -np.array([loss(point)[0] for point in points]) - in_gaussian
    weights = shares * np.exp(densities - densities.max())
    weights /= weights.sum()
    counted = weights > NEGLIGIBLE
    return [Hyper(point) for point in points[counted]], weights[counted] / weights[counted].sum()
