"""The benchmarks of orchestration do what they say, on a small scale."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from benchmarks.orchestration import chaos, throughput
from sciagent.domain.states_and_needs import AttemptState
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts, reservations_and_bookings
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.job_queue.reservations_and_bookings import Bill
from tests.support import rows
from tests.support.elsewhere import until
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


def test_who_is_behind_an_ended_process_goes_on() -> None:
    members = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    processes = [psutil.Process(member.pid) for member in members]
    try:
        chaos.signal_all(processes, signal.SIGSTOP)
        until(lambda: processes[1].status() == psutil.STATUS_STOPPED, seconds=20)
        members[0].kill()
        members[0].wait()
        chaos.signal_all(processes, signal.SIGCONT)
        until(lambda: processes[1].status() != psutil.STATUS_STOPPED, seconds=20)
    finally:
        for member in members:
            member.kill()
            member.wait()


def test_the_audit_tells_a_late_result_from_a_second_bill(ledger: Ledger) -> None:
    """A late result adds to what was booked at the loss; whatever is booked beyond its cost is a second bill."""
    with ledger.begin() as connection:
        campaign = rows.campaign(connection)
        ids = [attempts.begin(connection, "worker", campaign_id=campaign.id, rung_id=None) for _ in range(3)]
        late, done, unbilled = ids
        at_loss = {"core_seconds": 0.5}
        whole = {"core_seconds": 2.0, "money": 3.0}
        attempts.end_many(connection, [AttemptEnd(late, AttemptState.LOST, at_loss, 0.5)])
        attempts.mark_end(connection, [late])
        attempts.end_many(connection, [AttemptEnd(late, AttemptState.STALE, whole, 2.0)])
        attempts.mark_late(connection, {late: at_loss})
        attempts.end_many(connection, [AttemptEnd(id_, AttemptState.DONE, whole, 2.0) for id_ in (done, unbilled)])
        added = {"core_seconds": 1.5, "money": 3.0}
        bills = [Bill(campaign.id, None, late, at_loss), Bill(campaign.id, None, late, added)]
        reservations_and_bookings.book_many(connection, [*bills, Bill(campaign.id, None, done, whole)])

        def billed() -> tuple[int, int]:
            audit = chaos.audited(connection)
            return audit["attempts_billed_twice"], audit["attempts_billed_otherwise"]

        assert billed() == (0, 1), "one attempt has no bill at all"
        reservations_and_bookings.book_many(connection, [Bill(campaign.id, None, unbilled, whole)])
        assert billed() == (0, 0)
        reservations_and_bookings.book_many(connection, [Bill(campaign.id, None, late, {"core_seconds": 1.5})])
        assert billed() == (1, 0)
        reservations_and_bookings.book_many(connection, [Bill(campaign.id, None, done, {"money": 3.0})])
        assert billed() == (2, 0)


@pytest.mark.slow
def test_what_a_job_costs_is_measured(tmp_path: Path) -> None:
    with ExitStack() as stack:
        env = throughput.Environment(tmp_path, stack)
        found = throughput.ours(env, "sqlite", "celery", 60, 5, rows=1000)
    assert found["jobs"] == 60 and 0 < found["ms_per_job"] < 1000 and found["round_trip_ms"]["p50"] > 0
