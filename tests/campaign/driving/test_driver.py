"""What was decided before an interruption is run after it; what ran into a limit is tried again under a larger one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.core.build import Built, create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.spec.load import load_spec
from sciagent.domain.answers.status import RungCounts
from sciagent.domain.jobs.states import CampaignState
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import campaign_counts
from tests.support.campaigns import write_campaign


def opened(folder: Path, file: Path) -> Built:
    return create_or_open(Ledger(str(folder / "sciagent.db")), load_spec(file), file.read_text(), "test")[0]


def last_rung(built: Built) -> RungCounts:
    with built.ledger.read() as connection:
        return campaign_counts.counts(connection, campaigns.get(connection, built.row.name)).rungs[-1]


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


def test_a_timeout_is_tried_again_under_a_larger_limit(tmp_path: Path) -> None:
    file = write_campaign(tmp_path, molecules=("C=C",), dft=1)
    text = file.read_text()
    file.write_text(text.replace("  - rung: dft\n", "  - rung: dft\n    limits: {wall_seconds: 0.05}\n"))
    with Driver(opened(tmp_path, file)) as driver:
        driver.run()
    built = opened(tmp_path, file)
    assert (last_rung(built).inconclusive, last_rung(built).passed) == (1, 0)
    file.write_text(text)
    built, amended = create_or_open(built.ledger, load_spec(file), text, "test")
    assert amended == ["ladder[dft].limits.wall_seconds: 0.05 -> 7200.0"]
    with Driver(built) as driver:
        driver.run()
    assert (last_rung(built).inconclusive, last_rung(built).passed) == (0, 1)
