"""Campaigns, and the lease that lets one driver step one campaign."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from sciagent.domain.states_and_needs import CampaignState
from sciagent.errors import CampaignError, StaleLeaseError, UnknownNameError
from sciagent.store.campaign_state import campaigns
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from tests.support import rows


@pytest.fixture
def row(ledger: Ledger) -> CampaignRow:
    with ledger.begin() as connection:
        return rows.campaign(connection, "dyes", rungs=3)


def take(ledger: Ledger, row: CampaignRow, owner: str, seconds: float = 60.0) -> campaigns.DriverLease:
    with ledger.begin() as connection:
        return campaigns.take_driver(connection, row.id, owner, seconds)


def elsewhere(name: str) -> str:
    """An owner on another machine: nobody here can say whether it lives."""
    return f"not-{socket.gethostname()}:1:0.00:{name}"


def test_a_campaign_is_read_back_with_its_ladder(ledger: Ledger, row: CampaignRow) -> None:
    with ledger.read() as connection:
        assert campaigns.get(connection, "dyes") == row
        assert [(r.position, r.name) for r in campaigns.rungs(connection, row.id)] == [(0, "r0"), (1, "r1"), (2, "r2")]
        assert campaigns.names(connection) == ["dyes"]
        with pytest.raises(UnknownNameError, match='did you mean "dyes"'):
            campaigns.get(connection, "dye")
    assert (row.state, row.wall_seconds, row.stop_reason) == (CampaignState.CREATED, 0.0, None)


def test_a_name_is_given_once(ledger: Ledger, row: CampaignRow) -> None:
    with pytest.raises(sa.exc.IntegrityError), ledger.begin() as connection:
        rows.campaign(connection, "dyes")


def test_an_amendment_is_logged(ledger: Ledger, row: CampaignRow) -> None:
    with ledger.begin() as connection:
        changes = [("budget.core_seconds", 100, 200), ("stop", None, {"hits": 3})]
        campaigns.amend(
            connection,
            row,
            spec={"budget": {"core_seconds": 200}},
            spec_hash="d" * 64,
            source="new",
            base="/x",
            changes=changes,
            who="Ada",
            why="more hits",
        )
        found = campaigns.get(connection, "dyes")
        c = t.campaign_amendment.c
        log = connection.execute(sa.select(c.path, c.old, c.new, c.who, c.why).order_by(c.id)).all()
    assert (found.spec["budget"], found.identity_hash) == ({"core_seconds": 200}, row.identity_hash)
    assert [tuple(r) for r in log] == [(p, old, new, "Ada", "more hits") for p, old, new in changes]


def test_states_follow_the_table(ledger: Ledger, row: CampaignRow) -> None:
    with ledger.begin() as connection:
        with pytest.raises(ValueError, match="created → finished"):
            campaigns.set_state(connection, row.id, CampaignState.FINISHED)
        campaigns.set_state(connection, row.id, CampaignState.RUNNING)
        campaigns.set_state(connection, row.id, CampaignState.FINISHED, "3 hits")
        assert campaigns.get(connection, "dyes").stop_reason == "3 hits"
        campaigns.set_state(connection, row.id, CampaignState.RUNNING)
        assert campaigns.get(connection, "dyes").stop_reason is None


def test_a_second_driver_is_refused_while_the_first_lives(ledger: Ledger, row: CampaignRow) -> None:
    lease = take(ledger, row, campaigns.new_owner())
    with pytest.raises(CampaignError, match='"dyes" is being driven by'):
        take(ledger, row, elsewhere("b"))
    with ledger.begin() as connection:
        campaigns.release_driver(connection, lease.campaign_id, lease.owner)
    assert take(ledger, row, elsewhere("b")).fence == lease.fence + 1


def test_a_dead_driver_is_replaced_at_once(ledger: Ledger, row: CampaignRow) -> None:
    code = "from sciagent.store.campaign_state.campaigns import new_owner; print(new_owner(), flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdin is not None
    owner = process.stdout.readline().strip()
    take(ledger, row, owner, seconds=3600)
    with pytest.raises(CampaignError):
        take(ledger, row, campaigns.new_owner())
    os.kill(process.pid, signal.SIGKILL)
    try:  # a zombie is as dead as one that was waited for
        import psutil

        while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
            pass
        assert campaigns.owner_is_dead(owner)
    finally:
        process.communicate()
    assert campaigns.owner_is_dead(owner)
    assert take(ledger, row, campaigns.new_owner()).fence == 2


def test_who_is_dead_is_said_only_for_certain() -> None:
    me = campaigns.new_owner()
    host, pid, started, random = me.rsplit(":", 3)
    assert not campaigns.owner_is_dead(me)
    assert not campaigns.owner_is_dead(elsewhere("x"))
    assert not campaigns.owner_is_dead("rubbish")
    assert not campaigns.owner_is_dead(f"{host}:no:number:x")
    assert campaigns.owner_is_dead(f"{host}:{pid}:{float(started) - 100:.2f}:{random}")  # the number went to another


def test_a_lease_that_ran_out_is_taken_over_and_its_holder_writes_nothing_more(
    ledger: Ledger, row: CampaignRow
) -> None:
    old = take(ledger, row, elsewhere("a"), seconds=-1)
    new = take(ledger, row, elsewhere("b"))
    for write in (campaigns.renew_driver, campaigns.check_driver):
        with pytest.raises(StaleLeaseError), ledger.begin() as connection:
            campaigns.log_event(connection, row.id, "too late", {})
            write(connection, old)
    with ledger.begin() as connection:
        campaigns.release_driver(connection, old.campaign_id, old.owner)  # changes nothing
        campaigns.check_driver(connection, new)
        campaigns.renew_driver(connection, new, wall_seconds=2.5)
        campaigns.renew_driver(connection, new, wall_seconds=1.5)
        stored = connection.execute(sa.select(t.campaign)).mappings().one()
        assert stored["driver"] == new.owner and stored["wall_seconds"] == 4.0
        left = (stored["driver_until"] - db_now(connection)).total_seconds()
        assert campaigns.DRIVER_LEASE_SECONDS - 10 < left <= campaigns.DRIVER_LEASE_SECONDS
        assert connection.execute(sa.select(sa.func.count()).select_from(t.event)).scalar() == 0


def test_of_many_drivers_at_once_one_wins(ledger: Ledger, ledger_url: str, row: CampaignRow) -> None:
    start = threading.Barrier(6)

    def try_it(number: int) -> bool:
        own = Ledger(ledger_url)
        start.wait()
        try:
            take(own, row, elsewhere(str(number)))
            return True
        except CampaignError:
            return False
        finally:
            own.close()

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(try_it, range(6))) == 1
