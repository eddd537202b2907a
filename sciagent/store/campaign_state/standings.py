"""The standing of each candidate in a campaign: entered, promoted, dropped, settled. Queries are bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.jobs.states import Standing
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import CHUNK, among, execute_many
from sciagent.store.database.clock import db_now

_CC = t.campaign_candidate.c
_ONE_OF = sa.update(t.campaign_candidate).where(
    _CC.campaign_id == sa.bindparam("in_campaign"), _CC.candidate_id == sa.bindparam("of")
)


def members(connection: Connection, campaign_id: int, candidate_ids: Sequence[int]) -> set[int]:
    """Those of the candidates that the campaign has already."""
    present: set[int] = set()
    for start in range(0, len(candidate_ids), CHUNK):
        query = sa.select(_CC.candidate_id).where(
            _CC.campaign_id == campaign_id, among(connection, _CC.candidate_id, candidate_ids[start : start + CHUNK])
        )
        present.update(connection.execute(query).scalars())
    return present


def add(connection: Connection, campaign_id: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Enter candidates. rows: candidate_id, proposal_id, in_seeds and more columns. Sequence numbers follow their
    order."""
    if not rows:
        return
    last = connection.execute(sa.select(sa.func.max(_CC.seq)).where(_CC.campaign_id == campaign_id)).scalar()
    first = 0 if last is None else last + 1
    now = db_now(connection)
    connection.execute(
        sa.insert(t.campaign_candidate),
        [
            {
                "campaign_id": campaign_id,
                "seq": first + i,
                "standing": Standing.OPEN,
                "position": 0,
                "depth": -1,
                "is_hit": False,
                "updated_at": now,
                **row,
            }
            for i, row in enumerate(rows)
        ],
    )


def update(connection: Connection, campaign_id: int, candidate_id: int, **values: Any) -> None:
    update_many(connection, campaign_id, {candidate_id: values})


def update_many(connection: Connection, campaign_id: int, values: Mapping[int, Mapping[str, Any]]) -> None:
    """Write columns of several candidates, by candidate id; the same columns for each."""
    rows = [{"of": id_, **columns} for id_, columns in values.items()]
    execute_many(connection, _ONE_OF, rows, {"in_campaign": campaign_id, "updated_at": db_now(connection)})


def update_alike(connection: Connection, campaign_id: int, candidate_ids: Sequence[int], **values: Any) -> None:
    """Write the same values for several candidates."""
    now = db_now(connection)
    for start in range(0, len(candidate_ids), CHUNK):
        connection.execute(
            sa.update(t.campaign_candidate)
            .where(
                _CC.campaign_id == campaign_id,
                among(connection, _CC.candidate_id, candidate_ids[start : start + CHUNK]),
            )
            .values(**values, updated_at=now)
        )


def get(connection: Connection, campaign_id: int, candidate_id: int) -> Any:
    query = sa.select(t.campaign_candidate).where(_CC.campaign_id == campaign_id, _CC.candidate_id == candidate_id)
    return connection.execute(query).mappings().one_or_none()


class Stands(NamedTuple):
    """The standing of one candidate."""

    candidate_id: int
    seq: int
    """Sequence number in the campaign."""
    standing: Standing
    position: int
    """Position of the rung where it stands."""
    depth: int
    """Position of the highest rung that has answered; -1 for none."""
    score: float | None
    """How good it looks so far, in (0, 1]; None where nothing is known."""


_STANDS = (_CC.candidate_id, _CC.seq, _CC.standing, _CC.position, _CC.depth, _CC.score)


def arrivals(connection: Connection, campaign_id: int, first: int, limit: int) -> list[Stands]:
    """Candidates with a sequence number from `first` on, in order."""
    query = sa.select(*_STANDS).where(_CC.campaign_id == campaign_id, _CC.seq >= first).order_by(_CC.seq).limit(limit)
    return [_stands(row) for row in connection.execute(query).all()]


def of(connection: Connection, campaign_id: int, candidate_ids: Sequence[int]) -> list[Stands]:
    """Those of the candidates (at most some hundreds) that belong to the campaign."""
    query = sa.select(*_STANDS).where(
        _CC.campaign_id == campaign_id, among(connection, _CC.candidate_id, candidate_ids)
    )
    return [_stands(row) for row in connection.execute(query).all()]


def climbed(connection: Connection, campaign_id: int, limit: int) -> list[int]:
    """Ids of candidates with an answer of any rung: hits first, then by the highest rung answered."""
    query = sa.select(_CC.candidate_id).where(_CC.campaign_id == campaign_id, _CC.depth >= 0)
    order = (_CC.is_hit.desc(), _CC.depth.desc(), _CC.score.desc(), _CC.seq)
    return [int(i) for i in connection.execute(query.order_by(*order).limit(limit)).scalars()]


def _stands(row: Any) -> Stands:
    candidate_id, seq, standing, position, depth, score = row
    return Stands(int(candidate_id), int(seq), Standing(standing), int(position), int(depth), score)


def waiting(
    connection: Connection, campaign_id: int, position: int, *, by_score: bool, limit: int
) -> list[tuple[int, int, float | None]]:
    """(candidate id, seq, score) of open candidates at a rung, by score (best first) or by arrival."""
    there = sa.and_(_CC.campaign_id == campaign_id, _CC.standing == Standing.OPEN, _CC.position == position)
    query = sa.select(_CC.candidate_id, _CC.seq, _CC.score).where(there)
    if not by_score:
        return [(int(i), int(s), v) for i, s, v in connection.execute(query.order_by(_CC.seq).limit(limit))]
    # two questions, for only so does an index hold the order on both databases
    scored = query.where(_CC.score.is_not(None)).order_by(_CC.score.desc(), _CC.seq).limit(limit)
    rows = [(int(i), int(s), v) for i, s, v in connection.execute(scored)]
    if len(rows) < limit:
        rest = query.where(_CC.score.is_(None)).order_by(_CC.seq).limit(limit - len(rows))
        rows += [(int(i), int(s), v) for i, s, v in connection.execute(rest)]
    return rows


def count_at(connection: Connection, campaign_id: int, positions: Sequence[int], at_most: int) -> int:
    """Number of candidates that are open or pending at one of these rungs; counting stops at `at_most`."""
    undecided = _CC.standing.in_([Standing.OPEN, Standing.PENDING])
    return count_up_to(connection, at_most, _CC.campaign_id == campaign_id, undecided, _CC.position.in_(positions))


def count_up_to(connection: Connection, at_most: int, *conditions: sa.ColumnElement[bool]) -> int:
    """Number of standings that meet the conditions; counting stops at `at_most`."""
    some = sa.select(sa.literal(1)).select_from(t.campaign_candidate).where(*conditions).limit(at_most).subquery()
    return int(connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one())


def top(connection: Connection, campaign_id: int, n: int) -> list[Any]:
    """The n best by score: (candidate id, key, text, score, depth, in_seeds, seq, operation that made it)."""
    query = (
        sa.select(
            _CC.candidate_id,
            t.candidate.c.key,
            t.candidate.c.text,
            _CC.score,
            _CC.depth,
            _CC.in_seeds,
            _CC.seq,
            t.proposal.c.operation,
        )
        .join(t.candidate, t.candidate.c.id == _CC.candidate_id)
        .outerjoin(t.proposal, t.proposal.c.id == _CC.proposal_id)
        .where(_CC.campaign_id == campaign_id, _CC.score.is_not(None))
        .order_by(_CC.score.desc(), _CC.seq)
        .limit(n)
    )
    return list(connection.execute(query))
