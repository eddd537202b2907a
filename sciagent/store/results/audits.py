"""What an audit of the scheduler wrote: whom it passed over, with which propensity, and what came of them.

The audit's part of each row of `law` says what was new then, and is never changed; all of them together are the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.states import Standing
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import CHUNK, among

AUDIT = "audit"  # the chooser of what was drawn

_CC = t.campaign_candidate.c


@dataclass
class Log:
    """Candidates that were passed over, in order: `ids`; `p` and `cost`, chance of a hit and cost of finishing as
    believed then; `lot` and `pi`, drawn once lot < pi. chosen: chance of a hit of the candidates picked for the
    terminal rung, when first picked."""

    ids: list[int] = field(default_factory=list)
    p: list[float] = field(default_factory=list)
    cost: list[float] = field(default_factory=list)
    lot: list[float] = field(default_factory=list)
    pi: list[float] = field(default_factory=list)
    chosen: dict[int, float] = field(default_factory=dict)

    def add(self, news: Mapping[str, Any]) -> None:
        """news: as a row of `law` has it: `passed`, `raised` (place, pi), `chosen`."""
        if news["passed"]:
            ids, *numbers = zip(*news["passed"], strict=True)
            self.ids += map(int, ids)
            for known, new in zip((self.p, self.cost, self.lot), numbers, strict=True):
                known += map(float, new)
            self.pi += [0.0] * len(ids)
        for place, pi in news["raised"]:
            self.pi[place] = float(pi)
        self.chosen.update({int(id_): float(p) for id_, p in news["chosen"]})


def read(connection: Connection, campaign_id: int) -> Log:
    c, log = t.law.c, Log()
    news = c.state["audit"]
    for one in connection.execute(sa.select(news).where(c.campaign_id == campaign_id).order_by(c.id)).scalars():
        if one is not None:
            log.add(one)
    return log


class AuditDraw(NamedTuple):
    id: int
    candidate_id: int
    rung_id: int
    action: str


def decided(connection: Connection, campaign_id: int, after: int = 0) -> list[AuditDraw]:
    """Decisions of the audit with a larger id than `after`, oldest first."""
    d = t.decision.c
    query = sa.select(d.id, d.candidate_id, d.rung_id, d.action).where(
        d.campaign_id == campaign_id, d.action.in_(("run", "reuse")), d.chooser == AUDIT, d.id > after
    )
    return [AuditDraw(*one) for one in connection.execute(query.order_by(d.id))]


def keys(connection: Connection, candidate_ids: Sequence[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for some in _chunks(candidate_ids):
        query = sa.select(t.candidate.c.id, t.candidate.c.key).where(among(connection, t.candidate.c.id, some))
        found.update((i, key) for i, key in connection.execute(query).all())
    return found


class Became(NamedTuple):
    standing: Standing
    is_hit: bool


def became(connection: Connection, campaign_id: int, candidate_ids: Sequence[int]) -> dict[int, Became]:
    """Where these candidates stand now."""
    found: dict[int, Became] = {}
    for some in _chunks(candidate_ids):
        query = sa.select(_CC.candidate_id, _CC.standing, _CC.is_hit).where(
            _CC.campaign_id == campaign_id, among(connection, _CC.candidate_id, some)
        )
        found.update({int(i): Became(Standing(s), bool(hit)) for i, s, hit in connection.execute(query)})
    return found


def hits(connection: Connection, campaign_id: int) -> set[int]:
    query = sa.select(_CC.candidate_id).where(_CC.campaign_id == campaign_id, _CC.is_hit == sa.true())
    return {int(i) for i in connection.execute(query).scalars()}


def climbed(connection: Connection, campaign_id: int, depth: int, limit: int) -> list[int]:
    """Candidates that came as far as the rung at position `depth`, the first to arrive first."""
    query = sa.select(_CC.candidate_id).where(_CC.campaign_id == campaign_id, _CC.depth >= depth)
    return [int(i) for i in connection.execute(query.order_by(_CC.seq).limit(limit)).scalars()]


def undecided(connection: Connection, campaign_id: int) -> int:
    """Candidates that are open or at work."""
    query = (
        sa.select(sa.func.count())
        .select_from(t.campaign_candidate)
        .where(_CC.campaign_id == campaign_id, _CC.standing.in_((Standing.OPEN, Standing.PENDING)))
    )
    return int(connection.execute(query).scalar_one())


def _chunks(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    return (ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK))
