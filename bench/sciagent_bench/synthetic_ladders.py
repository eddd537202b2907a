"""Synthetic families of ladders, each with one difficulty for schedulers.

Scores are close to standard normal, and hits lie above a threshold. Candidates arrive in the order of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sciagent.errors import UnknownNameError
from sciagent.scheduling.array_types import Array
from sciagent_bench.replay_once import Truth

Draw = Callable[[int], Array]
"""Returns (n,) draws of mean 0 and variance 1."""
Maker = Callable[[np.random.Generator, int], Array]
"""Returns the scores of n candidates, (n, 4), terminal rung last."""

STEEP = (1.0, 10.0, 100.0, 1000.0)  # costs of the rungs
FLAT = (1.0, 3.0, 10.0, 30.0)  # costs of the rungs of the family `flat`
LOADS = (0.5, 0.7, 0.9)  # correlations of the lower rungs with the terminal one
FOOLED = 0.03  # in false-positives: fraction of the ordinary candidates that are false positives
RISE = 1.3  # in drift: rise of the mean, in standard deviations
SLOPE = 0.3  # in heteroscedastic: change of the log of the noise per unit of the truth
FAILS = 0.05  # in failures: rate at which every rung fails
FAILS_AT = 2  # in failures: the rung that fails more often on the best tenth
FAILS_HIGH = 0.4  # in failures: rate at which that rung fails on the best tenth


def below(truth: Array, loads: tuple[float, ...], draw: Draw, noise: Array | float = 1.0) -> Array:
    """Returns answers (n, len(loads) + 1) with correlations `loads` to the truth (n,), the last column."""
    errors = [np.sqrt(1 - load**2) * noise * draw(len(truth)) for load in loads]
    return np.column_stack([*(load * truth + error for load, error in zip(loads, errors, strict=True)), truth])


def gaussian(rng: np.random.Generator, n: int, loads: tuple[float, ...] = LOADS) -> Array:
    """Returns (n, len(loads) + 1) scores, jointly normal."""
    return below(rng.standard_normal(n), loads, rng.standard_normal)


def _false_positives(rng: np.random.Generator, n: int) -> Array:
    scores = gaussian(rng, n)
    ordinary = np.flatnonzero(scores[:, -1] < np.quantile(scores[:, -1], 0.9))
    fooled = rng.choice(ordinary, int(FOOLED * len(ordinary)), replace=False)
    scores[fooled, :2] = 3.0 + 0.3 * rng.standard_normal((len(fooled), 2))
    return scores


def _heavy_tails(rng: np.random.Generator, n: int) -> Array:
    def draw(m: int) -> Array:
        drawn: Array = rng.standard_t(4, m) / np.sqrt(2)
        return drawn

    return below(draw(n), LOADS, draw)


def _tail_dependent(rng: np.random.Generator, n: int) -> Array:
    truth = rng.standard_normal(n)
    bulk = below(truth, LOADS, rng.standard_normal)
    tail = below(truth, (0.25, 0.35, 0.6), rng.standard_normal)
    return np.where((truth > np.quantile(truth, 0.9))[:, None], tail, bulk)


def _drift(rng: np.random.Generator, n: int) -> Array:
    return below(rng.standard_normal(n) + np.linspace(0, RISE, n), LOADS, rng.standard_normal)


def _heteroscedastic(rng: np.random.Generator, n: int) -> Array:
    truth = rng.standard_normal(n)
    return below(truth, LOADS, rng.standard_normal, np.exp(SLOPE * truth - SLOPE**2))  # mean square 1


def _failures(rng: np.random.Generator, n: int) -> Array:
    scores = gaussian(rng, n)
    fails = np.full(scores.shape, FAILS)
    fails[scores[:, -1] > np.quantile(scores[:, -1], 0.9), FAILS_AT] = FAILS_HIGH
    return np.where(rng.random(scores.shape) < fails, np.nan, scores)


@dataclass(frozen=True)
class Family:
    """A family of ladders. make: draws the scores of n candidates, (n, 4), terminal rung last. what: its difficulty."""

    make: Maker
    what: str
    costs: tuple[float, ...] = STEEP


FAMILIES = {
    "informative": Family(gaussian, "each dearer rung tells more: correlations 0.5, 0.7, 0.9 with the terminal one"),
    "weak": Family(
        lambda rng, n: gaussian(rng, n, (0.3, 0.5, 0.7)), "each dearer rung tells more, none much: 0.3, 0.5, 0.7"
    ),
    "flat": Family(gaussian, "as informative, but the terminal rung costs only 30 times the first", FLAT),
    "worthless-middle": Family(
        lambda rng, n: gaussian(rng, n, (0.5, 0.05, 0.9)), "the second rung tells nothing: 0.5, 0.05, 0.9"
    ),
    "misordered": Family(
        lambda rng, n: gaussian(rng, n, (0.5, 0.9, 0.7)), "the third rung tells less than the second: 0.5, 0.9, 0.7"
    ),
    "false-positives": Family(
        _false_positives, "the two cheap rungs put 3 % of the ordinary candidates at the very top, the same ones"
    ),
    "heavy-tails": Family(
        _heavy_tails, "truth and errors are t with 4 degrees of freedom; correlations as informative"
    ),
    "tail-dependent": Family(
        _tail_dependent, "among the best tenth a rung's answer rises less with the truth: 0.25, 0.35, 0.6"
    ),
    "drift": Family(_drift, "later arrivals are better: the mean rises by 1.3 standard deviations"),
    "heteroscedastic": Family(
        _heteroscedastic, "a rung's error grows by a third with each standard deviation of the truth"
    ),
    "failures": Family(
        _failures, "every rung fails on 5 %, the third on 40 % of the best tenth; an unanswered truth is no hit"
    ),
}


def family(name: str, n: int, seed: int, top: float = 0.01) -> Truth:
    """Returns n candidates of a family. Hits are the fraction `top` with the best terminal answers."""
    if name not in FAMILIES:
        raise UnknownNameError("family", name, FAMILIES)
    chosen = FAMILIES[name]
    scores = chosen.make(np.random.default_rng([seed, n]), n)
    threshold = np.nanquantile(scores[:, -1], 1 - top)
    return Truth(scores, np.tile(chosen.costs, (n, 1)), scores[:, -1] >= threshold)
