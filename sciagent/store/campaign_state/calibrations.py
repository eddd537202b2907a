"""Calibrations of a campaign's rungs. A fit is never changed; the last one of a rung and a property counts."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.calibration import Fit, FitKind, Fits
from sciagent.store.campaign_state import watermarks
from sciagent.store.database import tables as t
from sciagent.store.database.clock import db_now


def write(connection: Connection, campaign_id: int, by_rung: Mapping[int, Fits]) -> None:
    """Write fits. by_rung: {rung id: fits by property}."""
    alike = {
        "campaign_id": campaign_id,
        "watermark": watermarks.note(connection, campaign_id),
        "at": db_now(connection),
    }
    rows = [{**alike, "rung_id": rung_id, **vars(fit)} for rung_id, fits in by_rung.items() for fit in fits.values()]
    if rows:
        connection.execute(sa.insert(t.calibration), rows)


def current(connection: Connection, campaign_id: int, as_of: int | None = None) -> dict[int, dict[str, Fit]]:
    """{rung id: fits by property}, the last ones. as_of: a watermark; fits that were written since do not count."""
    c = t.calibration.c
    query = sa.select(c.rung_id, *(c[name] for name in Fit.__dataclass_fields__)).where(c.campaign_id == campaign_id)
    if as_of is not None:
        query = query.where(c.watermark < as_of)
    by_rung: dict[int, dict[str, Fit]] = {}
    for rung_id, name, kind, *numbers in connection.execute(query.order_by(c.id)):
        by_rung.setdefault(rung_id, {})[name] = Fit(name, FitKind(kind), *numbers)
    return by_rung
