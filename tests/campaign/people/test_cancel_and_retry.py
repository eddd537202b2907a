"""Jobs that a person cancels, or has tried again: in a driver's own pool and with workers elsewhere."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.people.cancel_and_retry import cancel, retry
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import reservations_and_bookings
from sciagent.store.views import campaign_counts_and_remarks
from tests.support.elsewhere import again, counts, driver, molecules, processes, running, until, working, written

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
SLEEPS = "import time; time.sleep(1000)"


def finished(one: Driver) -> str:
    end = time.monotonic() + 60
    while (state := one.step()) is None:
        assert time.monotonic() < end
    return str(state)


def test_cancelling_a_running_job_of_the_local_pool_leaves_the_others_alone(ledger: Ledger, tmp_path: Path) -> None:
    smiles = molecules(4)
    built = written(ledger, tmp_path, smiles, settings=f"{{hang_at: {smiles[0]}, declared: 5, seconds: 0.1}}")
    with Driver(built) as one:
        until(lambda: one.step() or (processes(SLEEPS) and counts(ledger, t.job.c.state).get("done") == 3))
        (job_id,) = running(ledger)
        began = time.monotonic()
        (changed,) = cancel(again(ledger), [job_id], "ann", "it hangs")
        assert (changed.done, changed.held, changed.smiles) == ("told", True, smiles[0])
        until(lambda: one.step() or (counts(ledger, t.job.c.state).get("cancelled") and not processes(SLEEPS)), 10)
        assert time.monotonic() - began < 3.0
        if one.running:
            finished(one)
    assert counts(ledger, t.job.c.state) == {"cancelled": 1, "done": 3}
    assert counts(ledger, t.campaign_candidate.c.standing) == {"held": 1, "settled": 3}
    with ledger.read() as connection:
        attempt = connection.execute(sa.select(t.attempt).where(t.attempt.c.job_id == job_id)).mappings().one()
        assert (attempt["state"], attempt["outcome"]) == ("cancelled", "lost")
        assert attempt["cost"]["core_seconds"] > 0
        spent = campaign_counts_and_remarks.spent(connection, built.row.id)["core_seconds"]
        costs = connection.execute(sa.select(t.attempt.c.cost)).scalars()
        by_script = connection.execute(sa.select(t.spend.c.amount).where(t.spend.c.rung_id.is_(None))).scalars()
        assert spent == pytest.approx(sum(cost.get("core_seconds", 0.0) for cost in costs) + sum(by_script))
        assert reservations_and_bookings.reserved(connection, built.row.id) == {}
        said = connection.execute(sa.select(t.directive)).mappings().one()
        assert (said["verb"], said["who"], said["why"]) == ("hold", "ann", f"job {job_id} cancelled: it hangs")
        assert not connection.execute(sa.select(t.job.c.cancel_requested).where(t.job.c.cancel_requested)).all()


def test_what_waits_in_the_pool_is_cancelled_without_having_run(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that were claimed ahead of a free worker. And one whose result has come already keeps it."""
    built = written(ledger, tmp_path, molecules(8), settings="{seconds: 0.3, declared: 0.001}")
    monkeypatch.setattr("sciagent.campaign.driving.job_slots.LONG_SECONDS", 30.0)  # the machine may be busy
    monkeypatch.setattr("sciagent.execution.worker.presence_and_leases.CANCELLED_LOOK_SECONDS", 0.02)
    with Driver(built, workers=1) as one:
        until(lambda: one.step() or running(ledger))
        until(lambda: not one.session.crews[0].pool.completed.empty())
        late = running(ledger)[0]
        assert [c.done for c in cancel(again(ledger), [late], "ann")] == ["told"]
        until(lambda: one.step() or len(running(ledger)) == 2)
        job_id = max(running(ledger))
        assert [c.done for c in cancel(again(ledger), [job_id], "ann")] == ["told"]
        until(lambda: one.step() or counts(ledger, t.job.c.state).get("cancelled"), 10)
        finished(one)
    assert counts(ledger, t.job.c.state) == {"cancelled": 1, "done": 7}
    assert counts(ledger, t.campaign_candidate.c.standing) == {"held": 1, "settled": 7}
    assert counts(ledger, t.attempt.c.state, t.attempt.c.job_id == late) == {"cancelled_late": 1}


