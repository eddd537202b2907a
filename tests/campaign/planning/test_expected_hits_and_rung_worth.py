"""Campaigns for which nothing can be planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.campaign.planning.expected_hits_and_rung_worth import plan
from sciagent.errors import UsageError
from tests.campaign.planning.fake_ladder import Maker, Top


def test_where_nothing_can_be_planned_it_says_why(planned: Maker, tmp_path: Path) -> None:
    (found,) = [planned((Top, 60.0), budget="{rungs: {top: 0}}")]
    assert all(case["hits"]["middle"] == 0 for case in found["cases"])
    (tmp_path / "all.csv").write_text("smiles\nnot a molecule\n")
    with pytest.raises(UsageError, match="none of its 1 structures can be read"):
        plan(load_spec(tmp_path / "made.yaml"))
