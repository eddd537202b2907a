"""The benchmark of a second campaign: what its two campaigns are, and what the committed result says."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.scheduling.second import ARMS, HERE, RESULT, Campaign, limits, plans
from sciagent_bench.several_tables import read_collection

FOUND = json.loads(RESULT.read_text())


def test_limits_lie_between_answers() -> None:
    values = np.array([3.0, 1.0, 2.0, 4.0, np.nan])
    assert limits(values, 1, 0.7, 1) == (3.5, np.inf)
    assert limits(values, -1, 0.7, 1) == (-np.inf, 1.5)
    assert limits(values, 1, 0.3, 0.7) == (1.5, 3.5)


def test_the_two_campaigns_share_no_candidate_and_both_have_hits() -> None:
    spec = read_collection(HERE / "tables.yaml")["flash_points"]
    found = plans(spec.case(HERE), spec.top, 0)
    assert set(found) == set(ARMS)
    for first, second, _ in found.values():
        assert isinstance(first, Campaign) and not set(first.of) & set(second.of)
        assert first.truth.hit.any() and second.truth.hit.any()
    assert found["rung"][2] == 1


@pytest.mark.parametrize("arm", ARMS)
def test_a_second_campaign_needs_no_more_answers_than_a_cold_one_on_average(arm: str) -> None:
    assert all(at["answers"][0] < 1.03 for at in FOUND["all"][arm].values())
