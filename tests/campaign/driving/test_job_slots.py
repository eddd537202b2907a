"""Short jobs are claimed a little ahead, long ones at the last moment; a call holds what its verifier takes."""

from __future__ import annotations

import pytest

from sciagent.campaign.driving.job_slots import LocalSlots, Pace
from sciagent.domain.rung_positions_and_tiers import Position


def paced(**seconds: float) -> Pace:
    """seconds: wall time of a job at rung p0, p1, …"""
    pace = Pace({Position(0): 10})
    for name, wall in seconds.items():
        pace.observe(int(name[1:]), wall)
    return pace


def places(pace: Pace, free: int, waiting: int) -> LocalSlots:
    return LocalSlots(pace, free, waiting, {Position(0): 1, Position(1): 1})


@pytest.mark.parametrize(("wall", "ahead"), [(0.0, True), (0.02, True), (5.0, False)])
def test_only_short_jobs_wait_beside_a_worker(wall: float, ahead: bool) -> None:
    pace = paced(p0=wall, p1=wall)
    assert (pace.group(0), pace.group(1), pace.is_short(1)) == (10, 1, ahead)


def test_of_an_unknown_rung_nothing_is_claimed_ahead() -> None:
    pace = Pace()
    assert (pace.group(0), pace.is_short(0)) == (1, False)
    assert places(pace, free=2, waiting=2).wanted == 2


def test_one_long_job_ends_claiming_ahead_at_once_and_short_ones_bring_it_back() -> None:
    pace = paced(p1=0.001)
    pace.observe(1, 30.0)
    assert not pace.is_short(1)
    for _ in range(60):
        pace.observe(1, 0.001)
    assert pace.is_short(1)


def test_free_workers_come_first_then_what_waits() -> None:
    here = places(paced(p0=0.005), free=1, waiting=1)
    calls = []
    while (call := here.take(Position(0), ample=True)) is not None:
        calls.append(call)
        assert here.has_free is False
    assert calls == [0] * 10 + [1] * 10


def test_near_the_end_of_the_budget_each_worker_has_one_job_and_nothing_waits() -> None:
    here = places(paced(p0=0.001), free=2, waiting=2)
    assert [here.take(Position(0), ample=False) for _ in range(3)] == [0, 1, None]


def test_rungs_do_not_share_a_process_and_a_long_one_takes_no_place_ahead() -> None:
    here = places(paced(p0=0.005, p1=20.0), free=1, waiting=2)
    assert [here.take(Position(0), ample=True) for _ in range(2)] == [0, 0]
    assert here.take(Position(1), ample=True) is None, "it is chosen when a worker is free, with what is known by then"


def test_a_job_of_several_cores_takes_as_many_workers_and_leaves_nothing_waiting() -> None:
    here = LocalSlots(paced(p0=0.005), 3, 3, {Position(0): 1, Position(1): 2})
    assert here.take(Position(1), ample=True) == 0
    assert here.take(Position(1), ample=True) is None, "one worker is left, and it needs two"
    assert here.take(Position(0), ample=False) == 1
    assert here.take(Position(0), ample=True) is None
