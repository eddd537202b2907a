"""Cost models: the declared cost of a rung, corrected by the observed ratios of actual to declared cost."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.cost_and_budget import MAX_AMOUNT, MEASURED, Cost
from sciagent.verification.verifier_contract import BaseVerifier

MIN_OBSERVATIONS = 5
UNLEARNT_FACTOR = 3.0  # 90th percentile of actual over declared cost before the first observation
SCATTER = 0.35  # standard deviation of ln(actual / declared cost) between jobs of a rung
NORMAL_P90 = 1.2816  # 90th percentile of a standard normal
LEAST_RATIO = 1e-3  # replaces the ratio of a job without measurable cost
WINDOW = 200  # number of latest ratios that are kept
NOTHING = Cost()  # shared, since most verifications cost nothing else


def declared_cost(verifier: BaseVerifier[Any], candidate: Candidate) -> Cost:
    """Returns the declared cost. Raises TypeError or ValueError if it is invalid, and any exception of a plug-in's
    `cost`."""
    declared: object = verifier.cost(candidate)
    if not isinstance(declared, Cost):
        raise TypeError(f"a {type(declared).__name__}, not a Cost")
    for resource, amount in declared.items():
        if amount > MAX_AMOUNT:
            raise ValueError(f"{resource} = {amount:g}; at most {MAX_AMOUNT:g}")
    return declared


def cost_or_none(verifier: BaseVerifier[Any], candidate: Candidate) -> Cost | None:
    """Returns the declared cost, or None if the plug-in fails. The job calls `cost` again and records the error as the
    candidate's (see `job_process`)."""
    try:
        return declared_cost(verifier, candidate)
    except (Exception, SystemExit):  # noqa: BLE001  a plug-in may raise anything
        return None


class CostModel:
    """The expected cost and the reservation of a rung's jobs: the declared cost times a learnt factor."""

    def __init__(self, ratios: Iterable[float] = ()) -> None:
        self._ratios: deque[float] = deque(ratios, maxlen=WINDOW)
        self._wall: deque[float] = deque(maxlen=WINDOW)  # ratios of wall time to declared core-seconds
        # The 90th percentiles of `_ratios` and of `_wall`, cached until the next observation; None if not computed
        # yet. Computing one takes longer than a decision.
        self._upper: float | None = None
        self._upper_wall: float | None = None

    @property
    def learnt(self) -> bool:
        """Whether MIN_OBSERVATIONS jobs were observed."""
        return len(self._ratios) >= MIN_OBSERVATIONS

    def observe(
        self, declared: Mapping[str, float], actual: Mapping[str, float], wall_seconds: float | None = None
    ) -> None:
        """Adds the costs of a job that has ended. wall_seconds: its wall time."""
        declared_seconds = declared.get("core_seconds", 0.0)
        if declared_seconds > 0:
            self._ratios.append(actual.get("core_seconds", 0.0) / declared_seconds)
            self._upper = None
            self._upper_wall = None
            if wall_seconds is not None:
                self._wall.append(wall_seconds / declared_seconds)

    @property
    def factor(self) -> float:
        """The mean ratio of actual to declared cost; 1 below MIN_OBSERVATIONS."""
        return float(np.mean(self._ratios)) if self.learnt else 1.0

    def expected(self, declared: Cost) -> Cost:
        """Returns the declared cost with measured resources multiplied by the mean ratio."""
        return _scaled(declared, self.factor)

    def reservation(self, declared: Cost) -> Cost:
        """Returns the 90th percentile of the cost; the budget must have this much left before a job starts."""
        if self._upper is None:
            self._upper = ratio_90th_percentile(self._ratios)
        return _scaled(declared, self._upper)

    def wall_seconds(self, declared: Cost) -> float:
        """Returns the 90th percentile of a job's wall time, in seconds. On a busy machine it exceeds the CPU time.

        Before the first observation it is the reserved CPU time, since engines use one thread.
        """
        if not self._wall:
            return self.reservation(declared).get("core_seconds", 0.0)
        if self._upper_wall is None:
            self._upper_wall = ratio_90th_percentile(self._wall)
        return declared.get("core_seconds", 0.0) * self._upper_wall


def ratio_90th_percentile(ratios: Collection[float]) -> float:
    """Returns the 90th percentile of the next ratio of actual to declared cost, given the observed ratios.

    From `MIN_OBSERVATIONS` ratios on it is the quantile of the ratios. With fewer, the logarithm of a ratio is taken to
    be normal with mean m and standard deviation S = `SCATTER`. The mean m is normal around 0 with variance
    T² = (ln 3 / z)² - S², z = 1.2816, so that the percentile is 3 before the first observation. The predictive
    distribution of the logarithm after n ratios with mean logarithm x is normal:

        mean = (n x / S²) / (n / S² + 1 / T²)      variance = S² + 1 / (n / S² + 1 / T²)

    Source: Gelman et al., Bayesian Data Analysis, 3rd ed. (2013), section 2.5.
    """
    if not ratios:
        return UNLEARNT_FACTOR
    if len(ratios) >= MIN_OBSERVATIONS:
        return float(np.quantile(list(ratios), 0.9))
    mean, precision = _predictive(ratios)
    return math.exp(mean + NORMAL_P90 * math.sqrt(SCATTER**2 + 1 / precision))


def expected_ratio(ratios: Collection[float]) -> float:
    """Returns the expected ratio of actual to declared cost.

    From `MIN_OBSERVATIONS` ratios on it is their mean. With fewer it is the median of the predictive distribution (see
    `ratio_90th_percentile`), which is 1 without ratios.
    """
    if len(ratios) >= MIN_OBSERVATIONS:
        return float(np.mean(list(ratios)))
    mean, _ = _predictive(ratios)
    return math.exp(mean)


def _predictive(ratios: Collection[float]) -> tuple[float, float]:
    """Returns the mean of the logarithm of the next ratio, and the precision of that mean."""
    prior_variance = (math.log(UNLEARNT_FACTOR) / NORMAL_P90) ** 2 - SCATTER**2
    precision = len(ratios) / SCATTER**2 + 1 / prior_variance
    sum_of_logarithms = sum(math.log(max(ratio, LEAST_RATIO)) for ratio in ratios)
    return sum_of_logarithms / SCATTER**2 / precision, precision


def unmeasured(declared: Mapping[str, float], counted: Mapping[str, float] | None = None) -> Cost:
    """Returns the cost in resources that the host does not measure.

    counted: the amounts that the verifier has counted; the declared amounts replace None.
    """
    amounts = declared if counted is None else counted
    others = {resource: amount for resource, amount in amounts.items() if resource not in MEASURED}
    return Cost(others) if others else NOTHING


def _scaled(declared: Mapping[str, float], factor: float) -> Cost:
    """Returns the cost with measured resources multiplied; others, such as slots in a laboratory, are unchanged."""
    scaled = {resource: amount * (factor if resource in MEASURED else 1.0) for resource, amount in declared.items()}
    return Cost(scaled)