def test_a_job_that_waits_is_over_at_once_and_can_be_tried_again(ledger: Ledger, tmp_path: Path) -> None:
    built = written(ledger, tmp_path, molecules(2), settings="{declared: 5}")
    with driver(built) as one:
        until(lambda: one.step() or counts(ledger, t.job.c.state).get("queued"))
        with ledger.read() as connection:
            job_id = connection.execute(sa.select(t.job.c.id).order_by(t.job.c.id)).scalars().first()
        (changed,) = cancel(built, [job_id], "ann")
        assert (changed.done, changed.held) == ("cancelled", True)
        assert [c.why for c in cancel(built, [job_id], "ann")] == ["it is cancelled already"]
        with working(ledger, tmp_path):
            finished(one)
    assert counts(ledger, t.job.c.state) == {"cancelled": 1, "done": 1}
    assert counts(ledger, t.campaign_candidate.c.standing) == {"held": 1, "settled": 1}
    assert [c.done for c in retry(again(ledger), [job_id], "ann")] == ["queued"]
    assert counts(ledger, t.campaign_candidate.c.standing) == {"pending": 1, "settled": 1}
    assert [c.why for c in retry(again(ledger), [job_id], "ann")] == ["it is queued, not over"]
    with driver(again(ledger)) as one, working(ledger, tmp_path):
        finished(one)
    assert counts(ledger, t.job.c.state) == {"done": 2}
    assert [c.why for c in retry(again(ledger), [job_id], "ann")] == ["it is done, and its answer stands"]


def test_what_gave_up_is_tried_again_under_a_reservation_of_its_own(ledger: Ledger, tmp_path: Path) -> None:
    smiles = molecules(2)
    limits, settings = "{wall_seconds: 1}", f"{{hang_at: {smiles[1]}, declared: 5}}"
    built = written(ledger, tmp_path, smiles, settings=settings, limits=limits)
    with Driver(built) as one:
        finished(one)
    assert counts(ledger, t.job.c.state) == {"done": 1, "failed": 1}
    with ledger.read() as connection:
        job_id = connection.execute(sa.select(t.job.c.id).where(t.job.c.state == "failed")).scalar_one()
    (changed,) = retry(again(ledger), [job_id], "ann", named=False)
    assert changed.done == "queued"
    with Driver(again(ledger)) as one:
        finished(one)
    with ledger.read() as connection:
        row = connection.execute(sa.select(t.job).where(t.job.c.id == job_id)).mappings().one()
        assert (row["state"], row["attempts"], row["outcome"]) == ("failed", 2, "timeout")
        held = sa.select(t.reservation.c.resource).where(t.reservation.c.job_id == job_id)
        assert len(connection.execute(held).all()) == 2
        assert reservations_and_bookings.reserved(connection, built.row.id) == {}


def test_a_cancelled_job_whose_driver_died_is_not_run_again(ledger: Ledger, tmp_path: Path) -> None:
    smiles = molecules(2)
    built = written(ledger, tmp_path, smiles, settings=f"{{hang_at: {smiles[0]}, declared: 5}}")
    with Driver(built) as one:
        until(lambda: one.step() or (processes(SLEEPS) and counts(ledger, t.job.c.state).get("done") == 1))
        (job_id,) = running(ledger)
        cancel(built, [job_id], "ann")
        _die(one, built)
    with Driver(again(ledger)) as one:
        assert finished(one) == "finished"
    assert counts(ledger, t.job.c.state) == {"cancelled": 1, "done": 1}
    assert counts(ledger, t.campaign_candidate.c.standing) == {"held": 1, "settled": 1}


def _die(one: Driver, built: Built) -> None:
    """Nobody says goodbye."""
    one.heart._stop.set()
    one.heart.lost.set()
    one.intake.source.close()
    one.worker.close()
    one.session.crews[0].pool.close()
    with built.ledger.begin() as connection:
        connection.execute(sa.update(t.campaign).values(driver=None, driver_until=None))
