"""One unit of cost: shares of budgets, weighted by how scarce each is."""

from __future__ import annotations

import numpy as np
import pytest

from sciagent.campaign.pricing.cost_unit import Allowance, Numeraire

DECLARED = {"core_seconds": np.array([[1.0, 100.0], [2.0, 50.0]]), "money": np.array([[0.0, 3.0], [0.0, 3.0]])}
ONES = np.ones(2)


def test_without_limits_costs_are_core_seconds() -> None:
    assert Numeraire(()).costs(DECLARED, np.array([2.0, 1.0])).tolist() == [[2.0, 100.0], [4.0, 50.0]]


def test_a_job_costs_the_share_that_it_takes_of_each_budget() -> None:
    made = Numeraire((Allowance("core_seconds", 1000.0, "core_seconds"), Allowance("rung 3", 10.0, rung=1)))
    assert made.costs(DECLARED, ONES) == pytest.approx(np.array([[0.0005, 0.1], [0.001, 0.075]]))
    assert made.share({"core_seconds": 1000.0, "rung 3": 10.0}) == pytest.approx(1.0)


def test_nothing_is_free_and_a_limit_of_nothing_is_none() -> None:
    made = Numeraire((Allowance("money", 10.0, "money"), Allowance("lab_slots", 0.0, "lab_slots")))
    assert len(made.allowances) == 1
    assert (made.costs(DECLARED, ONES) > 0).all()


def test_the_scarce_one_gets_the_weight() -> None:
    made = Numeraire((Allowance("core_seconds", 1000.0, "core_seconds"), Allowance("money", 10.0, "money")))
    for _ in range(30):
        made.weights = made.balanced({"core_seconds": 200.0, "money": 20.0}, {"core_seconds": 1000.0, "money": 10.0})
    assert made.weights[1] > 0.99
    assert made.weights.sum() == pytest.approx(1.0)
    price = made.price(2.0)
    assert price["money"] == pytest.approx(2.0 * made.weights[1] / 10.0)


def test_equal_scarcity_leaves_the_weights() -> None:
    made = Numeraire((Allowance("core_seconds", 1000.0, "core_seconds"), Allowance("money", 10.0, "money")))
    made.weights = made.balanced({"core_seconds": 500.0, "money": 5.0}, {"core_seconds": 1000.0, "money": 10.0})
    assert made.weights == pytest.approx([0.5, 0.5])
