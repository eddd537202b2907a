"""Submissions: what people entered, as they typed it. Evidence is made from them, and they are never changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.people import person_and_access_ids
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.people import audit
from sciagent.store.results.evidence_seals import answered_for

# kinds of a reviewer's submission
REVIEWED = "reviewed"
SENT_BACK = "sent_back"


@dataclass(frozen=True)
class NewSubmission:
    """What a person entered about a task."""

    key: str
    """Made by the sender; a repeated sending has the same key."""
    job_id: int
    fence: int
    """Number of the claim under which the task was answered."""
    kind: str
    """`result`, `not_obtained`, `returned`, `reviewed` or `sent_back`."""
    who: str
    said: Mapping[str, Any]
    """Texts as they were typed."""
    revision: int = 0
    of_id: int | None = None
    """Id of the submission that this one corrects or reviews."""
    sample_id: int | None = None
    files: Sequence[Mapping[str, Any]] = ()
    """Name, sha256, size and media type of each attached file."""
    why: str | None = None
    evidence_id: int | None = None


@dataclass(frozen=True)
class Submission(NewSubmission):
    """A submission in the ledger."""

    person_id: int | None = None
    """The account; None for a submission that was typed at the command line."""
    access_id: int | None = None
    """The session or token with which it was sent; None at the command line."""
    id: int = 0
    at: datetime | None = None


def write(connection: Connection, new: NewSubmission, campaign_id: int, what: str) -> int:
    """Append a submission and its entry of the audit trail, which answers for the submission's evidence; returns its
    id. what: the act, such as `entered`."""
    values = {**vars(new), "said": dict(new.said), "files": [dict(file) for file in new.files], "who": str(new.who)}
    person_id, access_id = person_and_access_ids(new.who)
    values |= {"person_id": person_id, "access_id": access_id, "at": db_now(connection)}
    insert = sa.insert(t.submission).values(**values)
    id_ = int(connection.execute(insert.returning(t.submission.c.id)).scalar_one())
    digest = audit.submission_digest(connection, id_)
    about: dict[str, object] = {"task": new.job_id, "submission_sha256": digest}
    if new.evidence_id is not None:
        watermark = evidence_watermark(connection, new.evidence_id)
        about |= answered_for(connection, watermark, watermark)
    audit.append(connection, new.who, what, object_="submission", object_id=id_, campaign_id=campaign_id, **about)
    return id_


def with_key(connection: Connection, key: str) -> Submission | None:
    """The submission with this key; None if there is none."""
    submissions = _read(connection, t.submission.c.key == key)
    return submissions[0] if submissions else None


def by_id(connection: Connection, submission_id: int) -> Submission:
    """The submission with an id that a row of the ledger names."""
    [found] = _read(connection, t.submission.c.id == submission_id)
    return found


def attached(connection: Connection) -> set[str]:
    """SHA-256 of all files that people attached, read as a stream."""
    query = sa.select(t.submission.c.files).execution_options(yield_per=1000)
    hashes = set[str]()
    for files in connection.execute(query).scalars():
        hashes.update(str(file["sha256"]) for file in files)
    return hashes


def of_job(connection: Connection, job_id: int) -> list[Submission]:
    """All submissions about a task, oldest first."""
    return _read(connection, t.submission.c.job_id == job_id)


def of_evidence(connection: Connection, evidence_id: int) -> Submission | None:
    """The submission that evidence was made from; None for evidence that no person entered."""
    e = t.evidence.c
    a = t.attempt.c
    s = t.submission.c
    # submissions have an index by task, which the attempt of the evidence names
    tasks_of_evidence = sa.select(a.job_id).join(t.evidence, e.attempt_id == a.id).where(e.id == evidence_id)
    found = _read(connection, s.job_id.in_(tasks_of_evidence), s.evidence_id == evidence_id)
    return found[-1] if found else None


def bearing_attempt(connection: Connection, job_id: int) -> int | None:
    """The id of the attempt that bears the cost of a task of which evidence was recorded; None without evidence."""
    e = t.evidence.c
    s = t.submission.c
    query = sa.select(e.attempt_id).join(t.submission, s.evidence_id == e.id).where(s.job_id == job_id)
    attempt_id: int | None = connection.execute(query.order_by(s.id).limit(1)).scalar()
    return attempt_id


def _read(connection: Connection, *where: sa.ColumnElement[bool]) -> list[Submission]:
    rows = connection.execute(sa.select(t.submission).where(*where).order_by(t.submission.c.id))
    return [Submission(**row._mapping) for row in rows]


def evidence_key(connection: Connection, evidence_id: int) -> str:
    """The key of the evidence that was made from a submission."""
    e = t.evidence.c
    return str(connection.execute(sa.select(e.key).where(e.id == evidence_id)).scalar_one())


def evidence_watermark(connection: Connection, evidence_id: int) -> int:
    """The watermark of the evidence that was made from a submission."""
    e = t.evidence.c
    return int(connection.execute(sa.select(e.watermark).where(e.id == evidence_id)).scalar_one())


def attempt_of(connection: Connection, evidence_id: int) -> int | None:
    """The id of the attempt that bore the cost of evidence. Corrected evidence names the attempt of the first."""
    e = t.evidence.c
    attempt_id: int | None = connection.execute(sa.select(e.attempt_id).where(e.id == evidence_id)).scalar_one()
    return attempt_id
