"""A driver whose connection to PostgreSQL is lost goes on, and leaves no lease behind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import event

from sciagent.api.campaign import Campaign
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger

FAST = """
campaign: {name}
subject: molecule
seed: 1
objectives: [{{property: sa_score, max: 9}}]
ladder: [{{rung: checks, verifier: molecule.checks}}]
goal: {{kind: hits}}
budget: {{proposals: 2}}
proposer: {{kind: screen, file: molecules.csv, batch: 1}}
"""
LEASE_READ = "SELECT campaign.name, campaign.driver"
LEASE_WRITTEN = "driver_fence=(campaign.driver_fence +"
LEASE_RENEWED = "wall_seconds=(campaign.wall_seconds"
LEASE_GIVEN_BACK = "BIGINT AND campaign.driver ="
STATEMENTS = (LEASE_READ, LEASE_WRITTEN, LEASE_RENEWED, LEASE_GIVEN_BACK)


@pytest.fixture(scope="module")
def ledger(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    from sciagent.store.database import engine, migrate_and_back_up
    from tests.support.servers.postgres import fresh_database

    with fresh_database(postgres) as url:
        made = engine.connect(engine.ledger_url(url))
        migrate_and_back_up.upgrade(made)
        made.dispose()
        opened = Ledger(url, artifacts=tmp_path_factory.mktemp("artifacts"))
        yield opened
        opened.close()


class Cutter:
    """Ends the server's side of a connection, once, when it is to run a certain statement or the commit after it."""

    def __init__(self, ledger: Ledger, statement: str, at_commit: bool) -> None:
        self.statement = statement
        self.at_commit = at_commit
        self.cuts = 0
        self._engine = ledger.engine
        self._armed: Any = None
        self._url = ledger.url.set(drivername="postgresql").render_as_string(hide_password=False)

    def __enter__(self) -> Cutter:
        event.listen(self._engine, "before_cursor_execute", self._before)
        event.listen(self._engine, "commit", self._commit)
        return self

    def __exit__(self, *error: object) -> None:
        event.remove(self._engine, "before_cursor_execute", self._before)
        event.remove(self._engine, "commit", self._commit)

    def _before(self, connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if self.cuts or self.statement not in " ".join(statement.split()):
            return
        if self.at_commit:
            self._armed = connection
        else:
            self._cut(connection)

    def _commit(self, connection: Any) -> None:
        if self._armed is connection and not self.cuts:
            self._cut(connection)

    def _cut(self, connection: Any) -> None:
        self.cuts += 1
        pid = connection.connection.dbapi_connection.info.backend_pid
        with psycopg.connect(self._url, autocommit=True) as administrator:
            administrator.execute("SELECT pg_terminate_backend(%s, 2000)", (pid,))


@pytest.mark.parametrize("at_commit", [False, True], ids=["statement", "commit"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_connection_that_is_lost_while_a_driver_works_ends_nothing(
    statement: str, at_commit: bool, ledger: Ledger, tmp_path: Path
) -> None:
    name = f"cut{STATEMENTS.index(statement)}{at_commit:d}"
    (tmp_path / "molecules.csv").write_text("smiles\nC\nCC\n")
    (file := tmp_path / "fast.yaml").write_text(FAST.format(name=name))
    campaign = Campaign.from_yaml(file, ledger)
    with Cutter(ledger, statement, at_commit) as cutter:
        status = campaign.run(progress=False)
    assert (cutter.cuts, status.state, status.hits) == (1, "finished", 2)
    with ledger.read() as connection:
        row = campaigns.get(connection, name)
        c = t.campaign.c
        assert connection.execute(sa.select(c.driver).where(c.id == row.id)).scalar_one() is None
        p = t.proposal.c
        n_proposals = sa.select(sa.func.count()).where(p.campaign_id == row.id)
        assert connection.execute(n_proposals).scalar_one() == 2


def test_a_step_whose_connection_is_lost_while_it_takes_the_lease_leaves_none(ledger: Ledger, tmp_path: Path) -> None:
    from sciagent.errors import LedgerAwayError

    (tmp_path / "molecules.csv").write_text("smiles\nC\nCC\n")
    (file := tmp_path / "fast.yaml").write_text(FAST.format(name="stepped"))
    campaign = Campaign.from_yaml(file, ledger)
    with Cutter(ledger, LEASE_WRITTEN, at_commit=True), pytest.raises(LedgerAwayError):
        campaign.step()
    deadline = time.monotonic() + 60
    while campaign.step() not in ("finished", "budget_spent"):
        assert time.monotonic() < deadline
    assert campaign.status().hits == 2
