"""Bayesian optimisation over the pool with BoTorch's processes: expected improvement per cost, and a knowledge gradient
that may ask the rungs in between.

Rungs that cost next to nothing are inputs of a Gaussian process; structure is left out. Both seek a better best answer,
as these acquisitions do, and not hits. What a process cannot explain is a candidate's own, so it counts as something to
gain. A process learns from at most ROWS answers of each rung, and the knowledge gradient compares POOL candidates a
step, half the most promising of all open ones, half drawn; more is not computable in a bench. These processes know a
candidate by its inputs alone: what a dear rung says of one counts for all with like inputs, and for itself no more.
Needs the extra `bench`; `benchmarks.scheduling.live` registers them.

Sources: Balandat et al., NeurIPS 2020, arXiv 1910.06403; Snoek et al., NeurIPS 2012, arXiv 1206.2944 (improvement per
second); Wu et al., UAI 2019, arXiv 1903.04703 (knowledge gradient with fidelities), here exact on a discrete pool.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.array_types import Array, RowIndices
from sciagent.scheduling.candidate_pool import CandidatePool, Purchase
from sciagent.scheduling.law.answer_transforms import ScoreTransform, TruthTransform
from sciagent_bench.rivals.shared_first_purchases import CHEAP, features, tails

POOL = 200
ROWS = 200
WARM_UP = 8  # answers of each rung that is modelled before there is a process
BATCH = 8  # purchases between two processes
BATCH_SHARE = 0.1  # the same as a share of the terminal answers
OUTCOMES = ndtri((np.arange(24) + 0.5) / 24)  # over which the knowledge gradient averages


class EiPerCost:
    """Logarithm of the expected improvement over the best terminal answer so far, less that of the cost."""

    def __init__(self, threshold: float, sign: int, seed: int) -> None:
        self._threshold = threshold
        self._sign = sign
        self._rng = np.random.default_rng(seed)

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        last = pool.costs.shape[1] - 1
        if found := features(pool, left, False):
            return found
        rungs = self._modelled(pool)
        whole = int((~np.isnan(pool.scores[:, rungs])).all(1).sum())
        if whole < WARM_UP:
            first = tails(pool, WARM_UP - whole, self._sign, self._rng)
            return [Purchase(int(i), PaidIndex(j), math.inf) for i in first for j in rungs if not pool.closed[i, j]]
        open_ = np.flatnonzero(~pool.out & ~pool.closed[:, last])
        if not len(open_):
            return []
        candidates, bought, value = self._values(pool, open_, rungs)
        size = max(BATCH, int(BATCH_SHARE * (~np.isnan(pool.scores[:, last])).sum()))
        order = np.argsort(-value, kind="stable")[:size]
        return [Purchase(int(candidates[i]), PaidIndex(int(bought[i])), float(value[i])) for i in order]

    def _modelled(self, pool: CandidatePool) -> list[int]:
        """Rungs, the terminal one last."""
        return [pool.costs.shape[1] - 1]

    def _values(self, pool: CandidatePool, open_: RowIndices, rungs: list[int]) -> tuple[RowIndices, RowIndices, Array]:
        """Purchases, (candidate, rung) each, and what each is worth."""
        model, x, y = self._fit(pool, rungs)
        value = log_improvement(*_marginal(model, x[open_]), float(y.max())) - np.log(pool.costs[open_, rungs[-1]])
        return open_, np.full(len(open_), rungs[-1]), value

    def _fit(self, pool: CandidatePool, rungs: list[int]) -> tuple[Any, Array, Array]:
        """The model; inputs of all candidates, (n, d), with a column for the rung where there are several; the terminal
        answers, hits above 0."""
        import torch
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import MultiTaskGP, SingleTaskGP
        from botorch.settings import validate_input_scaling
        from gpytorch.mlls import ExactMarginalLogLikelihood

        torch.manual_seed(int(self._rng.integers(2**31)))
        last = rungs[-1]
        scores = pool.scores
        inputs = [j for j in range(last) if j not in rungs and pool.closed[:, j].mean() > 0.5]
        columns = [ScoreTransform.of(scores[:, j])(scores[:, j]) for j in inputs] or [np.zeros(len(scores))]
        x = np.nan_to_num(np.column_stack(columns))
        answers = TruthTransform.of(scores[:, last], self._threshold, self._sign)(scores[:, last])
        xs = []
        ys = []
        for task, j in enumerate(rungs):
            y = answers if j == last else ScoreTransform.of(scores[:, j])(scores[:, j])
            seen = self._rng.permutation(np.flatnonzero(~np.isnan(y)))[:ROWS]
            xs.append(np.column_stack([x[seen], np.full(len(seen), task)]) if len(rungs) > 1 else x[seen])
            ys.append(y[seen])
        train = torch.tensor(np.concatenate(xs))
        target = torch.tensor(np.concatenate(ys)).unsqueeze(-1)
        with validate_input_scaling(False):  # the transforms have scaled them
            model = MultiTaskGP(train, target, task_feature=-1) if len(rungs) > 1 else SingleTaskGP(train, target)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        model.eval()
        return model, x, answers[~np.isnan(answers)]


class KnowledgeGradient(EiPerCost):
    """By how much a purchase of any rung raises the best expected terminal answer, a unit of cost."""

    def _modelled(self, pool: CandidatePool) -> list[int]:
        last = pool.costs.shape[1] - 1
        relative = np.median(pool.costs / pool.costs[:, last:], axis=0)
        return [j for j in range(last) if relative[j] > CHEAP and pool.closed[:, j].mean() <= 0.5] + [last]

    def _values(self, pool: CandidatePool, open_: RowIndices, rungs: list[int]) -> tuple[RowIndices, RowIndices, Array]:
        model, x, y = self._fit(pool, rungs)
        m = len(rungs)
        x = x if m == 1 else np.column_stack([x, np.full(len(x), m - 1)])
        mean, sd = _marginal(model, x[open_])
        promising = open_[np.argsort(-(mean + sd), kind="stable")[: POOL // 2]]
        drawn = self._rng.permutation(np.setdiff1d(open_, promising))[: POOL - len(promising)]
        compared = np.concatenate([promising, drawn])
        points = np.tile(x[compared], (m, 1))
        if m > 1:
            points[:, -1] = np.repeat(np.arange(m), len(compared))
        mean, covariance = _joint(model, points)
        rung = np.repeat(rungs, len(compared))
        candidate = np.tile(compared, m)
        possible = np.flatnonzero(~pool.closed[candidate, rung])
        target = np.arange(len(points) - len(compared), len(points))
        moves = covariance[np.ix_(possible, target)] / np.sqrt(np.diag(covariance)[possible])[:, None]
        now = max(float(y.max()), float(mean[target].max()))
        gain = np.zeros(len(possible))
        for outcome in OUTCOMES:
            gain += np.maximum((mean[target] + moves * outcome).max(1), float(y.max())) - now
        worth = np.log(np.maximum(gain / len(OUTCOMES), 1e-12))
        # where no outcome changes the best, the improvement that the terminal answer alone might bring decides
        tail = log_improvement(mean[possible], np.sqrt(np.diag(covariance)[possible]), now)
        value = np.where(possible >= target[0], np.maximum(worth, tail), worth)
        return candidate[possible], rung[possible], value - np.log(pool.costs[candidate[possible], rung[possible]])


def log_improvement(mean: Array, sd: Array, best: float) -> Array:
    """log E[(Y - best)+] of Y ~ N(mean, sd²), (n,); the asymptote where Y is far below."""
    z = (mean - best) / sd
    near = np.maximum(np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) + z * ndtr(z), 1e-300)
    far = log_ndtr(np.minimum(z, -5.0)) - np.log(-np.minimum(z, -5.0))
    found: Array = np.log(sd) + np.where(z > -5, np.log(near), far)
    return found


def _marginal(model: Any, x: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of noisy answers, (n,)."""
    import torch

    with torch.no_grad():
        parts = [model.posterior(part.unsqueeze(1), observation_noise=True) for part in torch.tensor(x).split(2000)]
        mean = torch.cat([part.mean.reshape(-1) for part in parts]).numpy()
        return mean, torch.cat([part.variance.reshape(-1) for part in parts]).sqrt().numpy()


def _joint(model: Any, x: Array) -> tuple[Array, Array]:
    """Mean (n,) and covariance (n, n) of noisy answers."""
    import torch

    with torch.no_grad():
        joint = model.posterior(torch.tensor(x), observation_noise=True).distribution
        return joint.mean.numpy(), joint.covariance_matrix.numpy()
