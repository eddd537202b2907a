"""A rung's costs are learnt from its first job on."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sciagent.domain.cost_and_budget import Cost
from sciagent.verification.cost_models import SCATTER, UNLEARNT_FACTOR, CostModel, ratio_90th_percentile

TEN = Cost(core_seconds=10.0, lab_slots=1.0)


def test_before_the_first_job_three_times_the_declared_cost_is_reserved_and_each_job_brings_it_nearer() -> None:
    model, reserved = CostModel(), []
    for _ in range(7):
        reserved.append(model.reservation(TEN)["core_seconds"])
        model.observe(TEN, Cost(core_seconds=10.0))
    assert reserved[0] == pytest.approx(30.0)
    assert reserved == sorted(reserved, reverse=True)
    assert reserved[1] < 20.0 and reserved[5:] == pytest.approx([10.0, 10.0])
    assert model.reservation(TEN)["lab_slots"] == 1.0


def test_below_five_observations_the_percentile_is_that_of_the_predictive_distribution() -> None:
    """Against draws: a rung's own mean from the prior, its jobs around it, kept where the observed ones come out."""
    rng = np.random.default_rng(0)
    prior = math.sqrt((math.log(UNLEARNT_FACTOR) / 1.2816) ** 2 - SCATTER**2)
    means = rng.normal(0.0, prior, 400_000)
    jobs = means[:, None] + rng.normal(0.0, SCATTER, (len(means), 3))
    alike = np.abs(jobs[:, :2] - np.log([2.0, 3.0])).max(1) < 0.1
    assert alike.sum() > 500
    assert ratio_90th_percentile([2.0, 3.0]) == pytest.approx(float(np.exp(np.quantile(jobs[alike, 2], 0.9))), rel=0.06)


def test_a_job_is_expected_to_last_as_jobs_did_on_the_clock() -> None:
    model = CostModel()
    assert model.wall_seconds(TEN) == pytest.approx(30.0), "as its reservation, before the first"
    for _ in range(5):
        model.observe(TEN, Cost(core_seconds=10.0), wall_seconds=25.0)
    assert model.reservation(TEN)["core_seconds"] == pytest.approx(10.0)
    assert model.wall_seconds(TEN) == pytest.approx(25.0), "the machine is busy"
    for _ in range(20):
        model.observe(TEN, Cost(core_seconds=10.0), wall_seconds=50.0)
    assert model.wall_seconds(TEN) == pytest.approx(50.0), "and busier since it was last asked"
