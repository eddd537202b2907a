"""The driver's mailbox: reads people's directives and carries out pause, resume, stop and amend."""

from __future__ import annotations

import time

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import open_stored
from sciagent.campaign.driving.session import DriverSession, Heartbeat
from sciagent.domain.directives import Verb
from sciagent.domain.states import CampaignState
from sciagent.errors import SciagentError
from sciagent.execution.worker import completing
from sciagent.store.campaign_state import campaigns, directives
from sciagent.store.campaign_state.directives import Directive

LISTEN_SECONDS = 0.2  # interval between looks into the ledger; each dispatch looks as well


class Mailbox:
    """The directives to a driver since it started. last: id of the last directive before that."""

    def __init__(self, session: DriverSession, heart: Heartbeat, last: int) -> None:
        self.paused = False
        self._session, self._heart, self._last = session, heart, last
        self._unread: list[Directive] = []
        self._looked_at = self._paused_at = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the last look is more than `LISTEN_SECONDS` ago."""
        return time.monotonic() - self._looked_at > LISTEN_SECONDS

    @property
    def halts(self) -> bool:
        """Whether an unread directive asks to pause or stop; the next step obeys it."""
        return any(directive.verb in (Verb.PAUSE, Verb.STOP) for directive in self._unread)

    def look(self, connection: Connection) -> bool:
        """Reads new directives; returns True if there are any. Budget and hits are then read again, since a command
        that writes a directive may change them."""
        session, self._looked_at = self._session, time.monotonic()
        if not (new := directives.since(connection, session.built.row.id, self._last)):
            return False
        self._last = new[-1].id
        self._unread += new
        session.purchasing.pool.touch(d.candidate_id for d in new if d.candidate_id is not None)
        session.recount(connection)
        session.count_hits(connection)
        return True

    def obey(self) -> None:
        """Carries out unread pause, resume, stop and amend directives. The effects of all other directives are in the
        ledger already."""
        unread, self._unread = self._unread, []
        for directive in unread:
            reason = directives.author_and_reason(directive.who, directive.why)
            if directive.verb is Verb.STOP:
                self._stop(f"stopped {reason}", bool(directive.payload.get("now")))
            elif directive.verb is Verb.AMEND:
                self._amend()
            elif directive.verb in (Verb.PAUSE, Verb.RESUME) and (directive.verb is Verb.PAUSE) != self.paused:
                self._pause(directive, f"paused {reason}")

    def _stop(self, reason: str, now: bool) -> None:
        session = self._session
        session.request_stop(reason)
        if now:  # remote workers end their jobs at their next look; the jobs are queued for the next driver
            with session.begin() as connection:
                completing.call_back(connection, session.built.row.id)
            session.abort()

    def _pause(self, directive: Directive, reason: str) -> None:
        """Pauses or resumes the campaign. A pause does not count as wall time."""
        session, self.paused = self._session, not self.paused
        self._heart.count(not self.paused)
        if not self.paused:
            session.budget.rest(time.monotonic() - self._paused_at)
        self._paused_at = time.monotonic()
        with session.begin() as connection:
            state = CampaignState.PAUSED if self.paused else CampaignState.RUNNING
            campaigns.set_state(connection, session.built.row.id, state, reason if self.paused else None)
            session.log(connection, str(state), who=directive.who, why=directive.why)

    def _amend(self) -> None:
        """Adopts the amended campaign from the ledger: budget, goal, limits, workers. If it cannot be built (a seed
        file is missing), the driver keeps the old one and logs an event."""
        session = self._session
        try:
            built = open_stored(session.built.ledger, session.built.row.name, session.owner)
        except SciagentError as error:
            with session.built.ledger.begin() as connection:
                session.log(connection, "amendment_not_taken_up", why=str(error)[:2000])
            return
        with session.begin() as connection:
            session.amend(built, connection)
            for crew in session.crews:
                crew.amend(connection)
