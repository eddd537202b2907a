"""The driver: steps a campaign from the ledger under its lease. Kill it at any moment; another goes on from there."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.build import Built, open_stored
from sciagent.campaign.core.prepare import check_here, prepare
from sciagent.campaign.core.safety import note
from sciagent.campaign.driving import stop_rules
from sciagent.campaign.driving.collect import collect, reap, settle_cancelled
from sciagent.campaign.driving.dispatch import WINDOW, Dispatched, LocalJob, offer_queued, promote, take_queued
from sciagent.campaign.driving.heartbeat import Heartbeat
from sciagent.campaign.driving.intake import Intake
from sciagent.campaign.driving.pace import Pace, Places
from sciagent.campaign.driving.remote_jobs import Outside, Rooms, request_for_workers
from sciagent.campaign.driving.stop_rules import Ending
from sciagent.campaign.pricing.purchasing import purchasing_of
from sciagent.campaign.proposing.sources import source_of
from sciagent.domain.campaigns.directives import Verb
from sciagent.domain.jobs.needs import text_of
from sciagent.domain.jobs.states import CampaignState, JobState
from sciagent.domain.outcomes import Outcome
from sciagent.errors import CampaignError, LedgerAwayError, SciagentError, StaleLeaseError
from sciagent.execution.executors import Executor
from sciagent.execution.worker import completing
from sciagent.execution.worker.claimed_jobs import request_of
from sciagent.execution.worker.local_pool import LocalPool
from sciagent.store.campaign_state import campaigns, directives
from sciagent.store.campaign_state.directives import Directive
from sciagent.store.database import tables as t
from sciagent.store.job_queue import jobs, leases, offers
from sciagent.store.views import queries
from sciagent.verification.sandbox.host import Worker, sweep

BEGUN_SECONDS = 0.02  # a job claimed ahead that has run so long is written down as running
LOOK_SECONDS = 0.05  # between looks for what workers elsewhere have ended; their word may come sooner
LISTEN_SECONDS = 0.2  # between looks for what people said; besides, each dispatch looks
INTERRUPTED = (CampaignState.INTERRUPTED, "interrupted")  # by a signal, not by somebody's word
GARBAGE = 20_000  # objects more than are gone, before some is looked for; a batch of jobs makes that many, few in rings


class Driver:
    """Steps one campaign. workers: jobs at once in the local pool, default as in the spec. executor: how workers
    elsewhere are told; they find their jobs in the ledger, and the local pool has none.

    Use as a context manager: entering takes the driver lease and what dead drivers left, leaving gives it back.

    Raises CampaignError when a live driver holds the campaign.
    """

    def __init__(self, built: Built, workers: int | None = None, executor: Executor | None = None) -> None:
        self.built = built
        self._executor = executor
        self._own_workers = workers
        self._workers = workers or built.spec.workers
        self.owner = campaigns.new_owner()
        self.reaped = 0
        self._stop = threading.Event()
        self._abort = threading.Event()
        self._bell = threading.Event()  # rings when a job has finished, and when a model has answered
        self._shortfall: str | None = None  # what could run, but the budget does not hold it, in words
        self._tickets: dict[int, LocalJob] = {}
        self._pace = Pace(built.together)
        self._cancelled: set[int] = set()  # ids of running jobs that people want to be ended
        self._killed: set[int] = set()  # of jobs that we have killed, with those that shared their process
        self._told: list[Directive] = []  # what people said and the driver has not acted on yet
        self._heard, self._listened, self._looked = 0, 0.0, 0.0
        self._paused, self._paused_at = False, 0.0
        self._stopped_by = INTERRUPTED[1]

    def __enter__(self) -> Driver:
        built = self.built
        if self._executor is None:
            check_here(built.paid, self._workers)
        with built.ledger.begin() as connection:
            self._lease = campaigns.take_driver(connection, built.row.id, self.owner)
            self._heard = directives.last(connection, built.row.id)  # what came before was said to an earlier driver
        with ExitStack() as undo:  # of a start that fails half way: the campaign is as it was
            undo.callback(self.release)
            self.reaped = reap(built, self._lease)
            sweep(built.scratch())
            prepare(built.rungs)
            fast = [r.verifier.name for r in built.fast]
            paid = [r.verifier.name for r in built.paid]
            if self._executor is not None:
                self._executor.listen(built.row.id, self._bell)
                undo.callback(self._executor.close)
            self._worker = Worker(built.scratch(), preload=fast)
            undo.callback(self._worker.close)
            source = source_of(built, self._lease, self._worker, self._bell)
            undo.callback(source.close)
            with built.ledger.begin() as connection:
                campaigns.set_state(connection, built.row.id, CampaignState.RUNNING)
                started = {"reaped": self.reaped, "safety": note(built.spec) or "on"}
                campaigns.log_event(connection, built.row.id, "driver_started", started)
                self._purse = BudgetTracker(built, connection)
                self._purchasing = purchasing_of(built, connection)
                self.intake = Intake(source, connection, built.row.id)
                self._hits = queries.hits(connection, built.row.id)
                self._outside = self._look_outside(connection)
            self._pool: LocalPool[tuple[LocalJob, ...]] = LocalPool(
                self._workers, built.scratch(), preload=paid, bell=self._bell
            )
            undo.pop_all()
        self._heart = Heartbeat(built.ledger, self._lease, lambda: [k.claim for k in list(self._tickets.values())])
        self._heart.start()
        return self

    def _look_outside(self, connection: Connection) -> Outside:
        """Load jobs still out with remote workers and publish the rungs' settings; with a local pool, withdraw all
        offers."""
        built = self.built
        campaigns.write_requests(connection, {rung.id: request_for_workers(rung) for rung in built.paid})
        if self._executor is None:
            offers.withdraw(connection, built.row.id)
        else:
            offers.restate_needs(connection, {rung.id: text_of(rung.holds) for rung in built.paid})
        return Outside(built, connection)

    def release(self) -> None:
        """Give the lease back, if it is still ours; for who leaves while the ledger is away, and could not."""
        with self.built.ledger.begin() as connection:
            campaigns.release_driver(connection, self._lease)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        away = isinstance(error, LedgerAwayError)  # then a driver may go on from the last commit
        with suppress(LedgerAwayError) if away else nullcontext():
            self.intake.source.close()
        self._pool.close()
        self._worker.close()
        self._heart.stop()
        if self._executor is not None:
            self._executor.close()
        if away:
            with suppress(LedgerAwayError):
                self.release()
        elif not self._heart.lost.is_set():
            with self.built.ledger.begin() as connection:
                state = connection.execute(
                    sa.select(t.campaign.c.state).where(t.campaign.c.id == self.built.row.id)
                ).scalar()
                if state in (CampaignState.RUNNING, CampaignState.PAUSED):  # an error is on its way out
                    why = str(error) if isinstance(error, SciagentError) else repr(error)
                    campaigns.set_state(connection, self.built.row.id, CampaignState.FAILED, why[:500])
                campaigns.release_driver(connection, self._lease)

    def request_stop(self, why: str = INTERRUPTED[1]) -> None:
        """Start nothing more; what runs may finish."""
        self._stopped_by = why
        self._stop.set()

    def abort(self) -> None:
        """Kill what runs; it is run again when the campaign is resumed."""
        self._stop.set()
        self._abort.set()

    def run(self, on_step: Callable[[], None] = lambda: None) -> CampaignState:
        """Step until the goal is reached, the budget is spent, nothing is left, or a stop was asked for."""
        gc.freeze()  # what was loaded stays; looking through it for garbage took a tenth of the time at 10^5
        often = gc.get_threshold()
        gc.set_threshold(GARBAGE, *often[1:])
        try:
            while True:
                on_step()
                ended = self.step()
                if ended is not None:
                    on_step()
                    return ended
        finally:
            gc.set_threshold(*often)
            gc.unfreeze()

    def step(self, wait: float = 0.25) -> CampaignState | None:
        """Listen, collect, propose, dispatch. Idempotent from the ledger; returns the final state once there is one."""
        if self._heart.lost.is_set():
            raise StaleLeaseError("another process drives this campaign now; this one stops and writes nothing more")
        if time.monotonic() - self._listened > LISTEN_SECONDS:
            with self.built.ledger.read() as connection:
                self._listen(connection)
        self._obey()
        self._end_cancelled()
        fault = None if self._executor is None else self._executor.fault
        if fault or self._stop.is_set() or self._paused or self._purse.exhausted():
            self._recall()
        if fault:
            raise CampaignError(f"{fault}. Nothing is lost; then: sciagent resume {self.built.row.name}")
        if self._abort.is_set():
            self._pool.cancel()
            self._outside.leave()
        source, asked, self.intake.is_asking = self.intake.source, self.intake.is_asking, False
        if not (asked and source.is_ready) and (self._running or (asked and source.is_busy)):
            self._rest(wait)
        self._collect()
        if self._paused and not self._stop.is_set():
            if not self._running:
                self._stop.wait(wait)
            return None
        ending = self._ending()
        if ending is not None and not self._stop.is_set() and not self._purse.exhausted():
            self._dispatch(preferred_only=True)  # a person promoted something although the goal is reached
        if ending is None:
            proposed = self.intake.propose(self.built, self._purse, self._purchasing)
            started = self._dispatch()
            if proposed or started or self._running or (self.intake.is_asking and source.is_busy):
                return None
            ending = stop_rules.nothing_left(
                self.built, self._purse, self.intake.starved, self._shortfall, self._purchasing
            )
        if self._running:
            return None
        with self.built.ledger.begin() as connection:
            campaigns.check_driver(connection, self._lease)
            campaigns.set_state(connection, self.built.row.id, ending[0], ending[1])
            campaigns.log_event(connection, self.built.row.id, "ended", {"state": ending[0], "why": ending[1]})
            if ending != INTERRUPTED:  # a dispatcher that is stopped goes on with it later
                campaigns.host(connection, self.built.row.id, False)
        return ending[0]

    @property
    def _running(self) -> int:
        """Jobs that are not over, here and elsewhere."""
        return self._pool.running + self._outside.running

    def _listen(self, connection: Connection) -> None:
        """What people said since we last looked. They write to the ledger beside us, so it is read again."""
        self._listened = time.monotonic()
        if said := directives.since(connection, self.built.row.id, self._heard):
            self._heard = said[-1].id
            self._told += said
            self._touch(one.candidate_id for one in said if one.candidate_id is not None)
            self._recount(connection)
            self._hits = queries.hits(connection, self.built.row.id)
            self.intake.recount(connection, self.built.row.id)

    def _recount(self, connection: Connection) -> None:
        """Places and amounts as the ledger has them."""
        self._purse.refresh(self.built, connection)
        self._outside.restate(connection)

    def _end_cancelled(self) -> None:
        """Kill the running jobs that people have cancelled, and whoever shares their process, who waits again. Done
        at each step until they have come back, for a worker may just have been taking them up."""
        if self._tickets and time.monotonic() - self._looked > LISTEN_SECONDS:
            with self.built.ledger.read() as connection:
                self._cancelled |= jobs.to_be_cancelled(connection, list(self._tickets))
            self._looked = time.monotonic()
        if not self._cancelled:
            return
        waited, killed = self._pool.end(lambda group: any(one.claim.job_id in self._cancelled for one in group))
        self._killed |= {one.claim.job_id for group in killed for one in group}
        self._give_back([ticket for group in waited for ticket in group])

    def _give_back(self, tickets: Sequence[LocalJob]) -> None:
        """Return jobs that the pool had not begun: they are queued again, or cancelled if people want that."""
        if not tickets:
            return
        with self.built.ledger.begin() as connection:
            campaigns.check_driver(connection, self._lease)
            if cancelled := completing.give_back(connection, [one.claim for one in tickets]):
                settle_cancelled(connection, self.built, cancelled)
                self._recount(connection)
        for one in tickets:
            del self._tickets[one.claim.job_id]
        self._cancelled -= {one.claim.job_id for one in tickets}
        self._touch(one.job.candidate_id for one in tickets)

    def _touch(self, candidate_ids: Iterable[int]) -> None:
        """Something was written about these candidates."""
        self._purchasing.touch(candidate_ids)

    def _obey(self) -> None:
        """Pause, go on, stop, take up an amendment; all else that people say they have written themselves."""
        for one in self._told:
            if one.verb is Verb.STOP:
                self.request_stop(f"stopped by {one.who}" + (f": {one.why}" if one.why else ""))
                if one.payload.get("now"):
                    self._call_back()
                    self._abort.set()
            elif one.verb is Verb.AMEND:
                self._take_up_amendment()
            elif one.verb in (Verb.PAUSE, Verb.RESUME) and (one.verb is Verb.PAUSE) != self._paused:
                self._pause(one.verb is Verb.PAUSE)
                why = f"paused by {one.who}" + (f": {one.why}" if one.why else "") if self._paused else None
                with self.built.ledger.begin() as connection:
                    campaigns.check_driver(connection, self._lease)
                    state = CampaignState.PAUSED if self._paused else CampaignState.RUNNING
                    campaigns.set_state(connection, self.built.row.id, state, why)
                    campaigns.log_event(connection, self.built.row.id, str(state), {"who": one.who, "why": one.why})
        self._told.clear()

    def _call_back(self) -> None:
        """What workers elsewhere run waits for the next driver; they hear of it when they look, and end it."""
        with self.built.ledger.begin() as connection:
            campaigns.check_driver(connection, self._lease)
            completing.call_back(connection, self.built.row.id)
        self._outside.leave()

    def _pause(self, paused: bool) -> None:
        """A pause is not wall time of the campaign."""
        self._heart.count(not paused)
        if not paused:
            self._purse.rest(time.monotonic() - self._paused_at)
        self._paused, self._paused_at = paused, time.monotonic()

    def _take_up_amendment(self) -> None:
        """The campaign as it was amended in the ledger: budget, goal, limits, workers. If it cannot be read any more
        (a file of seeds is gone), this run goes on as it began, and says so in the ledger."""
        built = self.built
        try:
            self.built = built = open_stored(built.ledger, built.row.name, self.owner)
        except SciagentError as error:
            with built.ledger.begin() as connection:
                campaigns.log_event(connection, built.row.id, "amendment_not_taken_up", {"why": str(error)[:2000]})
            return
        with built.ledger.begin() as connection:
            campaigns.check_driver(connection, self._lease)
            self._purse.refresh(built, connection)
            self._purchasing = purchasing_of(built, connection)
            self._outside = self._look_outside(connection)
        self._pool.resize(self._own_workers or built.spec.workers)

    def _ending(self) -> Ending | None:
        """Why nothing more shall be started, or None."""
        if self._stop.is_set():
            return CampaignState.INTERRUPTED, self._stopped_by
        return stop_rules.reached(self.built, self._purse, self._hits, self._purchasing)

    def _rest(self, seconds: float) -> None:
        """Until a job has finished or a model has answered, at most so long."""
        if self._unmarked(time.monotonic()):
            seconds = min(seconds, BEGUN_SECONDS)
        if self._outside.running:
            seconds = min(seconds, LOOK_SECONDS)
        if self._pool.completed.empty() and not (self.intake.source.is_busy and self.intake.source.is_ready):
            self._bell.wait(seconds)  # or not at all, if it has rung since the last look
        self._bell.clear()  # before the look: what comes after it rings again

    def _collect(self) -> None:
        """Write all that has come back, in one transaction, and which jobs that were claimed ahead run by now."""
        self._settle_outside()
        done = []
        while (one := self._pool.next_completed()) is not None:
            done.append(one)
        ids = {ticket.claim.job_id for one in done for ticket in one.token}
        if done and collect(
            self.built, self._purse, self._lease, done, ids if self._abort.is_set() else self._killed
        ):  # places and what was held for them are free again
            with self.built.ledger.read() as connection:
                self._recount(connection)
        self._cancelled -= ids
        self._killed -= ids
        for one in done:
            for ticket, result in zip(one.token, one.results, strict=False):
                if result.finding.outcome is Outcome.LOST:
                    continue
                took = result.wall_seconds if result.own_seconds is None else result.own_seconds
                self._pace.observe(ticket.rung.rules.position, took)
            for ticket in one.token:
                self._tickets.pop(ticket.claim.job_id, None)
            self._touch(local.job.candidate_id for local in one.token)
        counts = self.built.spec.goal.kind == "hits"
        if counts and any(one.token[0].rung.rules.is_terminal for one in done):
            with self.built.ledger.read() as connection:
                self._hits = queries.hits(connection, self.built.row.id)
        self._mark_begun()

    def _settle_outside(self) -> None:
        """What workers elsewhere have ended: its evidence is in the ledger, and its candidates are to be placed."""
        if not self._outside.running:
            return
        with self.built.ledger.read() as connection:
            ended = self._outside.poll(connection)
        if not ended:
            return
        with self.built.ledger.begin() as connection:
            campaigns.check_driver(connection, self._lease)
            settled = self._outside.settle(connection, ended)
            if self.built.spec.goal.kind == "hits" and any(one.position == self.built.terminal for one in settled):
                self._hits = queries.hits(connection, self.built.row.id)
        self._outside.account(self._purse, self._pace, ended)
        if any(one.state is JobState.CANCELLED for one in ended):
            with self.built.ledger.read() as connection:
                self._recount(connection)
        self._touch(one.out.candidate_id for one in settled)

    def _mark_begun(self) -> None:
        """Who kills us from now on leaves these attempts running, not waiting. Those of milliseconds are not marked."""
        if begun := self._unmarked(time.monotonic() - BEGUN_SECONDS):
            with self.built.ledger.begin() as connection:
                campaigns.check_driver(connection, self._lease)
                leases.begun(connection, [one.claim for one in begun])
            self._tickets.update({one.claim.job_id: replace(one, ahead=False) for one in begun})

    def _unmarked(self, before: float) -> list[LocalJob]:
        """What was claimed ahead and a worker has had in hand since `before`."""
        held = [self._tickets.get(one.claim.job_id) for group in self._pool.begun(before) for one in group]
        return [one for one in held if one is not None and one.ahead]

    def _recall(self) -> None:
        """What waits for a worker is queued again: nothing more is to be started."""
        if self._executor is not None and self._outside.running:
            with self.built.ledger.begin() as connection:
                campaigns.check_driver(connection, self._lease)
                withdrawn = offers.withdraw(connection, self.built.row.id)
            self._outside.forget(withdrawn)
        self._give_back([ticket for group in self._pool.recall() for ticket in group])

    def _dispatch(self, preferred_only: bool = False) -> bool:
        """Give every worker something to do, and what is short something to go on with; True if anything was started
        or reused. preferred_only: with what a person promoted."""
        if self._executor is not None:
            return self._offer(self._executor, preferred_only)
        built, acted = self.built, False
        positions = [rung.rules.position for rung in built.paid]
        self._shortfall = None
        while wanted := self._pace.wanted(positions, self._pool.free, 0 if preferred_only else self._pool.waiting_room):
            places = Places[LocalJob](self._pace, self._pool.free, self._pool.waiting_room, built.wide)
            with built.ledger.begin() as connection:
                campaigns.check_driver(connection, self._lease)
                self._listen(connection)  # under the lock: what was said before this is known when we choose
                if any(one.verb in (Verb.PAUSE, Verb.STOP) for one in self._told):
                    return True  # obeyed in the next step
                free = self._pool.free
                for ticket in take_queued(connection, built, self._purse, self.owner, free, preferred_only):
                    places.alone(ticket.rung.rules.position, ticket)
                done = self._promote(connection, 0 if preferred_only else wanted - len(places.groups), places)
            for group in places.groups:  # only after the commit: the ledger is the record
                self._tickets.update({ticket.claim.job_id: ticket for ticket in group.jobs})
                self._pool.submit(tuple(group.jobs), request_of([local.job for local in group.jobs], built.scratch()))
            acted |= bool(places.groups) or done.reused
            if not done.reused:
                break
        return acted

    def _offer(self, executor: Executor, preferred_only: bool) -> bool:
        """Offer jobs to workers elsewhere, as many as they can take; True if any was offered or reused."""
        built, acted = self.built, False
        self._shortfall = None
        while True:
            with built.ledger.begin() as connection:
                campaigns.check_driver(connection, self._lease)
                self._listen(connection)
                if any(one.verb in (Verb.PAUSE, Verb.STOP) for one in self._told):
                    return True  # obeyed in the next step
                rooms = self._outside.rooms(connection, self._pace)
                if rooms.is_full:
                    return acted
                offer_queued(connection, built, self._purse, rooms, preferred_only)
                wanted = 0 if preferred_only else rooms.total
                done = self._promote(connection, wanted, rooms)
            self._outside.add(rooms.offered)  # only after the commit: the ledger is the record
            executor.wake(self._outside.calls(rooms.offered, self._pace))
            acted |= bool(rooms.offered) or done.reused
            if not done.reused:
                return acted

    def _promote(self, connection: Connection, wanted: int, places: Places[LocalJob] | Rooms) -> Dispatched:
        """Start what the scheduler chooses. What the budget does not hold is passed over for the next that it does."""
        total, put_off = Dispatched(), set[int]()
        while wanted > 0:
            chosen = self._purchasing.choose(connection, self._purse, wanted, self.intake.holding, places.open, put_off)
            done = promote(connection, self.built, self._purse, chosen, self.owner, places)
            self._touch(one.id for one in chosen)
            self._purchasing.take_back(done.unplaced, done.refused)
            put_off |= {one.id for one in done.refused}
            self._shortfall = self._shortfall or done.shortfall or self._purchasing.blocked
            total = Dispatched(total.reused or done.reused, total.refused + done.refused)
            if not done.refused or not places.has_free or wanted > WINDOW:
                break
            wanted *= 2  # more than are free, for these may not fit either
        return total
