"""Directives in the ledger: people's decisions on a campaign, one row each. A driver reads new ones at each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.states_and_needs import SteeringState, Verb, fold_directives
from sciagent.errors import UsageError
from sciagent.store.campaign_state import campaigns, note_and_take_watermarks
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among
from sciagent.store.database.engine import db_now
from sciagent.store.people import audit

MAX_REASON_LENGTH = 2000
_D = t.directive.c
_NO_STEERING = SteeringState()  # the state of nearly all candidates


@dataclass(frozen=True)
class Directive:
    """One row of the directive table."""

    id: int
    verb: Verb
    candidate_id: int | None
    rung: str | None
    """Label of the rung to which the candidate is promoted."""
    payload: dict[str, Any]
    who: str
    why: str
    at: datetime


def checked_reason(text: str) -> str:
    """The reason that a person gave, as one line. Raises UsageError if it is empty or too long."""
    line = " ".join(text.split())
    if not line:
        raise UsageError('the reason is empty; say why, such as "too hygroscopic for the glove box"')
    if len(line) > MAX_REASON_LENGTH:
        raise UsageError(f"the reason has {len(line)} characters; {MAX_REASON_LENGTH} are kept")
    return line


def author_and_reason(who: str, why: str) -> str:
    """Returns the words on who decided, and why, as they stand after "paused" or "stopped"."""
    return f"by {who}" + (f": {why}" if why else "")


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
    """Append a directive; returns its id. The lock of the campaign makes its directives visible in the order of ids."""
    note_and_take_watermarks.lock(connection, campaign_id)
    new = sa.insert(t.directive).values(campaign_id=campaign_id, candidate_id=candidate_id, rung_id=rung_id, verb=verb)
    new = new.values(payload=dict(payload or {}), who=who[:200], why=why[:MAX_REASON_LENGTH], at=db_now(connection))
    campaigns.wake(connection, campaign_id)
    id_ = int(connection.execute(new.returning(_D.id)).scalar_one())
    audit_payload: dict[str, object] = {"candidate": candidate_id, "why": why[:MAX_REASON_LENGTH]}
    audit.append(connection, who, str(verb), "directive", id_, campaign_id=campaign_id, **audit_payload)
    return id_


def last_id(connection: Connection, campaign_id: int) -> int:
    """The id of the latest directive; 0 if there is none."""
    query = sa.select(_D.id).where(_D.campaign_id == campaign_id).order_by(_D.id.desc()).limit(1)
    return int(connection.execute(query).scalar() or 0)


def directives_since(connection: Connection, campaign_id: int, cursor: int) -> list[Directive]:
    """Directives after the id `cursor`, oldest first."""
    return _read(connection, _D.campaign_id == campaign_id, _D.id > cursor)


def directives_on(connection: Connection, campaign_id: int, candidate_id: int) -> list[Directive]:
    """Directives on one candidate, oldest first."""
    return _read(connection, _D.campaign_id == campaign_id, _D.candidate_id == candidate_id)


def steering_of(connection: Connection, campaign_id: int, candidate_id: int) -> SteeringState:
    """The state of one candidate that results from all directives so far."""
    return steering_of_many(connection, campaign_id, [candidate_id])[candidate_id]


def steering_of_many(
    connection: Connection, campaign_id: int, candidate_ids: Sequence[int]
) -> dict[int, SteeringState]:
    """{candidate id: state}, as `steering_of` returns it."""
    by_candidate: dict[int, list[Any]] = {id_: [] for id_ in candidate_ids}
    query = (
        sa.select(_D.candidate_id, _D.verb, t.rung.c.position, _D.who, _D.why)
        .select_from(t.directive.outerjoin(t.rung, t.rung.c.id == _D.rung_id))
        .where(_D.campaign_id == campaign_id, among(connection, _D.candidate_id, candidate_ids))
        .order_by(_D.id)
    )
    for id_, verb, position, who, why in connection.execute(query):
        by_candidate[id_].append((verb, position, who, why))
    states = {}
    for id_, directives in by_candidate.items():
        states[id_] = fold_directives(directives) if directives else _NO_STEERING
    return states


def _read(connection: Connection, *conditions: Any) -> list[Directive]:
    """The oldest directives that meet the conditions, at most 1000."""
    query = (
        sa.select(_D.id, _D.verb, _D.candidate_id, t.rung.c.name, _D.payload, _D.who, _D.why, _D.at)
        .select_from(t.directive.outerjoin(t.rung, t.rung.c.id == _D.rung_id))
        .where(*conditions)
        .order_by(_D.id)
        .limit(1000)
    )
    return [Directive(id_, Verb(verb), *rest) for id_, verb, *rest in connection.execute(query)]
