"""Laws in the ledger: each fit of a scheduler's model is a row that is never changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence import canonical_json, text_hash
from sciagent.store.database import tables as t
from sciagent.store.database.clock import db_now
from sciagent.store.results.evidence import read_watermark

SHOWN = 16  # hexadecimal digits of a version


class LawRow(NamedTuple):
    version: str
    watermark: int
    state: dict[str, Any]


def write(connection: Connection, campaign_id: int, state: Mapping[str, Any]) -> str:
    """Write a law and return its version, a hash of the state. The state holds only audit entries that are new."""
    text = canonical_json(dict(state))
    version = text_hash(text)[:SHOWN]
    connection.execute(
        t.law.insert().values(
            campaign_id=campaign_id,
            version=version,
            watermark=read_watermark(connection),
            state=WrittenJson(text),
            at=db_now(connection),
        )
    )
    return version


def last(connection: Connection, campaign_id: int) -> LawRow | None:
    c = t.law.c
    query = sa.select(c.version, c.watermark, c.state).where(c.campaign_id == campaign_id).order_by(c.id.desc())
    row = connection.execute(query.limit(1)).one_or_none()
    return None if row is None else LawRow(str(row[0]), int(row[1]), dict(row[2]))
