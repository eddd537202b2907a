"""Short jobs are claimed a little ahead, long ones at the last moment; a call holds what its verifier takes."""

from __future__ import annotations

import pytest

from sciagent.campaign.driving.pace import Pace, Places
from sciagent.domain.campaigns.ladder import Position


def paced(**seconds: float) -> Pace:
    """seconds: wall time of a job at rung p0, p1, …"""
    pace = Pace({Position(0): 10})
    for name, wall in seconds.items():
        pace.observe(int(name[1:]), wall)
    return pace


@pytest.mark.parametrize(("wall", "ahead"), [(0.0, True), (0.02, True), (5.0, False)])
def test_only_short_jobs_wait_beside_a_worker(wall: float, ahead: bool) -> None:
    pace = paced(p0=wall, p1=wall)
    assert (pace.group(0), pace.group(1), pace.ahead(1)) == (10, 1, ahead)


def test_of_an_unknown_rung_nothing_is_claimed_ahead() -> None:
    pace = Pace()
    assert (pace.group(0), pace.ahead(0), pace.known) == (1, False, False)
    assert pace.wanted([0, 1], free=2, waiting=2) == 2
    assert pace.wanted([], free=2, waiting=2) == 2


def test_one_long_job_ends_claiming_ahead_at_once_and_short_ones_bring_it_back() -> None:
    pace = paced(p1=0.001)
    pace.observe(1, 30.0)
    assert not pace.ahead(1)
    for _ in range(60):
        pace.observe(1, 0.001)
    assert pace.ahead(1)


def test_free_workers_come_first_then_what_waits() -> None:
    places = Places[str](paced(p0=0.005), free=1, waiting=1)
    groups = []
    while (group := places.find(0, ample=True)) is not None:
        group.reserve(1)
        groups.append(group)
    assert [g.waits for g in places.groups] == [False, True]
    assert len(groups) == 20 and all(g.room == 0 for g in places.groups)


def test_near_the_end_of_the_budget_each_worker_has_one_job_and_nothing_waits() -> None:
    places = Places[str](paced(p0=0.001), free=2, waiting=2)
    for _ in range(2):
        group = places.find(0, ample=False)
        assert group is not None
        group.reserve(1)
    assert places.find(0, ample=False) is None
    assert [(g.waits, g.room) for g in places.groups] == [(False, 0), (False, 0)]


def test_rungs_do_not_share_a_process_and_a_long_one_takes_no_place_ahead() -> None:
    places = Places[str](paced(p0=0.005, p1=20.0), free=1, waiting=2)
    for position, waits in ((0, False), (0, False)):
        group = places.find(position, ample=True)
        assert group is not None and group.waits is waits
        group.reserve(1)
    assert places.find(1, ample=True) is None, "it is chosen when a worker is free, with what is known by then"
    places.alone(1, "queued before")
    assert [(g.position, g.jobs) for g in places.groups] == [(0, []), (1, ["queued before"])]
