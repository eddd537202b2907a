"""Jobs that remote workers run, as their driver sees them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.domain.states_and_needs import Verb
from sciagent.store.campaign_state import directives
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import campaign_counts_and_remarks
from tests.support.elsewhere import again, counts, driven, driver, molecules, processes, until, whole, working, written


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_driver_that_comes_back_takes_in_what_was_done_meanwhile(ledger: Ledger, tmp_path: Path) -> None:
    built = written(ledger, tmp_path, molecules(6), settings="{seconds: 0.2, declared: 5}")
    with driver(built) as first:
        until(lambda: first.step() or counts(ledger, t.job.c.state).get("queued", 0) >= 1)
        first.abort()
        while first.step() is None:
            pass
    assert counts(ledger, t.job.c.queue, t.job.c.queue.is_not(None)) == {}  # nothing more is to be started
    with working(ledger, tmp_path):
        with driver(again(ledger)) as second:
            until(lambda: second.step() or counts(ledger, t.job.c.state).get("running", 0) >= 1)
            # killed: nobody says goodbye
            second.heart._stop.set()
            second.intake.source.close()
            second.worker.close()
            second.session.crews[0].close()
            with ledger.begin() as connection:
                connection.execute(sa.update(t.campaign).values(driver=None, driver_until=None))
            until(lambda: counts(ledger, t.job.c.state).get("done", 0) >= 1)
            second.heart.lost.set()
        assert driven(again(ledger)) == "finished"
    whole(ledger, 6)
    with ledger.read() as connection:
        assert connection.execute(sa.select(sa.func.max(t.job.c.attempts))).scalar_one() == 1


def test_who_stops_a_campaign_now_ends_what_runs_elsewhere_and_it_waits(ledger: Ledger, tmp_path: Path) -> None:
    smiles = molecules(4)
    built = written(ledger, tmp_path, smiles, settings=f"{{hang_at: {smiles[0]}, declared: 5}}")
    with working(ledger, tmp_path, slots=1), driver(built) as one:
        until(lambda: one.step() or processes("import time; time.sleep(1000)"))
        with ledger.begin() as connection:
            directives.write(connection, built.row.id, Verb.STOP, "ann", "", payload={"now": True})
        began = time.monotonic()
        until(lambda: one.step() is not None)
        until(lambda: not processes("import time; time.sleep(1000)"), 10)
        took = time.monotonic() - began
    assert took < 3.0
    states = counts(ledger, t.job.c.state)
    assert states.pop("queued") >= 1 and not states.keys() - {"done"}
    assert counts(ledger, t.job.c.queue, t.job.c.state == "queued") == {"None": counts(ledger, t.job.c.state)["queued"]}
    with ledger.read() as connection:
        query = sa.select(t.attempt.c.state, t.attempt.c.cost, t.job.c.kills, t.job.c.losses)
        query = query.join(t.job, t.job.c.id == t.attempt.c.job_id).where(t.job.c.state == "queued")
        (attempt,) = connection.execute(query).all()
        spent = campaign_counts_and_remarks.spent(connection, built.row.id)["core_seconds"]
    assert (attempt.state, attempt.kills, attempt.losses) == ("cancelled", 0, 0)
    assert attempt.cost["core_seconds"] > 0 and spent >= attempt.cost["core_seconds"]


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("resources", "wall_seconds"), [("{}", 8.0), ("{cores: 4}", 2.0)])
def test_a_job_is_offered_with_its_wall_time_whatever_cores_it_holds(
    ledger: Ledger, tmp_path: Path, resources: str, wall_seconds: float
) -> None:
    built = written(ledger, tmp_path, molecules(1), settings="{declared: 8}", resources=resources)
    with driver(built) as stepped:
        until(lambda: stepped.step() or counts(ledger, t.job.c.state).get("queued", 0) == 1)
        with ledger.read() as connection:
            assert connection.execute(sa.select(t.job.c.seconds)).scalar_one() == pytest.approx(wall_seconds)
        stepped.abort()
        while stepped.step() is None:
            pass
