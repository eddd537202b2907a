"""Watermarks of turns, decisions, calibrations, likenesses and versions.

Evidence takes a new number of the ledger's counter; these rows only note what the counter says. On PostgreSQL a
transaction that noted it may commit after a version has taken the next number, and its row would then slip below that
version's watermark. The row of the campaign closes the gap: who notes the counter locks it first, and who takes the
number of a version locks it, too. "All turns below W" is then a fixed set, as is "all evidence up to W".

A calibration of a rung is never changed; the last fit of a rung and a property counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.rung_calibration import Fit, FitKind, Fits
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.results.evidence import next_watermark, read_watermark


def lock(connection: Connection, campaign_id: int) -> None:
    """Lock the campaign's row until the commit, as a driver does while it writes. Workers, whose rows only refer to
    the campaign, do not wait for this lock."""
    query = sa.select(t.campaign.c.id).where(t.campaign.c.id == campaign_id)
    connection.execute(query.with_for_update(key_share=True))


def note(connection: Connection, campaign_id: int) -> int:
    """Returns the watermark for rows of a campaign that this transaction writes: the watermark of the newest
    evidence.

    The campaign's row is locked before the counter is read. Drivers hold this lock already, so they do not wait.
    """
    lock(connection, campaign_id)
    return read_watermark(connection)


def note_of_trajectory(connection: Connection, trajectory_id: int) -> int:
    """Locks the campaign of a trajectory, and returns the same watermark as `note`."""
    j = t.trajectory.c
    query = sa.select(t.campaign.c.id).join(t.trajectory, j.campaign_id == t.campaign.c.id)
    connection.execute(query.where(j.id == trajectory_id).with_for_update(key_share=True, of=t.campaign))
    return read_watermark(connection)


def wait_for_noted_rows(connection: Connection, campaign_ids: Iterable[int]) -> None:
    """Waits until all rows that were noted at earlier watermarks are in the ledger, or given up.

    Later rows get at least the counter's present number. The locks are taken in order, so that two versions of the same
    campaigns cannot wait for each other, and are held until the commit.
    """
    for campaign_id in sorted(set(campaign_ids)):
        lock(connection, campaign_id)


def take(connection: Connection, campaign_ids: Iterable[int]) -> int:
    """Takes the watermark of a version: all rows of the campaigns that were noted before lie below it for good.

    The counter stays locked until the commit, so the transaction must do nothing else that takes long.
    """
    wait_for_noted_rows(connection, campaign_ids)
    return next_watermark(connection)


def has_grown(connection: Connection, campaign_id: int, watermark: int) -> bool:
    """Returns whether the campaign has turns, decisions, calibrations, likenesses or groups that were noted at
    `watermark` or later. They are not in a version of that watermark, even if no evidence has come since."""
    u = t.turn.c
    j = t.trajectory.c
    g = t.rollout_group.c
    turns = sa.select(u.id).join(t.trajectory, j.id == u.trajectory_id)
    later = [
        turns.where(j.campaign_id == campaign_id, u.watermark >= watermark),
        sa.select(g.id).where(g.campaign_id == campaign_id, g.snapshot_watermark >= watermark),
    ]
    for table in (t.decision, t.calibration, t.likeness):
        later.append(sa.select(table.c.id).where(table.c.campaign_id == campaign_id, table.c.watermark >= watermark))
    return any(connection.execute(query.limit(1)).scalar() is not None for query in later)


def write_fits(connection: Connection, campaign_id: int, by_rung: Mapping[int, Fits]) -> None:
    """Write fits. by_rung: {rung id: fits by property}."""
    alike = {"campaign_id": campaign_id, "watermark": note(connection, campaign_id), "at": db_now(connection)}
    rows = []
    for rung_id, fits in by_rung.items():
        rows += [{**alike, "rung_id": rung_id, **vars(fit)} for fit in fits.values()]
    if rows:
        connection.execute(sa.insert(t.calibration), rows)


def current_fits(connection: Connection, campaign_id: int, as_of: int | None = None) -> dict[int, dict[str, Fit]]:
    """{rung id: fits by property}, the last ones. as_of: a watermark; fits that were written since do not count."""
    c = t.calibration.c
    query = sa.select(c.rung_id, *(c[name] for name in Fit.__dataclass_fields__)).where(c.campaign_id == campaign_id)
    if as_of is not None:
        query = query.where(c.watermark < as_of)
    by_rung: dict[int, dict[str, Fit]] = {}
    for rung_id, name, kind, *numbers in connection.execute(query.order_by(c.id)):
        by_rung.setdefault(rung_id, {})[name] = Fit(name, FitKind(kind), *numbers)
    return by_rung
