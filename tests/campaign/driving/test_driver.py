"""What ran into a limit is tried again under a larger one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving import driver_state_and_heartbeat
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.domain.answers.status_and_comparison import RungCounts
from sciagent.errors import CampaignError
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import campaign_counts_and_remarks
from tests.support.campaigns import write_campaign


def opened(folder: Path, file: Path) -> Built:
    return create_or_open(Ledger(str(folder / "sciagent.db")), load_spec(file), file.read_text(), "test").built


def last_rung(built: Built) -> RungCounts:
    with built.ledger.read() as connection:
        return campaign_counts_and_remarks.counts(connection, campaigns.get(connection, built.row.name)).rungs[-1]


def test_a_timeout_is_tried_again_under_a_larger_limit(tmp_path: Path) -> None:
    file = write_campaign(tmp_path, molecules=("C=C",), dft=1)
    text = file.read_text()
    file.write_text(text.replace("  - rung: dft\n", "  - rung: dft\n    limits: {wall_seconds: 0.05}\n"))
    with Driver(opened(tmp_path, file)) as driver:
        driver.run()
    built = opened(tmp_path, file)
    assert (last_rung(built).inconclusive, last_rung(built).passed) == (1, 0)
    file.write_text(text)
    entered = create_or_open(built.ledger, load_spec(file), text, "test")
    assert entered.amendments == ("ladder[dft].limits.wall_seconds: 0.05 -> 7200.0",)
    built = entered.built
    with Driver(built) as driver:
        driver.run()
    assert (last_rung(built).inconclusive, last_rung(built).passed) == (0, 1)


def test_a_campaign_without_free_disk_space_says_which_folder_and_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_campaign(tmp_path, molecules=("C=C",), dft=1, gfn1=True)
    built = opened(tmp_path, file)
    with monkeypatch.context() as patch:
        patch.setattr(driver_state_and_heartbeat, "NEEDED_BYTES", 10**18)  # more than any disk has
        with pytest.raises(CampaignError) as error, Driver(built) as driver:
            driver.run()
    assert f"the disk that holds {built.ledger.artifacts.root}" in str(error.value)
    assert "free some space" in str(error.value) and "sciagent resume small" in str(error.value)
    with Driver(opened(tmp_path, file)) as driver:
        driver.run()
    assert last_rung(built).done == 1
