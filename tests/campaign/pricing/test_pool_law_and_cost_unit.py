"""What a priced campaign decides with, as the ledger has it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.campaign.pricing.pool_law_and_cost_unit import DECISION_SECONDS, Allowance, Numeraire, priced_campaign
from sciagent.store.database.ledger import Ledger
from tests.support.campaigns import write_campaign


def test_a_limit_by_count_is_shared_by_its_jobs_and_jobs_take_the_time_that_is_declared(tmp_path: Path) -> None:
    file = write_campaign(tmp_path, scheduler="priced", molecules=("C", "CO", "CC"), dft=4)
    built = create_or_open(Ledger(str(tmp_path / "sciagent.db")), load_spec(file), file.read_text(), "test").built
    with Driver(built) as driver:
        assert driver.intake.propose(driver.session)
    with built.ledger.read() as connection:
        campaign = priced_campaign(built, connection)
    assert campaign is not None and campaign.row is None and not campaign.scheduler.is_learnt
    assert campaign.pool.costs[:, -1] == pytest.approx(np.full(3, 1 / 4))
    declared = np.median(campaign.pool.declared["core_seconds"], axis=0)
    assert campaign.seconds_per_job() == pytest.approx(declared / built.spec.workers + DECISION_SECONDS)


# The unit of cost

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
