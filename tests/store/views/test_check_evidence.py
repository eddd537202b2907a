"""All evidence is checked: seals of what was computed, acts of people for the rest. What was forged is named."""

from __future__ import annotations

import sqlite3
from contextlib import closing
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
    for table in ("evidence", "quantity", "audit_entry", "submission"):
        for verb in ("update", "delete"):
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {table}_no_{verb}")


def forge(connection: Connection, of: int, value: float, **columns: object) -> int:
    """Writes a revision of evidence as somebody does who knows the tables; returns its id."""
    names = [c.name for c in t.evidence.columns if c.name not in ("id", *columns)]
    given: dict[str, object] = {"supersedes_id": of, "seal": None, **columns}
    if "watermark" not in given:
        given["watermark"] = evidence.next_watermark(connection)
    old = connection.execute(sa.select(t.evidence).where(t.evidence.c.id == of)).one()
    given.setdefault("revision", old.revision + 1)
    row = {**{name: getattr(old, name) for name in names}, **given}
    of_candidate = t.candidate.c.id == row["candidate_id"]
    subject = connection.execute(sa.select(t.candidate.c.key).where(of_candidate)).scalar_one()
    key_columns = ("verifier", "verifier_version", "settings_hash", "inputs_hash", "replicate", "revision")
    row["key"] = evidence.EvidenceKey(subject, *(row[name] for name in key_columns)).hash
    id_ = connection.execute(sa.insert(t.evidence).values(row).returning(t.evidence.c.id)).scalar_one()
    for quantity in connection.execute(sa.select(t.quantity).where(t.quantity.c.evidence_id == of)).mappings().all():
        values = {**quantity, "evidence_id": id_, "value": value}
        del values["id"]
        connection.execute(sa.insert(t.quantity).values(values))
    return int(id_)


def seal(connection: Connection, evidence_id: int) -> None:
    """Seals forged evidence as somebody does who has the secret."""
    without_triggers(connection)
    e = t.evidence.c
    at = connection.execute(sa.select(e.watermark).where(e.id == evidence_id)).scalar_one()
    [row] = evidence_seals.evidence_after(connection, at - 1)
    value = secret_of(connection).keys().seal(row.content.text)
    connection.execute(sa.update(t.evidence).where(e.id == evidence_id).values(seal=value))


def answer_for(connection: Connection, evidence_id: int) -> None:
    """Appends an entry of the audit trail that answers for forged evidence as an import."""
    at = connection.execute(sa.select(t.evidence.c.watermark).where(t.evidence.c.id == evidence_id)).scalar_one()
    audit.append(connection, "eve", "imported", "evidence", **evidence_seals.answered_for(connection, at, at))


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
    assert found.first_faults == [
        "evidence 9000: it stands after evidence 10000; ids ascend with the watermarks",
        "evidence 9000 of import: it supersedes evidence 10000, which is not older",
    ]


@on_sqlite
def test_a_proper_seal_on_the_answer_of_a_person_is_found(answered: Built) -> None:
    """A worker's login with the secret writes a revision of a measurement as if it were computed."""
    with answered.ledger.begin() as connection:
        forged = forge(connection, newest(connection, "lab.measurement"), 9.99, source="computed")
        seal(connection, forged)
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
        ("UPDATE level SET label = 'CCSD(T)/CBS, gas'", "the level CCSD(T)/CBS, gas was changed: by its fields it is"),
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


def edit(ledger: Ledger, statement: str) -> None:
    """Changes the file of a ledger by hand, without foreign keys and triggers."""
    with ledger.begin() as connection:
        without_triggers(connection)
        e = t.evidence.c
        ids = {"checks": newest(connection, "molecule.checks")}
        for name, verifier in (("lab", "lab.measurement"), ("file", "import")):
            found = connection.execute(sa.select(e.id).where(e.verifier == verifier).order_by(e.id)).scalars().all()
            ids |= {f"{name}_{place}": id_ for place, id_ in enumerate(found)}
        entries = connection.execute(sa.select(sa.func.max(t.audit_entry.c.id))).scalar_one()
        file = connection.engine.url.database
        sql = statement.format(**ids, entry=entries)
    assert file is not None
    with closing(sqlite3.connect(file)) as opened:
        opened.executescript(f"PRAGMA ignore_check_constraints = ON; {sql};")


LINK = "UPDATE evidence SET supersedes_id = "


@on_sqlite
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (LINK + "{lab_1} WHERE id = {checks}", "molecule.checks: its seal does not fit what it says"),
        (LINK + "NULL WHERE id = {lab_1}", "lab.measurement: it is revision 1 and supersedes no evidence"),
        (LINK + "NULL WHERE id = {lab_1}", "(anna corrected): its evidence was changed"),
        (LINK + "{checks} WHERE id = {lab_1}", "but one of them is computed and people answer for the other"),
        (LINK + "{file_1} WHERE id = {file_2}", "which is of another candidate, computation or replicate"),
        (LINK + "{lab_1} WHERE id = {lab_1}", "which is not older"),
        (LINK + "12345 WHERE id = {lab_1}", "it supersedes evidence 12345, which is not in the ledger"),
        (LINK + "{lab_1} WHERE id = {file_1}", "but a first revision supersedes none"),
    ],
)
def test_a_link_to_superseded_evidence_that_was_edited_by_hand_is_found(
    answered: Built, statement: str, words: str
) -> None:
    edit(answered.ledger, statement)
    assert words in " ".join(checked(answered.ledger).first_faults)


