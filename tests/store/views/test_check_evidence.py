"""All evidence is checked: seals of what was computed, acts of people for the rest. What was forged is named."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.people.import_values import import_file
from sciagent.domain.display_units import Column
from sciagent.domain.properties_and_levels import Level
from sciagent.lab import record_answers
from sciagent.store.database import tables as t
from sciagent.store.database.evidence_secret import secret_of
from sciagent.store.database.ledger import Ledger
from sciagent.store.people import audit
from sciagent.store.results import evidence, evidence_seals
from sciagent.store.views import check_evidence
from sciagent.store.views.check_evidence import EvidenceCheck
from tests.lab import conftest as lab
from tests.lab.test_record_answers import entry, task_ids

make = lab.make
on_sqlite = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def imported(ledger: Ledger, folder: Path, text: str, **more: object) -> None:
    (folder / "gaps.csv").write_text(f"smiles,gap\n{text}", encoding="utf-8")
    level = Level("experiment", phase="gas")
    import_file(ledger, folder / "gaps.csv", columns=(Column("gap", "homo_lumo_gap"),), level=level, who="Ada", **more)  # type: ignore[arg-type]


@pytest.fixture
def answered(make: lab.Make, tmp_path: Path) -> Built:
    """Checks of four molecules, an answer with its correction, and imported values with a correction."""
    built = make()
    first = task_ids(built)[0]
    record_answers.enter(built, first, entry("4.31 eV", who="anna"))
    record_answers.enter(built, first, entry("4.35 eV", who="anna", why="read it wrong"))
    imported(built.ledger, tmp_path, "CCO,3.10\nC,12\n")
    imported(built.ledger, tmp_path, "CCO,3.20\nC,12\n", revise="a slip of the pen")
    return built


def checked(ledger: Ledger) -> EvidenceCheck:
    with ledger.read() as connection:
        return check_evidence.check(connection, ledger.secret.known_keys())


def without_triggers(connection: Connection) -> None:
    """Lets the owner of the database change what is append-only."""
    for table in ("evidence", "quantity"):
        for verb in ("update", "delete"):
            connection.exec_driver_sql(f"DROP TRIGGER {table}_no_{verb}")


def forge(connection: Connection, of: int, value: float, **columns: object) -> int:
    """Writes a revision of evidence as somebody does who knows the tables; returns its id."""
    names = [c.name for c in t.evidence.columns if c.name not in ("id", *columns)]
    given: dict[str, object] = {"supersedes_id": of, "seal": None, **columns}
    if "watermark" not in given:
        given["watermark"] = evidence.next_watermark(connection)
    names = [name for name in names if name not in given and name not in ("key", "revision")]
    old = connection.execute(sa.select(t.evidence).where(t.evidence.c.id == of)).one()
    subject = connection.execute(sa.select(t.candidate.c.key).where(t.candidate.c.id == old.candidate_id)).scalar_one()
    key = evidence.EvidenceKey(
        subject, old.verifier, old.verifier_version, old.settings_hash, old.inputs_hash, old.replicate, old.revision + 1
    )
    row = {**{name: getattr(old, name) for name in names}, "key": key.hash, "revision": key.revision, **given}
    id_ = connection.execute(sa.insert(t.evidence).values(row).returning(t.evidence.c.id)).scalar_one()
    for quantity in connection.execute(sa.select(t.quantity).where(t.quantity.c.evidence_id == of)).mappings().all():
        values = {**quantity, "evidence_id": id_, "value": value}
        del values["id"]
        connection.execute(sa.insert(t.quantity).values(values))
    return int(id_)


def newest(connection: Connection, verifier: str) -> int:
    e = t.evidence.c
    return int(connection.execute(sa.select(sa.func.max(e.id)).where(e.verifier == verifier)).scalar_one())


def test_what_people_and_machines_wrote_fits(answered: Built) -> None:
    found = checked(answered.ledger)
    assert (found.faults, found.unchecked, found.of_people) == (0, 0, 5), found.first_faults
    assert found.sealed >= 4 and found.rows == found.sealed + found.of_people


@on_sqlite
@pytest.mark.parametrize("verifier", ["lab.measurement", "import", "molecule.checks"])
def test_a_revision_that_nobody_answers_for_is_found(answered: Built, verifier: str) -> None:
    with answered.ledger.begin() as connection:
        forged = forge(connection, newest(connection, verifier), 9.99)
    found = checked(answered.ledger)
    assert found.faults == 1 and f"evidence {forged} of {verifier}" in found.first_faults[0]
    assert "no act in the audit trail answers for it" in found.first_faults[0]


@on_sqlite
@pytest.mark.parametrize("verifier", ["lab.measurement", "molecule.checks"])
@pytest.mark.parametrize("watermark", [0, -501, 10**15])
def test_evidence_at_a_watermark_that_was_never_given_is_found(answered: Built, verifier: str, watermark: int) -> None:
    """Whoever can write the file of a SQLite ledger gets past its constraints, too."""
    with answered.ledger.begin() as connection:
        connection.exec_driver_sql("PRAGMA ignore_check_constraints = ON")
        forged = forge(connection, newest(connection, verifier), 9.99, source="task 1", who="anna", watermark=watermark)
        connection.exec_driver_sql("PRAGMA ignore_check_constraints = OFF")
    found = checked(answered.ledger)
    assert found.faults == 2 and all(f"evidence {forged}" in fault for fault in found.first_faults)
    assert f"the ledger gave no watermark {watermark} (1 to " in found.first_faults[0]
    assert "no act in the audit trail answers for it" in found.first_faults[1]


@on_sqlite
def test_evidence_out_of_the_order_of_ids_is_found(answered: Built) -> None:
    """The act of a person answers for it, but its id is one that the ledger had not given yet."""
    with answered.ledger.begin() as connection:
        first = forge(connection, newest(connection, "import"), 9.99, id=10_000)
        second = forge(connection, first, 9.98, id=9_000)
        watermarks = sa.select(t.evidence.c.watermark).where(t.evidence.c.id.in_([first, second]))
        given = sorted(connection.execute(watermarks).scalars())
        about = evidence_seals.answered_for(connection, given[0], given[1])
        audit.append(connection, "Ada", "imported", "evidence", **about)
    found = checked(answered.ledger)
    assert found.first_faults == ["evidence 9000: it stands after evidence 10000; ids ascend with the watermarks"]


@on_sqlite
def test_a_proper_seal_on_the_answer_of_a_person_is_found(answered: Built) -> None:
    """A worker's login with the secret writes a revision of a measurement as if it were computed."""
    with answered.ledger.begin() as connection:
        without_triggers(connection)
        forged = forge(connection, newest(connection, "lab.measurement"), 9.99, source="computed")
        watermark = sa.select(t.evidence.c.watermark).where(t.evidence.c.id == forged)
        [row] = evidence_seals.evidence_after(connection, connection.execute(watermark).scalar_one() - 1)
        seal = secret_of(connection).keys().seal(row.content.text)
        connection.execute(sa.update(t.evidence).where(t.evidence.c.id == forged).values(seal=seal))
    found = checked(answered.ledger)
    assert found.faults == 1
    assert found.first_faults[0] == (
        f"evidence {forged} of lab.measurement: it is sealed as computed, but people alone answer"
    )


