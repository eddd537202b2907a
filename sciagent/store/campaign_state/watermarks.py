"""Watermarks of turns, decisions, calibrations, likenesses and versions.

Evidence takes a new number of the ledger's counter; these rows only note what the counter says. On PostgreSQL a
transaction that noted it may commit after a version has taken the next number, and its row would then slip below that
version's watermark. The row of the campaign closes the gap: who notes the counter locks it first, and who takes the
number of a version locks it, too. "All turns below W" is then a fixed set, as "all evidence up to W" is.
"""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.store.campaign_state import directives
from sciagent.store.database import tables as t
from sciagent.store.results.evidence import next_watermark, read_watermark


def note(connection: Connection, campaign_id: int) -> int:
    """Returns the watermark for rows of a campaign that this transaction writes: that of the newest evidence.

    The campaign's row is locked before the counter is read. Drivers hold that lock already, which is then no wait.
    """
    directives.lock(connection, campaign_id)
    return read_watermark(connection)


def note_of_trajectory(connection: Connection, trajectory_id: int) -> int:
    """Returns `note` for the campaign of a trajectory."""
    j = t.trajectory.c
    query = sa.select(t.campaign.c.id).join(t.trajectory, j.campaign_id == t.campaign.c.id)
    connection.execute(query.where(j.id == trajectory_id).with_for_update(key_share=True, of=t.campaign))
    return read_watermark(connection)


def settle(connection: Connection, campaign_ids: Iterable[int]) -> None:
    """Waits until all rows that were noted at earlier watermarks are in the ledger, or given up.

    Later rows get at least the counter's present number. The locks are taken in order, so that two versions of the same
    campaigns cannot wait for each other, and are held until the commit.
    """
    for campaign_id in sorted(set(campaign_ids)):
        directives.lock(connection, campaign_id)


def take(connection: Connection, campaign_ids: Iterable[int]) -> int:
    """Takes the watermark of a version: all rows of the campaigns that were noted before lie below it for good.

    The counter stays locked until the commit, so the transaction must do nothing else that takes long.
    """
    settle(connection, campaign_ids)
    return next_watermark(connection)


def has_grown(connection: Connection, campaign_id: int, watermark: int) -> bool:
    """Returns whether the campaign has turns, decisions, calibrations, likenesses or groups that were noted at
    `watermark` or later. They are not in a version of that watermark, even if no evidence has come since."""
    u, j, g = t.turn.c, t.trajectory.c, t.rollout_group.c
    turns = sa.select(u.id).join(t.trajectory, j.id == u.trajectory_id)
    later = [
        turns.where(j.campaign_id == campaign_id, u.watermark >= watermark),
        sa.select(g.id).where(g.campaign_id == campaign_id, g.snapshot_watermark >= watermark),
    ]
    for table in (t.decision, t.calibration, t.likeness):
        later.append(sa.select(table.c.id).where(table.c.campaign_id == campaign_id, table.c.watermark >= watermark))
    return any(connection.execute(query.limit(1)).scalar() is not None for query in later)
