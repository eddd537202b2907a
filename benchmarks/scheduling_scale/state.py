"""A campaign in its middle: n candidates, five rungs, and answers as the priced ladder would have bought them.

The cheapest rung is known of all, dearer ones of fewer and fewer that looked best, and a few ladders are whole. Costs
are log-normal, each candidate's own for each rung.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sciagent.scheduling.aims_and_payoff import Aims
from sciagent.scheduling.candidate_pool import CandidatePool, Purchase
from sciagent.scheduling.law.similarity import Similarity
from sciagent.scheduling.rules.priced import Priced
from sciagent_bench.candidate_similarity import Overlap

Array = NDArray[np.float64]

MEDIANS = np.array([1.0, 20.0, 200.0, 1500.0, 10_000.0])  # cost of each rung
SPREAD = 0.7  # of the logarithm of costs
LOADS = np.array([0.4, 0.6, 0.75, 0.9])  # correlation of each rung with the terminal one
SEEN = (5000, 2000, 800, 350)  # candidates that have seen the second rung and those above, at most a share of all
SHARE = np.array([0.25, 0.1, 0.04, 0.02])
WHOLE = 50  # ladders, of candidates drawn at random
BUDGET = 0.005  # of the exhaustive cost
TOP = 0.001  # of the candidates are hits
ELEMENTS = 8  # of compositions


@dataclass
class Campaign:
    """answers: (n, 5) what the rungs would say."""

    pool: CandidatePool
    answers: Array
    priced: Priced
    left: float
    similarity: Similarity | None = None

    def buy(self, batch: list[Purchase]) -> None:
        pool = self.pool
        for one in batch:
            if pool.closed[one.row, one.rung]:
                continue
            pool.closed[one.row, one.rung] = True
            pool.scores[one.row, one.rung] = self.answers[one.row, one.rung]
            pool.tried[one.rung] += 1
            pool.out[one.row] |= one.rung == len(MEDIANS) - 1
            self.left -= float(pool.costs[one.row, one.rung])


def draw(n: int, seed: int = 0) -> tuple[Array, Array]:
    """Answers and costs, (n, 5) each."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((n, 1))
    below = LOADS * truth + np.sqrt(1 - LOADS**2) * rng.standard_normal((n, len(LOADS)))
    return np.hstack([below, truth]), MEDIANS * np.exp(SPREAD * rng.standard_normal((n, len(MEDIANS))))


def arrived(costs: Array, at_once: int = 1000) -> CandidatePool:
    """Candidates come so many at a time."""
    k = costs.shape[1]
    pool = CandidatePool(np.empty((0, k)), np.empty((0, k), dtype=bool), np.empty((0, k)))
    for start in range(0, len(costs), at_once):
        pool.add(costs[start : start + at_once])
    return pool


def fresh(n: int, seed: int = 0, structure: bool = False) -> Campaign:
    """Nothing is known yet. structure: candidates are compositions, too, of which nothing depends."""
    answers, costs = draw(n, seed)
    threshold = float(np.quantile(answers[:, -1], 1 - TOP))
    budget = BUDGET * float(costs[:, -1].sum())
    alike = Overlap(np.random.default_rng(seed).dirichlet(np.ones(ELEMENTS), n)) if structure else None
    priced = Priced(Aims.with_threshold(len(MEDIANS), threshold, 1), alike, seed, budget)
    return Campaign(arrived(costs), answers, priced, budget, alike)


def campaign(n: int, seed: int = 0, structure: bool = False) -> Campaign:
    """Its middle."""
    state = fresh(n, seed, structure)
    answers = state.answers
    pool = state.pool
    rng = np.random.default_rng(seed)
    pool.scores[:, 0] = answers[:, 0]
    pool.closed[:, 0] = True
    best = np.arange(n)
    for j, most in enumerate(np.minimum(SEEN, (SHARE * n).astype(int)), start=1):
        best = best[np.argsort(-answers[best, j - 1], kind="stable")[:most]]
        _answer(pool, answers, best, j)
    whole = rng.permutation(n)[: min(WHOLE, n // 20)]
    for j in range(1, len(MEDIANS)):
        _answer(pool, answers, whole[~pool.closed[whole, j]], j)
    return state


def _answer(pool: CandidatePool, answers: Array, of: NDArray[np.intp], j: int) -> None:
    pool.scores[of, j] = answers[of, j]
    pool.closed[of, j] = True
    pool.tried[j] += len(of)
    pool.out[of] |= j == len(MEDIANS) - 1
