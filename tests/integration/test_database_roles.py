"""A campaign whose web server, worker and dispatcher have logins of their own, and what forgers can do with them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from psycopg.errors import CheckViolation, InsufficientPrivilege
from sqlalchemy.engine import Connection, make_url

from sciagent.campaign.core.create_and_open import create_or_open, open_campaign_for_people, open_stored
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.errors import LedgerError
from sciagent.store.database import migrate_and_back_up, roles
from sciagent.store.database.engine import connect, ledger_url
from sciagent.store.database.evidence_secret import FILE_VARIABLE, SealingKeys
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import evidence, evidence_seals
from sciagent.store.views import check_evidence
from sciagent.store.views.check_evidence import EvidenceCheck
from tests.lab.pages.test_task_pages import answered
from tests.lab.test_record_answers import task_ids
from tests.store.views.test_check_evidence import forge, newest
from tests.support.elsewhere import driven, working
from tests.support.served_pages import Server, every_page

CAMPAIGN = """
campaign: guarded
subject: molecule
objectives: [{property: homo_lumo_gap, window: [4.0, 4.6], unit: eV}]
ladder:
  - {rung: checks, verifier: molecule.checks}
  - {rung: remote, verifier: bad.remote, limits: {wall_seconds: 60}}
  - rung: lab
    verifier: lab.measurement
    settings: {quantities: [homo_lumo_gap], method: UV-vis onset}
    lab: {ahead: 1}
terminal: lab
goal: {kind: hits, count: 1}
budget: {lab_slots: 9, core_seconds: 1000}
proposer: {kind: screen, file: molecules.csv}
scheduler: {kind: exhaustive}
workers: 1
"""


@dataclass
class Site:
    """A ledger as each kind of process sees it, with a finished campaign."""

    web: Ledger
    worker: Ledger
    dispatcher: Ledger
    owner: sa.Engine
    """The login that owns the tables."""

    def checked(self) -> EvidenceCheck:
        with self.worker.read() as connection:
            return check_evidence.check(connection, self.worker.secret.known_keys())


@pytest.fixture(scope="module")
def site(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("guarded")
    mark = uuid.uuid4().hex[:8]
    names = {kind: f"{kind}_{mark}" for kind in ("web", "worker", "dispatcher")}
    plain = make_url(postgres).set(drivername="postgresql").render_as_string(hide_password=False)
    database = f"guarded_{mark}"
    with psycopg.connect(plain, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {database}")
    own = connect(ledger_url(make_url(postgres).set(database=database).render_as_string(hide_password=False)))
    migrate_and_back_up.upgrade(own)
    with own.begin() as connection:
        connection.connection.driver_connection.execute("\n".join(roles.statements(names)))  # type: ignore[union-attr]
        for name in names.values():
            connection.exec_driver_sql(f"CREATE ROLE {name}_1 LOGIN IN ROLE {name}")
    opened = {}
    with pytest.MonkeyPatch.context() as patch:
        for kind, name in names.items():
            patch.setenv(FILE_VARIABLE, str(folder / "not for it") if kind == "web" else "")
            url = own.url.set(username=f"{name}_1").render_as_string(hide_password=False)
            opened[kind] = Ledger(url, artifacts=folder / "artifacts")
    made = Site(**opened, owner=own)
    try:
        yield _run(made, folder)
    finally:
        for ledger in opened.values():
            ledger.close()
        own.dispose()
        with psycopg.connect(plain, autocommit=True) as admin:
            admin.execute(f"DROP DATABASE {database} WITH (FORCE)")
            for name in names.values():
                admin.execute(f"DROP ROLE {name}_1")
                admin.execute(f"DROP ROLE {name}")


def _run(site: Site, folder: Path) -> Site:
    """A dispatcher and a worker run a campaign up to the laboratory, a person answers in the browser, and it ends."""
    (folder / "molecules.csv").write_text("smiles\nOc1ccccc1\nCCO\n", encoding="utf-8")
    with working(site.worker, folder, slots=1):
        built = create_or_open(site.dispatcher, parse_spec(CAMPAIGN, base=folder), CAMPAIGN, "test").built
        assert driven(built, seconds=30) == "waiting"
        seen_by_web = open_campaign_for_people(site.web, "guarded")
        server = Server(seen_by_web, every_page(site.web))
        first = task_ids(seen_by_web)[0]
        anna = server.person("anna")
        assert anna.post(f"/tasks/{first}/claim").status_code == 303
        reply = anna.post(f"/tasks/{first}/enter", answered("4.310"))
        assert reply.status_code == 303, reply.text
        assert driven(open_stored(site.dispatcher, "guarded", "test").built) == "finished"
    return site


def refused(ledger: Ledger, *statements: str) -> None:
    for statement in statements:
        with pytest.raises(sa.exc.ProgrammingError) as error, ledger.begin() as connection:
            connection.exec_driver_sql(statement)
        assert isinstance(error.value.orig, InsufficientPrivilege), statement


def found(connection: Connection, keys: SealingKeys | None, forged: int) -> str:
    """What a check says of forged evidence, in the transaction that wrote it."""
    checked = check_evidence.check(connection, keys)
    [fault] = [each for each in checked.first_faults if f"evidence {forged} of" in each]
    return fault


def test_each_process_needs_no_more_than_its_role(site: Site) -> None:
    checked = site.checked()
    assert (checked.faults, checked.unchecked, checked.of_people) == (0, 0, 1), checked.first_faults
    assert checked.sealed >= 4 and not site.web.secret.is_held
    change = "UPDATE evidence SET outcome = 'ok'"
    for ledger in (site.web, site.worker, site.dispatcher):
        refused(
            ledger, change, "UPDATE quantity SET value = 1", "DELETE FROM evidence", "TRUNCATE quantity",
            "DROP TRIGGER evidence_append_only ON evidence", "ALTER TABLE evidence DISABLE TRIGGER ALL",
            "CREATE TABLE mine (id int)", "UPDATE submission SET who = 'eve'", "UPDATE audit_entry SET who = 'eve'",
            "SET session_replication_role = replica",
        )  # fmt: skip


def test_evidence_that_is_forged_with_the_web_role_is_found(site: Site) -> None:
    """The role may write evidence, since people's answers are evidence; nobody answers for this one."""
    refused(site.web, "UPDATE job SET rung_id = 1", "INSERT INTO rung (name) VALUES ('x')")
    with site.web.engine.connect() as connection, connection.begin() as transaction:
        for verifier in ("lab.measurement", "bad.remote"):
            forged = forge(connection, newest(connection, verifier), 9.99, source="task 1", who="anna")
            assert "no act in the audit trail answers for it" in found(connection, site.worker.secret.keys(), forged)
        transaction.rollback()


