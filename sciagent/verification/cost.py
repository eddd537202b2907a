"""Cost models: a verifier declares what it expects to cost, the ledger teaches by how much it was wrong."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import MAX_AMOUNT, MEASURED, Cost
from sciagent.verification.contract import Verifier

MIN_OBSERVATIONS = 5
UNLEARNT_FACTOR = 3.0  # the 90th percentile is taken as 3x what is declared before the first observation
SCATTER = 0.35  # of the logarithm of actual over declared cost, between jobs of a rung
LEAST_RATIO = 1e-3  # a job that took nothing measurable
WINDOW = 200
NOTHING = Cost()


def declared_cost(verifier: Verifier[Any], candidate: Candidate) -> Cost:
    """What the verifier expects to spend. Raises TypeError or ValueError for what is no cost, and whatever else a
    plug-in's `cost` raises."""
    declared: object = verifier.cost(candidate)
    if not isinstance(declared, Cost):
        raise TypeError(f"a {type(declared).__name__}, not a Cost")
    for resource, amount in declared.items():
        if amount > MAX_AMOUNT:
            raise ValueError(f"{resource} = {amount:g}; at most {MAX_AMOUNT:g}")
    return declared


def cost_or_none(verifier: Verifier[Any], candidate: Candidate) -> Cost | None:
    """The same for whoever must go on: None where the plug-in fails. The job itself asks again, and records the error
    as the candidate's (see `child`)."""
    try:
        return declared_cost(verifier, candidate)
    except (Exception, SystemExit):  # noqa: BLE001  a plug-in may raise anything
        return None


class CostModel:
    """Expected cost and reservation of a rung: the declared cost times the learnt ratio of actual to declared."""

    def __init__(self, ratios: Iterable[float] = ()) -> None:
        self._ratios: deque[float] = deque(ratios, maxlen=WINDOW)
        self._wall: deque[float] = deque(maxlen=WINDOW)  # seconds on the clock over declared core-seconds
        self._upper: float | None = None  # 90th percentile of the ratios, and below that of the clock: each costs
        self._upper_wall: float | None = None  # more than a decision, so both are kept until the next observation

    @property
    def learnt(self) -> bool:
        """Whether enough was observed to trust a reservation."""
        return len(self._ratios) >= MIN_OBSERVATIONS

    def observe(
        self, declared: Mapping[str, float], actual: Mapping[str, float], wall_seconds: float | None = None
    ) -> None:
        """Learn from a job that has ended. wall_seconds: how long it took on the clock."""
        if (seconds := declared.get("core_seconds", 0.0)) > 0:
            self._ratios.append(actual.get("core_seconds", 0.0) / seconds)
            self._upper = self._upper_wall = None
            if wall_seconds is not None:
                self._wall.append(wall_seconds / seconds)

    @property
    def factor(self) -> float:
        """Mean ratio of actual to declared; 1 below five observations."""
        return float(np.mean(self._ratios)) if self.learnt else 1.0

    def expected(self, declared: Cost) -> Cost:
        """The declared cost, what is measured times the mean ratio."""
        return _scaled(declared, self.factor)

    def reservation(self, declared: Cost) -> Cost:
        """The 90th percentile: what must be left in the budget before a job is started."""
        if self._upper is None:
            self._upper = ninetieth(self._ratios)
        return _scaled(declared, self._upper)

    def wall_seconds(self, declared: Cost) -> float:
        """The 90th percentile of how long a job takes on the clock: on a busy machine longer than its CPU time. Until a
        job was observed it is taken as its reservation of CPU time, for engines run on a single thread."""
        if not self._wall:
            return self.reservation(declared).get("core_seconds", 0.0)
        if self._upper_wall is None:
            self._upper_wall = ninetieth(self._wall)
        return declared.get("core_seconds", 0.0) * self._upper_wall


def ninetieth(ratios: Collection[float]) -> float:
    """The 90th percentile of the next ratio of actual to declared cost, given those observed.

    From `MIN_OBSERVATIONS` on it is their quantile. Below, the logarithms of ratios are taken as normal with mean m and
    standard deviation S = `SCATTER`, and m as normal around 0 with variance T² = (ln 3 / z)² - S², z = 1.2816, so that
    the percentile is 3 before the first. The predictive distribution after n ratios with mean logarithm x is normal:

        mean = (n x / S²) / (n / S² + 1 / T²)      variance = S² + 1 / (n / S² + 1 / T²)

    Source: Gelman et al., Bayesian Data Analysis, 3rd ed. (2013), section 2.5.
    """
    n = len(ratios)
    if not n:
        return UNLEARNT_FACTOR
    if n >= MIN_OBSERVATIONS:
        return float(np.quantile(list(ratios), 0.9))
    z = 1.2816
    prior = (math.log(UNLEARNT_FACTOR) / z) ** 2 - SCATTER**2
    precision = n / SCATTER**2 + 1 / prior
    mean = sum(math.log(max(ratio, LEAST_RATIO)) for ratio in ratios) / SCATTER**2 / precision
    return math.exp(mean + z * math.sqrt(SCATTER**2 + 1 / precision))


def unmeasured(declared: Mapping[str, float], counted: Mapping[str, float] | None = None) -> Cost:
    """The part that the host does not measure while a job runs: it is booked as the verifier has counted it, and where
    it counts nothing itself as it was declared."""
    known = declared if counted is None else counted
    return NOTHING if known.keys() <= MEASURED else Cost({r: a for r, a in known.items() if r not in MEASURED})


def _scaled(declared: Mapping[str, float], factor: float) -> Cost:
    """A slot in a laboratory remains a slot, however long the jobs take."""
    return Cost({r: a * (factor if r in MEASURED else 1.0) for r, a in declared.items()})
