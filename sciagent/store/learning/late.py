"""Groups of rollouts about whose candidates the ladder has said something new."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.store.database import tables as t


def groups_with_news(connection: Connection, campaign_id: int, after: int) -> list[int]:
    """Returns the ids of the groups of a campaign with a candidate that has evidence after a watermark, in order.

    The work is that of the new evidence, however many groups there are.
    """
    e, p, u, j = t.evidence.c, t.proposal.c, t.turn.c, t.trajectory.c
    query = (
        sa.select(j.group_id)
        .distinct()
        .select_from(t.evidence)
        .join(t.proposal, sa.and_(p.candidate_id == e.candidate_id, p.campaign_id == campaign_id))
        .join(t.turn, u.id == p.turn_id)
        .join(t.trajectory, j.id == u.trajectory_id)
        .where(e.watermark > after, j.group_id.is_not(None))
    )
    return sorted(int(id_) for id_ in connection.execute(query).scalars())
