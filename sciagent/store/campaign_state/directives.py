"""Directives in the ledger: what people told a campaign, appended, read by the driver at its next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.directives import Verb, Word, word_of
from sciagent.errors import UsageError
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import CHUNK, among
from sciagent.store.database.clock import db_now

MAX_WHY = 2000
_D = t.directive.c
_NOTHING = Word()  # of nearly all


@dataclass(frozen=True)
class Directive:
    """One row. rung: label of the rung a promotion goes to."""

    id: int
    verb: Verb
    candidate_id: int | None
    rung: str | None
    payload: dict[str, Any]
    who: str
    why: str
    at: datetime


def reason(text: str) -> str:
    """The reason a person gave, in one line. Raises UsageError for none, or one that is too long."""
    said = " ".join(text.split())
    if not said:
        raise UsageError('--reason is empty; say why, such as --reason "too hygroscopic for the glove box"')
    if len(said) > MAX_WHY:
        raise UsageError(f"--reason has {len(said)} characters; {MAX_WHY} are kept")
    return said


def lock(connection: Connection, campaign_id: int) -> None:
    """The campaign's row is ours until the commit, as it is a driver's while it writes: one word at a time. Workers,
    who write rows that name the campaign, do not wait for us."""
    query = sa.select(t.campaign.c.id).where(t.campaign.c.id == campaign_id)
    connection.execute(query.with_for_update(key_share=True))


def write(
    connection: Connection,
    campaign_id: int,
    verb: Verb,
    who: str,
    why: str,
    *,
    candidate_id: int | None = None,
    rung_id: int | None = None,
    payload: Mapping[str, Any] | None = None,
) -> int:
    """Append one; returns its id. Ids of one campaign are visible in their order, for each is taken under the lock."""
    lock(connection, campaign_id)
    values = {
        "campaign_id": campaign_id,
        "candidate_id": candidate_id,
        "rung_id": rung_id,
        "verb": verb,
        "payload": dict(payload or {}),
        "who": who[:200],
        "why": why[:MAX_WHY],
        "at": db_now(connection),
    }
    return int(connection.execute(sa.insert(t.directive).values(values).returning(_D.id)).scalar_one())


def last(connection: Connection, campaign_id: int) -> int:
    """The id of the latest; 0 without any."""
    query = sa.select(_D.id).where(_D.campaign_id == campaign_id).order_by(_D.id.desc()).limit(1)
    return int(connection.execute(query).scalar() or 0)


def since(connection: Connection, campaign_id: int, cursor: int) -> list[Directive]:
    """What was said after `cursor`, oldest first."""
    return _read(connection, _D.campaign_id == campaign_id, _D.id > cursor)


def on(connection: Connection, campaign_id: int, candidate_id: int) -> list[Directive]:
    """What was said of one candidate, oldest first."""
    return _read(connection, _D.campaign_id == campaign_id, _D.candidate_id == candidate_id)


def word(connection: Connection, campaign_id: int, candidate_id: int) -> Word:
    """What people want of one candidate now."""
    return words(connection, campaign_id, [candidate_id])[candidate_id]


def words(connection: Connection, campaign_id: int, candidate_ids: Sequence[int]) -> dict[int, Word]:
    """The same of several, by candidate id."""
    said: dict[int, list[Any]] = {id_: [] for id_ in candidate_ids}
    for start in range(0, len(candidate_ids), CHUNK):
        some = candidate_ids[start : start + CHUNK]
        query = (
            sa.select(_D.candidate_id, _D.verb, t.rung.c.position, _D.who, _D.why)
            .select_from(t.directive.outerjoin(t.rung, t.rung.c.id == _D.rung_id))
            .where(_D.campaign_id == campaign_id, among(connection, _D.candidate_id, some))
            .order_by(_D.id)
        )
        for id_, *spoken in connection.execute(query):
            said[id_].append(tuple(spoken))
    return {id_: word_of(spoken) if spoken else _NOTHING for id_, spoken in said.items()}


def _read(connection: Connection, *conditions: Any) -> list[Directive]:
    query = (
        sa.select(_D.id, _D.verb, _D.candidate_id, t.rung.c.name, _D.payload, _D.who, _D.why, _D.at)
        .select_from(t.directive.outerjoin(t.rung, t.rung.c.id == _D.rung_id))
        .where(*conditions)
        .order_by(_D.id)
        .limit(1000)
    )
    return [Directive(i, Verb(verb), *rest) for i, verb, *rest in connection.execute(query)]
