"""Takes in people's directives, and asks the proposer for candidates when too few are waiting.

`Mailbox` obeys the directives pause, resume, stop and amend. `Intake` asks the proposer.
"""

from __future__ import annotations

import time

from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import open_stored
from sciagent.campaign.driving.driver_state_and_heartbeat import TOKEN_RESOURCE, DriverSession, Heartbeat, ProposalsEnd
from sciagent.campaign.proposing.source_contract_and_scripts import Source
from sciagent.domain.states_and_needs import CampaignState, Verb
from sciagent.errors import SciagentError
from sciagent.execution.worker import end_attempts
from sciagent.store.campaign_state import campaigns, candidate_standings, directives
from sciagent.store.campaign_state.directives import Directive
from sciagent.store.views import campaign_counts_and_remarks

LISTEN_SECONDS = 0.2  # interval between looks into the ledger; each dispatch looks as well


class Mailbox:
    """The directives to a driver since it started. last: id of the last directive before its start."""

    def __init__(self, session: DriverSession, heart: Heartbeat, last: int) -> None:
        self.paused = False
        self._session = session
        self._heart = heart
        self._last = last
        self._unread: list[Directive] = []
        self._looked_at = 0.0
        self._paused_at = 0.0

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
        session = self._session
        self._looked_at = time.monotonic()
        new_directives = directives.directives_since(connection, session.built.row.id, self._last)
        if not new_directives:
            return False
        self._last = new_directives[-1].id
        self._unread += new_directives
        candidate_ids = [directive.candidate_id for directive in new_directives]
        session.purchasing.pool.mark_changed(id_ for id_ in candidate_ids if id_ is not None)
        session.recount(connection)
        session.count_hits(connection)
        return True

    def obey(self) -> None:
        """Carries out unread pause, resume, stop and amend directives. The effects of all other directives are in the
        ledger already."""
        unread = self._unread
        self._unread = []
        for directive in unread:
            reason = directives.author_and_reason(directive.who, directive.why)
            if directive.verb is Verb.STOP:
                self._stop(f"stopped {reason}", bool(directive.payload.get("now")))
            elif directive.verb is Verb.AMEND:
                self._amend()
            elif directive.verb in (Verb.PAUSE, Verb.RESUME):
                wants_pause = directive.verb is Verb.PAUSE
                if wants_pause != self.paused:
                    self._set_paused(wants_pause, directive, f"paused {reason}")

    def _stop(self, reason: str, now: bool) -> None:
        """Stops starting jobs. now: whether running jobs end at once."""
        session = self._session
        session.request_stop(reason)
        if now:  # remote workers end their jobs at their next look; the jobs are queued for the next driver
            with session.begin() as connection:
                end_attempts.call_back(connection, session.built.row.id)
            session.abort()

    def _set_paused(self, paused: bool, directive: Directive, reason: str) -> None:
        """Pauses or resumes the campaign. A pause does not count as wall time."""
        session = self._session
        self.paused = paused
        self._heart.count_time(counts=not self.paused)
        if not self.paused:
            session.budget.subtract_idle_time(time.monotonic() - self._paused_at)
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
            before = session.built
            built = open_stored(before.ledger, before.row.name, session.owner, before.spec.allowed).built
        except SciagentError as error:
            with session.built.ledger.begin() as connection:
                session.log(connection, "amendment_not_taken_up", why=str(error)[:2000])
            return
        with session.begin() as connection:
            session.amend(built, connection)
            for crew in session.crews:
                crew.amend(connection)


# resources that a turn of the proposer spends without a reservation
UNRESERVED_RESOURCES = ("core_seconds", TOKEN_RESOURCE)


