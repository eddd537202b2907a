"""The crew of people: how many tasks are on the list."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from sciagent.campaign.driving.world_jobs import ahead, enough
from sciagent.campaign.spec.load import parse_spec
from tests.campaign.lab.conftest import CAMPAIGN


@pytest.mark.parametrize(("count", "hits", "verified"), [(2, 0, 0), (10, 0, 0), (10, 5, 10), (1, 0, 20), (3, 2, 2)])
def test_as_many_tasks_are_out_as_are_likely_to_bring_the_missing_hits(count: int, hits: int, verified: int) -> None:
    p = (hits + 1) / (verified + 2)

    def low(n: int) -> float:
        """Hits after n tasks, less one standard deviation."""
        return hits + n * p - math.sqrt(n * p * (1 - p))

    n = enough(count, hits, verified)
    assert low(n) >= count - 1e-6 > low(n - 1)


def test_a_goal_that_is_reached_needs_no_more_tasks() -> None:
    assert enough(2, 2, 5) == enough(2, 3, 5) == 0


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
    assert ahead(spec, spec.ladder[-1]) == expected
