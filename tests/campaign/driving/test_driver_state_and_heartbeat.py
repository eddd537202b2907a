"""How a campaign ends, and how it goes on after an interruption."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.driving.driver import Driver
from sciagent.domain.states_and_needs import CampaignState
from tests.campaign.driving.test_driver import last_rung, opened
from tests.support.campaigns import write_campaign


@pytest.mark.long
def test_the_last_places_of_a_budget_by_count_survive_an_interruption(tmp_path: Path) -> None:
    file = write_campaign(tmp_path, molecules=("C=C", "C=O"), scheduler="thresholds", dft=2, workers=2)
    file.write_text(file.read_text().replace("grid: 0", "grid: 5"))  # long enough to be interrupted
    with Driver(opened(tmp_path, file)) as driver:
        while len([k for k in driver.session.crews[0].by_id.values() if k.rung.rules.is_terminal]) < 2:
            assert driver.step() is None
        driver.abort()
        assert driver.run() is CampaignState.INTERRUPTED
    built = opened(tmp_path, file)
    assert last_rung(built).model_dump() | {"core_seconds": 0} == {
        "rung": "dft",
        "tier": "high_fidelity",
        "done": 0,
        "passed": 0,
        "failed": 0,
        "inconclusive": 0,
        "errors": 0,
        "core_seconds": 0,
        "jobs": 2,
        "running": 2,
    }
    with Driver(built) as driver:
        assert driver.run() is CampaignState.BUDGET_SPENT
    assert last_rung(built).done == 2
