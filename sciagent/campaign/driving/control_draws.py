"""Chooses, by lot, the settled candidates of a campaign on which its control runs."""

from __future__ import annotations

import time
from collections.abc import Collection

from sqlalchemy.engine import Connection

from sciagent.campaign.core.control_scores import is_drawn
from sciagent.campaign.driving.session import DriverSession
from sciagent.campaign.spec.controls import SHARE
from sciagent.domain.ladder import Position
from sciagent.domain.ports import Choice
from sciagent.store.campaign_state import standings
from sciagent.store.results import laws

LOOK_SECONDS = 1.0  # shortest time between two looks for settled candidates while jobs run
LOOK_SHARE = 0.03  # largest share of the driver's time for looks


class ControlDraws:
    """The candidates that wait for the control. Their number is limited by the budget of its rung."""

    def __init__(self, session: DriverSession, connection: Connection) -> None:
        self._session = session
        control = session.built.control
        self._seen = set() if control is None else standings.decided_on(connection, control.id)
        self._waiting: list[int] = []
        self._look_at = 0.0

    def due(self, connection: Connection, idle: bool, places: Collection[Position], slots: int) -> list[Choice]:
        """Returns at most `slots` choices. idle: whether no job runs, so that settled candidates are looked for at
        once. places: positions of rungs with a place for a job."""
        control = self._session.built.control
        if control is None or control.rules.position not in places:
            return []
        if idle or time.monotonic() >= self._look_at:
            self._look(connection)
        left = self._session.budget.remaining_jobs(control.rules.position)
        share = control.spec.share or SHARE
        why = f"control: drawn with a chance of {share:g}"
        n = slots if left is None else min(slots, left)
        return [Choice(id_, control.rules.position, 0.0, share, why) for id_ in self._waiting[:n]]

    def take(self, started: Collection[int]) -> None:
        """Removes candidates for which the control was started or its evidence reused."""
        self._waiting = [id_ for id_ in self._waiting if id_ not in started]

    def _look(self, connection: Connection) -> None:
        """Draws the lots of candidates that have been settled since the last look."""
        begun, built = time.monotonic(), self._session.built
        assert built.control is not None
        settled = standings.settled(connection, built.row.id)
        new = [id_ for id_ in settled if id_ not in self._seen]
        self._seen.update(new)
        if new:
            keys = laws.keys(connection, new)
            drawn = is_drawn(built.control, built.spec.seed, (keys[id_] for id_ in new))
            self._waiting += [id_ for id_, is_chosen in zip(new, drawn, strict=True) if is_chosen]
        took = time.monotonic() - begun
        self._look_at = time.monotonic() + max(LOOK_SECONDS, took / LOOK_SHARE)
