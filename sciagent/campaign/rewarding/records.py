"""The record of a campaign whose goal is the best candidates, as it was when an episode began.

What an episode finds is worth its improvement over that record, whatever its siblings find.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.rewards.states import states
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among
from sciagent.store.database.parts import CandidatePart
from sciagent.store.learning import groups
from sciagent.store.learning.episodes import EpisodeRow, EpisodeTurn


class _Known(NamedTuple):
    """A candidate with an answer of the terminal rung."""

    utility: float
    answered: int
    """Watermark of the first answer of the terminal rung."""
    seq: int
    """Sequence number in the campaign."""
    turn_id: int
    """Id of the turn that proposed it; 0 if a person did."""


class Beginning(NamedTuple):
    """The moment at which an episode began."""

    watermark: int
    part: CandidatePart | None
    """In a group, the candidates of its snapshot."""
    turn_id: int
    """Id of its first turn."""


class Records:
    """The records at the beginnings of episodes: the utility of the count-th best candidate that the terminal rung had
    answered by then; 0 if there were fewer. The utilities are those of the evidence up to `as_of`, so that a
    correction of a record counts, and a late answer does not."""

    def __init__(
        self, built: Built, connection: Connection, held: Sequence[tuple[EpisodeRow, Sequence[EpisodeTurn]]], as_of: int
    ) -> None:
        """held: the episodes with their turns."""
        self._count = built.spec.goal.count or 1
        self._known = sorted(_known(built, connection, as_of), key=lambda each: -each.utility)
        begun = beginnings(built, connection, held)
        self._records: dict[int, float] = {}
        by_beginning: dict[Beginning, float] = {}
        for row, _ in held:
            beginning = begun[row.id]
            if beginning not in by_beginning:
                by_beginning[beginning] = self._at(beginning)
            self._records[row.id] = by_beginning[beginning]

    def of(self, row: EpisodeRow) -> float:
        """Returns the record at the beginning of an episode, in utility."""
        return self._records[row.id]

    def _at(self, begun: Beginning) -> float:
        left = self._count
        for known in self._known:
            entered = known.turn_id < begun.turn_id if begun.part is None else begun.part.holds(known.seq)
            if entered and known.answered <= begun.watermark:
                left -= 1
                if not left:
                    return known.utility
        return 0.0


def _known(built: Built, connection: Connection, as_of: int) -> list[_Known]:
    """Returns all candidates of the campaign that the terminal rung has answered up to a watermark."""
    cc, e, p = t.campaign_candidate.c, t.evidence.c, t.proposal.c
    computation = built.rungs[built.terminal].verifier.computation
    first = sa.func.min(e.watermark)
    query = (
        sa.select(cc.candidate_id, first, cc.seq, sa.func.coalesce(p.turn_id, 0))
        .select_from(
            t.campaign_candidate.join(t.evidence, e.candidate_id == cc.candidate_id).outerjoin(
                t.proposal, p.id == cc.proposal_id
            )
        )
        .where(cc.campaign_id == built.row.id, e.watermark <= as_of)
        .where(e.verifier == computation.verifier, e.verifier_version == computation.version)
        .where(e.settings_hash == computation.settings_hash)
        .group_by(cc.candidate_id, cc.seq, p.turn_id)
    )
    rows = {int(row[0]): row for row in connection.execute(query)}
    found = states(built, connection, sorted(rows), as_of)
    return [_Known(state.payoff, *map(int, rows[id_][1:])) for id_, state in found.items() if state.payoff is not None]


def beginnings(
    built: Built, connection: Connection, held: Sequence[tuple[EpisodeRow, Sequence[EpisodeTurn]]]
) -> dict[int, Beginning]:
    """Returns the beginnings by trajectory id."""
    of_group = groups.of_ids(connection, sorted({row.group_id for row, _ in held if row.group_id is not None}))
    u = t.turn.c
    first = sa.select(u.trajectory_id, sa.func.coalesce(u.asked_watermark, u.watermark)).where(u.number == 0)
    alone = [row.id for row, _ in held if row.group_id is None]
    rows = connection.execute(first.where(among(connection, u.trajectory_id, alone)))
    asked = {int(id_): int(at) for id_, at in rows}
    begun = {}
    for row, turns in held:
        if row.group_id is not None:
            group = of_group[row.group_id]
            begun[row.id] = Beginning(group.snapshot_watermark, group.part, 0)
        else:
            begun[row.id] = Beginning(asked[row.id], None, turns[0].id)
    return begun
