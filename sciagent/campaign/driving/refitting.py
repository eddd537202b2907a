"""Makes the calibrations of a campaign again when a driver starts, and places its candidates if they have changed."""

from __future__ import annotations

import math
from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.core.calibrating import fits_of
from sciagent.campaign.core.record import settle_again
from sciagent.domain.calibration import Fit
from sciagent.domain.states import Standing
from sciagent.store.campaign_state import calibrations, standings
from sciagent.store.campaign_state.campaigns import log_event
from sciagent.store.database import tables as t

LATER = (Standing.PENDING, Standing.VETOED)  # placed when their job ends, or when they are released
EXACT = ("n", "kind", "measured_level", "is_used")
ALIKE = 1e-9  # relative difference of two fits that counts as none


def refit(connection: Connection, built: Built) -> None:
    """Makes the fits again from what the ledger holds now. If one has changed, it is stored and the candidates that
    its rung has answered are placed again. Call it with the driver lease. Raises UsageError as `fits_of` does."""
    changed: dict[int, dict[str, Fit]] = {}
    lowest = len(built.rungs)
    for position, fits in fits_of(connection, built.spec).items():
        rung = built.rungs[position]
        for name, fit in fits.items():
            if _has_changed(rung.all_fits.get(name), fit):
                changed.setdefault(rung.id, {})[name] = fit
                if name in rung.fits or fit.is_used:
                    lowest = min(lowest, position)
                rung.all_fits[name] = fit
                line = fit.sentence(rung.spec.rung, built.row.units.get(name))
                log_event(connection, built.row.id, "calibrated", {"fit": line})
    if changed:
        calibrations.write(connection, built.row.id, changed)
        _place_again(connection, built, lowest)


def _has_changed(old: Fit | None, new: Fit) -> bool:
    if old is None or any(getattr(old, name) != getattr(new, name) for name in EXACT):
        return True
    pairs = ((old.slope, new.slope), (old.intercept, new.intercept), (old.mean_absolute_error, new.mean_absolute_error))
    return not all(math.isclose(a, b, rel_tol=ALIKE, abs_tol=1e-12) for a, b in pairs)


def _place_again(connection: Connection, built: Built, lowest: int) -> None:
    """Places the candidates again that have an answer of the rung at position `lowest` or of a higher one."""
    c = t.campaign_candidate.c
    query = sa.select(c.candidate_id).where(c.campaign_id == built.row.id, c.depth >= lowest, c.standing.not_in(LATER))
    for candidate_id in connection.execute(query.order_by(c.seq)).scalars().all():
        before: Mapping[str, object] = standings.get(connection, built.row.id, candidate_id)
        kept = {name: before[name] for name in PLACE}
        settle_again(connection, built, candidate_id, kept)


PLACE = (*("standing", "position", "verdict", "reason", "detail"), *("depth", "score", "utility", "is_hit", "hit_tier"))
"""Columns of `campaign_candidate` that hold a place."""