def test_evidence_that_is_forged_with_the_role_of_a_worker_is_found(site: Site) -> None:
    """A worker may enter no answer of people, in no name."""
    refused(
        site.worker,
        "INSERT INTO submission (key) VALUES ('x')",
        "INSERT INTO audit_entry (who) VALUES ('anna')",
        "SELECT password_hash FROM person",
    )
    with site.worker.engine.connect() as connection, connection.begin() as transaction:
        forged = forge(connection, newest(connection, "lab.measurement"), 9.99, source="task 1", who="anna")
        assert "no act in the audit trail answers for it" in found(connection, site.worker.secret.keys(), forged)
        transaction.rollback()


@pytest.mark.parametrize("kind", ["web", "worker"])
@pytest.mark.parametrize("verifier", ["lab.measurement", "bad.remote"])
@pytest.mark.parametrize("watermark", [0, -501, 10**15])
def test_evidence_at_a_watermark_of_the_forgers_choice_is_refused_or_found(
    site: Site, kind: str, verifier: str, watermark: int
) -> None:
    """The database refuses one below 1; without the constraint the check finds it all the same."""
    login = getattr(site, kind).engine.url.username
    if watermark < 1:
        with pytest.raises(sa.exc.IntegrityError) as error, getattr(site, kind).begin() as connection:
            forge(connection, newest(connection, verifier), 9.99, source="task 1", who="anna", watermark=watermark)
        assert isinstance(error.value.orig, CheckViolation)
    with site.owner.connect() as connection, connection.begin() as transaction:
        connection.exec_driver_sql("ALTER TABLE evidence DROP CONSTRAINT ck_evidence_watermark")
        connection.exec_driver_sql(f"SET LOCAL ROLE {login}")
        real = newest(connection, verifier)
        forged = forge(connection, real, 9.99, source="task 1", who="anna", watermark=watermark)
        checked = check_evidence.check(connection, site.worker.secret.keys())
        assert checked.faults == 2, checked.first_faults
        assert f"evidence {forged}: the ledger gave no watermark {watermark} (1 to " in checked.first_faults[0]
        assert f"evidence {forged} of {verifier} (task 1, anna): it has no seal" in checked.first_faults[1]
        transaction.rollback()
    assert site.checked().faults == 0


def test_evidence_that_is_sealed_without_the_key_is_found_and_not_used(site: Site) -> None:
    """The forger knows the formula, and what a seal looks like, but has another secret."""
    keys = site.worker.secret.keys()
    mine = SealingKeys(keys.first, {keys.first: b"\1" * 32})
    with site.web.engine.connect() as connection, connection.begin() as transaction:
        real = newest(connection, "bad.remote")
        forged = forge(connection, real, 9.99, seal=f"{keys.first}:{'0' * 64}")
        row = evidence_seals.evidence_after(connection, evidence.read_watermark(connection) - 1)[-1]
        assert row.id == forged and row.has_own_key
        assert "does not fit what it says" in found(connection, keys, forged)
        assert not keys.fits(mine.seal(row.content.text), row.content.text)
        held = connection.execution_options(evidence_secret=site.worker.secret)
        evidence_seals.refuse_forged(held, [real])
        with pytest.raises(LedgerError, match=f"evidence {forged} of bad.remote is not used"):
            evidence_seals.refuse_forged(held, [real, forged])
        transaction.rollback()
