"""What a priced campaign decides with, as the ledger has it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sciagent.campaign.core.build import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.pricing.priced_campaign import DECIDING, priced_campaign
from sciagent.campaign.spec.load import load_spec
from sciagent.store.database.ledger import Ledger
from tests.support.campaigns import write_campaign


def test_a_limit_by_count_is_shared_by_its_jobs_and_jobs_take_the_time_that_is_declared(tmp_path: Path) -> None:
    file = write_campaign(tmp_path, scheduler="priced", molecules=("C", "CO", "CC"), dft=4)
    built = create_or_open(Ledger(str(tmp_path / "sciagent.db")), load_spec(file), file.read_text(), "test")[0]
    with Driver(built) as driver:
        assert driver.intake.propose(driver.session)
    with built.ledger.read() as connection:
        campaign = priced_campaign(built, connection)
    assert campaign is not None and campaign.row is None and not campaign.scheduler.is_learnt
    assert campaign.pool.costs[:, -1] == pytest.approx(np.full(3, 1 / 4))
    declared = np.median(campaign.pool.declared["core_seconds"], axis=0)
    assert campaign.seconds() == pytest.approx(declared / built.spec.workers + DECIDING)
