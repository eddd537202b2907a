"""The crew of people: how many tasks are on the list."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.file.campaign_spec import parse_spec
from tests.lab.conftest import CAMPAIGN


@pytest.mark.parametrize(
    ("lab", "budget", "expected"),
    [
        ("{}", "{lab_slots: 90}", 6),
        ("{}", "{lab_slots: {amount: 5, per: week}}", 10),
        ("{ahead: 4}", "{lab_slots: {amount: 5, per: week}}", 4),
    ],
)
def test_two_weeks_are_on_the_list_unless_the_file_says_so(
    tmp_path: Path, lab: str, budget: str, expected: int
) -> None:
    (tmp_path / "molecules.csv").write_text("smiles\nCO\n", encoding="utf-8")
    spec = parse_spec(CAMPAIGN.format(name="gaps", lab=lab, budget=budget, high=4.6), base=tmp_path)
    assert spec.ladder[-1].most_unclaimed_tasks(spec.budget.rates().get("lab_slots")) == expected
