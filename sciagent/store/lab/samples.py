"""Samples: vials of a candidate, each with a code."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.lab_messages_and_codes import new_code
from sciagent.errors import UsageError
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.database.table_building_blocks import String

SOURCES = ("made", "bought", "given")
STATES = ("ok", "empty", "bad")


@dataclass(frozen=True)
class NewSample:
    """A vial that is to be registered."""

    candidate_id: int
    job_id: int
    """Id of the task for which it is registered."""
    form: str
    """Salt form and solvates, such as `free base` or `HCl, 1 H2O`."""
    source: str
    """One of `SOURCES`."""
    who: str
    lot: str | None = None
    amount: float | None = None
    amount_unit: str | None = None
    purity: float | None = None
    """Mass fraction, from 0 to 1."""
    purity_how: str | None = None
    made_by: str | None = None
    made_on: date | None = None
    place: str | None = None
    parent_id: int | None = None
    """Id of the sample that it was taken from."""


@dataclass(frozen=True)
class Vial(NewSample):
    """A registered vial."""

    id: int = 0
    code: str = ""
    state: str = "ok"
    created_at: datetime | None = None


TEXTS = {
    "form": "form",
    "lot": "batch",
    "purity_how": "method of the purity",
    "made_by": "name of who made it",
    "place": "place",
}
"""{column: words} for what a person writes about a vial."""


def check_lengths(new: NewSample) -> None:
    """Raises UsageError for a text that is longer than its column, which SQLite would keep and PostgreSQL would not."""
    for column, words in TEXTS.items():
        text = getattr(new, column) or ""
        column_type = t.sample.c[column].type
        assert isinstance(column_type, String)
        if len(text) > column_type.length:
            raise UsageError(f"the {words} has {len(text):,} characters; {column_type.length} are the most")


def register(connection: Connection, new: NewSample) -> Vial:
    """Register a sample under a new code."""
    values = {**vars(new), "code": new_code(), "state": "ok", "created_at": db_now(connection)}
    row = connection.execute(sa.insert(t.sample).values(**values).returning(t.sample)).one()
    return Vial(**row._mapping)


def find(connection: Connection, code: str) -> Vial | None:
    """The sample with this code; None if there is none."""
    row = connection.execute(sa.select(t.sample).where(t.sample.c.code == code)).first()
    return None if row is None else Vial(**row._mapping)


def by_id(connection: Connection, sample_id: int) -> Vial:
    """The sample with an id that a row of the ledger names."""
    row = connection.execute(sa.select(t.sample).where(t.sample.c.id == sample_id)).one()
    return Vial(**row._mapping)


def of_candidate(connection: Connection, candidate_id: int, limit: int = 100) -> list[Vial]:
    """Samples of a candidate, the newest first."""
    query = (
        sa.select(t.sample).where(t.sample.c.candidate_id == candidate_id).order_by(t.sample.c.id.desc()).limit(limit)
    )
    return [Vial(**row._mapping) for row in connection.execute(query)]


def alerts(connection: Connection, candidate_id: int, screen: str) -> tuple[str, ...]:
    """The names of the safety rules that a candidate matches according to the verifier `screen`, also of rules that a
    campaign allows. The tuple is empty, too, if `screen` has not checked the candidate."""
    e = t.current_evidence.c
    query = sa.select(e.diagnostics).where(e.candidate_id == candidate_id, e.verifier == screen)
    rules = []
    for diagnostics in connection.execute(query).scalars():
        rules.extend(diagnostics.get("rules", ()))
    return tuple(dict.fromkeys(rules))  # each name once


def set_state(connection: Connection, sample_id: int, state: str) -> None:
    """Write that a sample is `ok`, `empty` or `bad`."""
    connection.execute(sa.update(t.sample).where(t.sample.c.id == sample_id).values(state=state))