class Intake:
    """Runs turns of a campaign's proposer within the budget."""

    starved: bool = False
    """Whether the proposer could continue but the budget leaves nothing for it."""
    holding: bool = False
    """Whether the proposer waits for the first paid rung; more expensive rungs then wait too."""
    is_asking: bool = False
    """Whether the proposer was asked for more candidates."""
    ended: ProposalsEnd | None = None
    """Why the proposer is not asked any more; None while it can be asked."""
    n_proposals: int
    """Number of proposals so far, by the proposer and by people."""

    def __init__(self, source: Source, connection: Connection, campaign_id: int) -> None:
        self.source = source
        self._ended_by_itself: ProposalsEnd | None = None
        self._barren = 0  # number of successive turns without a new candidate
        self.recount(connection, campaign_id)

    def recount(self, connection: Connection, campaign_id: int) -> None:
        """Counts the proposals in the ledger again, since people add proposals as well."""
        self.n_proposals = campaign_counts_and_remarks.proposals(connection, campaign_id)

    def propose(self, session: DriverSession, insist: bool = False, is_idle: bool = False) -> bool:
        """Runs one turn of the proposer if fewer candidates than `built.fewest_waiting` wait. Returns True if there was
        a turn, or if the proposer has just ended.

        insist: whether to ask even if enough candidates wait, or the first paid rung has not answered yet; for a
        campaign in which no waiting candidate can start. is_idle: whether no job runs and none could start.
        """
        built = session.built
        budget = session.budget
        purchasing = session.purchasing
        self.holding = False
        self.starved = False
        self.is_asking = False
        limit = built.spec.proposer.batch
        if built.spec.budget.proposals is not None:
            limit = min(limit, built.spec.budget.proposals - self.n_proposals)
        if built.spec.budget.verifications is not None and built.decides_at_once:
            with built.ledger.read() as connection:  # each proposal may be verified within the turn
                limit = min(limit, session.verifications_left(connection) or 0)
        purchasing.proposed_share = self._share_made(built)  # the share of the budget that may be spent now
        self.ended = self._ended_by_itself or self._limit_reached(session, limit)
        if self.ended is not None:
            if self.ended.state is not CampaignState.FAILED:  # after a failure the rest of the budget is kept
                purchasing.proposed_share = 1.0
            return False
        if any(budget.room(resource) <= 0 for resource in UNRESERVED_RESOURCES):
            self.starved = True  # running jobs may still give back a part of their reservations
            return False
        if not insist and self._waits_for_answers(session, is_idle):
            return False
        return self._turn(limit, session)

    def _waits_for_answers(self, session: DriverSession, is_idle: bool) -> bool:
        """Returns whether answers should come before the next turn: enough candidates wait for one, or the first paid
        rung has not answered all, or seeds lack theirs in a campaign of so many verifications, so that what its
        proposer knows at its first turn does not depend on the campaigns that the ledger had before."""
        built = session.built
        purchasing = session.purchasing
        with built.ledger.read() as connection:
            begins_with_seeds = built.spec.budget.verifications is not None and not is_idle
            if begins_with_seeds and candidate_standings.has_waiting_seeds(connection, built.row.id):
                return True
            if purchasing.wants(connection, is_idle) >= built.fewest_waiting:
                return True
            self.holding = built.waits_for_first_paid_rung and purchasing.is_preparing(connection)
        return self.holding

    def _limit_reached(self, session: DriverSession, limit: int) -> ProposalsEnd | None:
        """Returns why the budget will never allow another proposal; None if it may allow one. limit: number of
        proposals that the budget allows now."""
        spec = session.built.spec
        budget = session.budget
        if spec.budget.proposals is not None and self.n_proposals >= spec.budget.proposals:
            return ProposalsEnd(f"{self.n_proposals} of {spec.budget.proposals} proposals made")
        if limit <= 0:
            return ProposalsEnd(f"all {spec.budget.verifications} verifications are used")
        spent = budget.spent_up(TOKEN_RESOURCE)
        if spent is None:
            return None
        return ProposalsEnd(spent, CampaignState.BUDGET_SPENT)

    def _share_made(self, built: Built) -> float | None:
        """Returns the share of all proposals that were made so far; None if their total is unknown."""
        totals = (built.spec.budget.proposals, self.source.total)
        known = [total for total in totals if total is not None]
        if not known:
            return None
        total = max(min(known), 1)
        return min(1.0, max(self.n_proposals, 1) / total)  # at least one, since a turn is about to be made

    def _turn(self, limit: int, session: DriverSession) -> bool:
        """Runs the proposer's next turn; returns True if there was one, or if the proposer has no more."""
        self.is_asking = True
        if not self.source.prepare():
            return False
        of_budget = session.built.spec.budget.proposals
        if of_budget is not None:  # clients propose as well, without a directive
            with session.built.ledger.read() as connection:
                self.recount(connection, session.built.row.id)
            limit = min(limit, of_budget - self.n_proposals)
            if limit <= 0:
                return True  # the next step ends the proposals
        taken = self.source.take(limit)
        if taken is None:
            fault = self.source.fault
            total = self.source.total
            if fault is not None:
                self._ended_by_itself = ProposalsEnd(fault, CampaignState.FAILED)
            elif total is not None:
                self._ended_by_itself = ProposalsEnd(f"all {total} candidates of the proposer were proposed")
            else:
                self._ended_by_itself = ProposalsEnd("the proposer has no more candidates")
            return True
        session.budget.spend(taken.cost)
        session.own_core_seconds -= taken.own_core_seconds  # booked for the proposer
        self.n_proposals += taken.n_proposals
        self._barren = self._barren + 1 if taken.barren else 0
        if self._barren >= self.source.patience:
            self._ended_by_itself = ProposalsEnd(f"nothing new in {self._barren} turns of the proposer")
        return True
