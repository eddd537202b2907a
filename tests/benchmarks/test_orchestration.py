"""The benchmarks of orchestration do what they say, on a small scale."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.orchestration import chaos, throughput
from tests.support.plugins import forget_registry


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The verifiers of these runs are not those of the tests that follow."""
    monkeypatch.setenv("SCIAGENT_BROKER", "")
    monkeypatch.setenv("PYTHONPATH", "")
    yield
    forget_registry()


@pytest.mark.slow
@pytest.mark.parametrize(("database", "broker"), [("sqlite", "none"), ("postgresql", "redis")])
def test_nothing_is_lost_when_everything_is_killed(database: str, broker: str, tmp_path: Path) -> None:
    said: list[str] = []
    found = chaos.run(
        30,
        database,
        broker,
        tmp_path,
        lease=4.0,
        every=1.5,
        n_workers=2,
        seed=5,
        minutes=5.0,
        say=said.append,
        after=6.0,
    )
    assert found["evidence"] == 30 and sum(found["did"].values()) == len(said) >= 3


def test_a_run_that_lost_something_is_refused() -> None:
    good = {
        "jobs": {"done": 2},
        "evidence": 2,
        "different": 2,
        "standings": {"settled": 2},
        "booked_core_seconds": 1.0,
        "cost_of_attempts": 1.0,
        "reservations_held": 0,
        "left": [],
        "audit": {"done jobs without evidence": 0},
    }
    chaos.check(good, 2)
    wrongs = [
        {"evidence": 1},
        {"different": 1},
        {"left": ["python"]},
        {"audit": {"done jobs without evidence": 1}},
        {"reservations_held": 1},
        {"jobs": {"done": 1}},
        {"booked_core_seconds": 2.0},
        {"standings": {"pending": 1, "settled": 1}},
    ]
    for wrong in wrongs:
        with pytest.raises(SystemExit):
            chaos.check(good | wrong, 2)


@pytest.mark.slow
def test_what_a_job_costs_is_measured(tmp_path: Path) -> None:
    with ExitStack() as stack:
        env = throughput.Environment(tmp_path, stack)
        found = throughput.ours(env, "sqlite", "celery", 60, 5, rows=1000)
    assert found["jobs"] == 60 and 0 < found["ms_per_job"] < 1000 and found["round_trip_ms"]["p50"] > 0
