"""Watermarks of turns, decisions, calibrations, likenesses and versions.

A watermark is a number of the ledger's counter. Each piece of evidence takes the next number, and so does a version of
rewards or of a data set. A turn, decision, calibration or likeness takes no number: it only notes the present one.

On PostgreSQL a transaction may note the present number and commit after a version has taken the next one. Its row
would then be added below the watermark of a version that is complete. A lock prevents this: both transactions lock the
row of the campaign before they read the counter. "All turns below W" is then a fixed set, as is "all evidence up to W".

A calibration of a rung is never changed; the last fit of a rung and a property counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.rung_calibration_on_measurements import Fit, FitKind, Fits
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.results.evidence import next_watermark, read_watermark


def lock(connection: Connection, campaign_id: int) -> None:
    """Lock the campaign's row until the commit, as a driver does while it writes.

    Workers do not wait for this lock, since they write only rows that refer to the campaign.
    """
    query = sa.select(t.campaign.c.id).where(t.campaign.c.id == campaign_id)
    connection.execute(query.with_for_update(key_share=True))


def note(connection: Connection, campaign_id: int) -> int:
    """Returns the present watermark, for rows of the campaign that this transaction writes.

    The campaign's row is locked before the counter is read. Drivers hold this lock already, so they do not wait.
    """
    lock(connection, campaign_id)
    return read_watermark(connection)


def wait_for_earlier_writers(connection: Connection, campaign_ids: Iterable[int]) -> None:
    """Waits until each transaction that noted an earlier watermark is committed or rolled back.

    Rows that are written later note the counter's present number or a higher one. The locks are held until the commit.
    They are taken in order, so that two versions of the same campaigns cannot wait for each other.
    """
    for campaign_id in sorted(set(campaign_ids)):
        lock(connection, campaign_id)


def take(connection: Connection, campaign_ids: Iterable[int]) -> int:
    """Takes the watermark of a version, and returns it. No row of the campaigns is added below it afterwards.

    The counter stays locked until the commit, so the transaction must do nothing else that takes long.
    """
    wait_for_earlier_writers(connection, campaign_ids)
    return next_watermark(connection)


def has_grown(connection: Connection, campaign_id: int, watermark: int) -> bool:
    """Returns whether the campaign has turns, decisions, calibrations, likenesses or groups of episodes that noted
    `watermark` or a higher one.

    A version of that watermark does not contain these rows, even if no evidence was recorded since.
    """
    turn = t.turn.c
    trajectory = t.trajectory.c
    g = t.rollout_group.c
    turns = sa.select(turn.id).join(t.trajectory, trajectory.id == turn.trajectory_id)
    later_rows = [
        turns.where(trajectory.campaign_id == campaign_id, turn.watermark >= watermark),
        sa.select(g.id).where(g.campaign_id == campaign_id, g.snapshot_watermark >= watermark),
    ]
    for table in (t.decision, t.calibration, t.likeness):
        later_rows.append(
            sa.select(table.c.id).where(table.c.campaign_id == campaign_id, table.c.watermark >= watermark)
        )
    return any(connection.execute(query.limit(1)).scalar() is not None for query in later_rows)


def write_fits(connection: Connection, campaign_id: int, by_rung: Mapping[int, Fits]) -> None:
    """Write fits. by_rung: {rung id: fits by property}."""
    common_columns = {"campaign_id": campaign_id, "watermark": note(connection, campaign_id), "at": db_now(connection)}
    rows = []
    for rung_id, fits in by_rung.items():
        rows += [{**common_columns, "rung_id": rung_id, **vars(fit)} for fit in fits.values()]
    if rows:
        connection.execute(sa.insert(t.calibration), rows)


def current_fits(connection: Connection, campaign_id: int, as_of: int | None = None) -> dict[int, dict[str, Fit]]:
    """{rung id: last fits by property}. as_of: a watermark; only fits with a lower one count. None: all fits count."""
    c = t.calibration.c
    query = sa.select(c.rung_id, *(c[name] for name in Fit.__dataclass_fields__)).where(c.campaign_id == campaign_id)
    if as_of is not None:
        query = query.where(c.watermark < as_of)
    by_rung: dict[int, dict[str, Fit]] = {}
    # in order of id, so that the last fit replaces the others
    for rung_id, name, kind, *numbers in connection.execute(query.order_by(c.id)):
        by_rung.setdefault(rung_id, {})[name] = Fit(name, FitKind(kind), *numbers)
    return by_rung