@on_sqlite
def test_a_link_that_hides_evidence_is_found_although_the_row_is_sealed_or_answered_for(answered: Built) -> None:
    """Forgers with the secret, or with a login that may append acts, add rows that name any other as superseded."""
    with answered.ledger.begin() as connection:
        checks = newest(connection, "molecule.checks")
        e = t.evidence.c
        other = connection.execute(sa.select(e.candidate_id).where(e.id < checks).order_by(e.id)).scalars().first()
        answer = newest(connection, "lab.measurement")
        hides_answer = forge(connection, checks, 1.0, supersedes_id=answer)
        seal(connection, hides_answer)
        hides_check = forge(connection, checks, 1.0, candidate_id=other)
        seal(connection, hides_check)
        value = newest(connection, "import")
        hides_value = forge(connection, value, 9.9, revision=7)
        answer_for(connection, hides_value)
    assert checked(answered.ledger).first_faults == [
        f"evidence {hides_answer} of molecule.checks: it supersedes evidence {answer}, but one of them is computed "
        "and people answer for the other",
        f"evidence {hides_check} of molecule.checks: it supersedes evidence {checks}, which is of another candidate, "
        "computation or replicate",
        f"evidence {hides_value} of import: it supersedes evidence {value}, which is revision 1 and not 6",
    ]


@on_sqlite
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE level SET spec = '5' WHERE id = 1", "level 1 cannot be read: TypeError: "),
        ("UPDATE level SET spec = '{{\"a\": 1}}' WHERE id = 1", "level 1 cannot be read: TypeError: "),
        ("UPDATE level SET spec = 'no JSON' WHERE id = 1", "level 1 cannot be read: JSONDecodeError: "),
        (
            "UPDATE evidence SET unobtained = '5' WHERE id = {lab_0}",
            "evidence {lab_0} cannot be read: AttributeError: ",
        ),
        ("UPDATE evidence SET watermark = 'x' WHERE id = {lab_0}", "its watermark is no whole number"),
        ("UPDATE evidence SET candidate_id = 999 WHERE id = {lab_0}", "LookupError: its candidate is missing"),
        ("UPDATE quantity SET value = 'x' WHERE evidence_id = {lab_0}", "cannot be read: TypeError: "),
        ("UPDATE audit_entry SET payload = '5' WHERE id = {entry}", "TypeError: its payload is no JSON object"),
        ("UPDATE audit_entry SET at = 'infinity' WHERE id = {entry}", "cannot be read: ValueError: "),
    ],
)
def test_a_row_that_cannot_be_read_is_named_and_forged_evidence_beside_it_too(
    answered: Built, statement: str, words: str
) -> None:
    with answered.ledger.begin() as connection:
        lab_0 = newest(connection, "lab.measurement") - 1
        forged = forge(connection, newest(connection, "molecule.checks"), 9.99)
    edit(answered.ledger, statement)
    faults = " ".join(checked(answered.ledger).first_faults)
    assert words.format(lab_0=lab_0) in faults
    assert f"evidence {forged} of molecule.checks" in faults


@on_sqlite
def test_an_act_without_a_rung_answers_for_nothing(answered: Built) -> None:
    with answered.ledger.begin() as connection:
        forged = forge(connection, newest(connection, "lab.measurement"), 9.99)
        at = connection.execute(sa.select(t.evidence.c.watermark).where(t.evidence.c.id == forged)).scalar_one()
        about = evidence_seals.answered_for(connection, at, at)
        audit.append(connection, "eve", "loaded old values", "evidence", **about)
    [fault] = checked(answered.ledger).first_faults
    assert fault.startswith(f"evidence {forged} of lab.measurement: entry ") and "cannot answer for it" in fault


@on_sqlite
@pytest.mark.parametrize("column", ["candidate_id", "settings_hash", "replicate"])
def test_a_submission_does_not_answer_for_evidence_that_its_task_did_not_ask_for(answered: Built, column: str) -> None:
    with answered.ledger.begin() as connection:
        real = newest(connection, "lab.measurement")
        e = t.evidence.c
        others = sa.select(e.candidate_id).where(
            e.candidate_id != sa.select(e.candidate_id).where(e.id == real).scalar_subquery()
        )
        changes = {
            "candidate_id": connection.execute(others).scalars().first(),
            "settings_hash": "f" * 64,
            "replicate": 3,
        }
        forged = forge(connection, real, 9.99, revision=0, supersedes_id=None, **{column: changes[column]})
        watermark = connection.execute(sa.select(e.watermark).where(e.id == forged)).scalar_one()
        s = t.submission
        first = connection.execute(sa.select(s).order_by(s.c.id)).mappings().first()
        assert first is not None
        copied = {**first, "key": "another", "evidence_id": forged}
        del copied["id"]
        id_ = connection.execute(sa.insert(s).values(copied).returning(s.c.id)).scalar_one()
        about = {"submission_sha256": audit.submission_digest(connection, id_)}
        about |= evidence_seals.answered_for(connection, watermark, watermark)
        audit.append(connection, "anna", "entered", "submission", id_, **about)
        assert audit.check(connection).fault is None
    [fault] = checked(answered.ledger).first_faults
    assert fault.startswith(f"evidence {forged} of lab.measurement: entry ") and "cannot answer for it" in fault


def test_a_counter_far_above_all_watermarks_is_found(answered: Built) -> None:
    with answered.ledger.begin() as connection:
        newest_watermark = connection.execute(sa.select(sa.func.max(t.evidence.c.watermark))).scalar_one()
        evidence.next_watermark(connection, 10)
    assert checked(answered.ledger).faults == 0
    with answered.ledger.begin() as connection:
        connection.execute(sa.update(t.watermark).where(t.watermark.c.id == 1).values(value=2**63 - 1))
    [fault] = checked(answered.ledger).first_faults
    assert fault == (
        f"the counter of watermarks is at {2**63 - 1}, far above {newest_watermark}, that of the newest evidence"
    )