@on_sqlite
@pytest.mark.parametrize("act", ["submission", "imported", "other"])
def test_no_act_answers_for_evidence_that_it_cannot_make(answered: Built, act: str) -> None:
    """The forger appends an entry of the chain, too, with the right hash."""
    with answered.ledger.begin() as connection:
        forged = forge(connection, newest(connection, "molecule.checks"), 0.99, source="task 1", who="anna")
        at = connection.execute(sa.select(t.evidence.c.watermark).where(t.evidence.c.id == forged)).scalar_one()
        about = evidence_seals.answered_for(connection, at, at)
        if act == "submission":
            submitted = connection.execute(sa.select(sa.func.max(t.submission.c.id))).scalar_one()
            audit.append(connection, "anna", "entered", "submission", submitted, **about)
        else:
            audit.append(connection, "anna", act, "evidence", **about)
    found = checked(answered.ledger)
    assert found.faults == 1 and f"evidence {forged} of molecule.checks" in found.first_faults[0]
    assert "cannot answer for it" in found.first_faults[0]


@on_sqlite
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE quantity SET value = 4.4 WHERE evidence_id = {lab}", "(anna corrected): its evidence was changed"),
        ("UPDATE evidence SET outcome = 'failed', reason = 'insoluble' WHERE id = {lab}", "its evidence was changed"),
        ("DELETE FROM quantity WHERE evidence_id = {file}", "(Ada imported): its evidence was changed"),
        ("UPDATE quantity SET n = 9 WHERE evidence_id = {checks}", "molecule.checks: its seal does not fit"),
        ("UPDATE evidence SET seal = '00000000:00' WHERE id = {checks}", "sealed with another secret (00000000)"),
        ("UPDATE evidence SET verifier = 'toy' WHERE id = {checks}", "its key does not fit"),
        ("UPDATE level SET spec = json_set(spec, '$.method', 'CCSD(T)')", "was changed: its fields do not fit"),
    ],
)
def test_a_change_by_the_owner_of_the_database_is_found(answered: Built, change: str, words: str) -> None:
    with answered.ledger.begin() as connection:
        without_triggers(connection)
        names = {"lab": "lab.measurement", "file": "import", "checks": "molecule.checks"}
        ids = {name: newest(connection, verifier) for name, verifier in names.items()}
        connection.exec_driver_sql(change.format(**ids))
    assert words in " ".join(checked(answered.ledger).first_faults)


@on_sqlite
def test_without_the_secret_the_seals_are_not_checked_and_the_rest_is(answered: Built) -> None:
    with answered.ledger.begin() as connection:
        forge(connection, newest(connection, "lab.measurement"), 9.99)
    with answered.ledger.read() as connection:
        pages: list[int] = []
        found = check_evidence.check(connection, None, pages.append)
    assert found.unchecked >= 4 and found.sealed == 0 and found.faults == 1
    assert pages == [found.rows]
