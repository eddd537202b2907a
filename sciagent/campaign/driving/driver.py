"""The driver: runs a campaign step by step under a lease. If it is killed, another driver continues from the ledger.

At its start a driver makes the calibrations again, and places the candidates again if a calibration has changed. The
control is a rung that runs on settled candidates and decides nothing; the driver draws by lot on which ones it runs.
A crew is the part of the driver that has jobs run: by local processes, by remote workers, or by people.
"""

from __future__ import annotations

import gc
import math
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import (
    Built,
    check_engines,
    check_here,
    is_drawn,
    prepare,
    record_derived,
)
from sciagent.campaign.core.calibrate_to_imported_values import fits_of
from sciagent.campaign.core.record_results_and_place import settle_again
from sciagent.campaign.core.verdicts_and_places import Place
from sciagent.campaign.driving.choices_to_jobs import MAX_CHOICES, carry_out_choices, resume_queued, take_up_answers
from sciagent.campaign.driving.directives_and_proposer_turns import Intake, Mailbox
from sciagent.campaign.driving.driver_state_and_heartbeat import (
    INTERRUPTED,
    Crew,
    DiskWatch,
    DriverSession,
    Ending,
    Heartbeat,
)
from sciagent.campaign.driving.job_slots import JobSlots, Pace
from sciagent.campaign.driving.lab_jobs_and_list_order import (
    JointCrew,
    WorldJobs,
    ending_with_people,
    reorder_list,
    wake_for_reordering,
)
from sciagent.campaign.driving.local_jobs import LocalJobs, reap
from sciagent.campaign.driving.remote_jobs import RemoteJobs
from sciagent.campaign.file.rungs import DEFAULT_CONTROL_SHARE
from sciagent.campaign.pricing.purchasing_interface import BlockedBy
from sciagent.campaign.proposing.start_and_combine_sources import MakeSource, source_of
from sciagent.domain.proposer_interfaces import Choice
from sciagent.domain.rung_calibration_on_measurements import Fit
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.states_and_needs import CampaignState, Standing
from sciagent.errors import CampaignError, LedgerAwayError, LedgerReplacedError, SciagentError, StaleLeaseError
from sciagent.execution.executor_wakes_workers import Executor
from sciagent.store.campaign_state import campaigns, candidate_standings, directives, note_and_take_watermarks
from sciagent.store.campaign_state.campaigns import log_event
from sciagent.store.database import tables as t
from sciagent.store.job_queue import jobs
from sciagent.store.results import laws_and_audits
from sciagent.store.results.evidence import read_watermark
from sciagent.verification.sandbox.host import Worker, sweep

LEAST_SECONDS_BETWEEN_LOOKS = 1.0  # shortest time between two looks for settled candidates while jobs run
LARGEST_SHARE_OF_LOOKS = 0.03  # largest share of the driver's time for looks


class ControlDraws:
    """The candidates that wait for the control. The budget of the control's rung limits how many get it."""

    def __init__(self, session: DriverSession, connection: Connection) -> None:
        self._session = session
        control = session.built.control
        self._known_ids = set() if control is None else candidate_standings.ids_decided_on(connection, control.id)
        self._waiting: list[int] = []
        self._next_look_at = 0.0

    def due(self, connection: Connection, idle: bool, rungs: Collection[Position], slots: int) -> list[Choice]:
        """Returns at most `slots` choices. idle: whether no job runs, so that settled candidates are looked for at
        once. rungs: positions of rungs with a slot for a job."""
        control = self._session.built.control
        if control is None or control.rules.position not in rungs:
            return []
        if idle or time.monotonic() >= self._next_look_at:
            self._look(connection)
        position = control.rules.position
        remaining_jobs = self._session.budget.remaining_jobs(position)
        n = slots if remaining_jobs is None else min(slots, remaining_jobs)
        share = control.spec.share or DEFAULT_CONTROL_SHARE
        why = f"control: drawn with a chance of {share:g}"
        return [Choice(id_, position, index=0.0, propensity=share, why=why) for id_ in self._waiting[:n]]

    def take(self, started: Collection[int]) -> None:
        """Removes candidates for which the control was started or its evidence reused."""
        self._waiting = [id_ for id_ in self._waiting if id_ not in started]

    def _look(self, connection: Connection) -> None:
        """Draws the lots of candidates that have been settled since the last look."""
        begun = time.monotonic()
        built = self._session.built
        assert built.control is not None
        settled = candidate_standings.settled_ids(connection, built.row.id)
        new = [id_ for id_ in settled if id_ not in self._known_ids]
        self._known_ids.update(new)
        if new:
            keys = laws_and_audits.candidate_keys(connection, new)
            drawn = is_drawn(built.control, built.spec.seed, (keys[id_] for id_ in new))
            self._waiting += [id_ for id_, is_chosen in zip(new, drawn, strict=True) if is_chosen]
        took = time.monotonic() - begun
        self._next_look_at = time.monotonic() + max(LEAST_SECONDS_BETWEEN_LOOKS, took / LARGEST_SHARE_OF_LOOKS)


MEASURED_EVENT = "measurements_placed"  # logged when a driver has placed the candidates with new imported values
PLACED_WITHOUT_REFIT = (Standing.PENDING, Standing.VETOED)  # placed when their job ends, or when they are released
EQUAL_FIELDS = ("n", "kind", "measured_level", "is_used")  # fields of a fit that change only with its data
CLOSE_FIELDS = ("slope", "intercept", "mean_absolute_error")  # fields of a fit that may differ by rounding
FIT_TOLERANCE = 1e-9  # relative difference of two fits that counts as none
FIT_ABSOLUTE_TOLERANCE = 1e-12  # absolute difference of two fits that counts as none; for values near 0


def refit(connection: Connection, built: Built) -> None:
    """Makes the fits again from what the ledger holds now. If one has changed, it is stored and the candidates that
    its rung has answered are placed again. Call it with the driver lease. Raises UsageError as `fits_of` does."""
    changed: dict[int, dict[str, Fit]] = {}
    lowest = len(built.rungs)  # lowest position of a rung whose fit in use has changed; this value if there is none
    for position, fits in fits_of(connection, built.spec).items():
        rung = built.rungs[position]
        for name, fit in fits.items():
            if _has_changed(rung.all_fits.get(name), fit):
                changed.setdefault(rung.id, {})[name] = fit
                if name in rung.fits or fit.is_used:  # it was used, or is used now: placements depend on it
                    lowest = min(lowest, position)
                rung.all_fits[name] = fit
                line = fit.sentence(rung.spec.rung, built.row.units.get(name))
                log_event(connection, built.row.id, "calibrated", {"fit": line})
    if changed:
        note_and_take_watermarks.write_fits(connection, built.row.id, changed)
        c = t.campaign_candidate.c
        query = sa.select(c.candidate_id).where(c.campaign_id == built.row.id, c.depth >= lowest)
        _place_again(connection, built, connection.execute(query).scalars().all())


def place_new_measurements(connection: Connection, built: Built) -> None:
    """Places again the candidates whose imported values are newer than the last driver's start, if such values decide
    objectives. Call it with the driver lease."""
    if not built.measured_decides:
        return
    watermark = read_watermark(connection)
    last = campaigns.last_payload(connection, built.row.id, MEASURED_EVENT)
    since = 0 if last is None else int(last["watermark"])
    ids = candidate_standings.ids_with_imports_since(connection, built.row.id, since)
    _place_again(connection, built, ids)
    log_event(connection, built.row.id, MEASURED_EVENT, {"watermark": watermark, "candidates": len(ids)})


def record_derived_of_answered(connection: Connection, built: Built) -> None:
    """Records the derived values of candidates that people have answered, which a web server leaves to the driver if it
    cannot seal evidence. Call it with the driver lease."""
    rung_ids = {rung.rules.position: rung.id for rung in built.asked}
    of_parts = {position for rung in built.rungs for prop in rung.spec.derived for position in prop.rungs}
    for position in sorted(of_parts & rung_ids.keys()):
        record_derived(connection, built, jobs.answered_candidates(connection, rung_ids[position]))


def _has_changed(old: Fit | None, new: Fit) -> bool:
    """Whether the fit differs from the old one by more than rounding."""
    if old is None:
        return True
    if any(getattr(old, name) != getattr(new, name) for name in EQUAL_FIELDS):
        return True
    for name in CLOSE_FIELDS:
        is_close = math.isclose(
            getattr(old, name), getattr(new, name), rel_tol=FIT_TOLERANCE, abs_tol=FIT_ABSOLUTE_TOLERANCE
        )
        if not is_close:
            return True
    return False


def _place_again(connection: Connection, built: Built, candidate_ids: Sequence[int]) -> None:
    """Places candidates again, in the order of their ids."""
    for candidate_id in sorted(candidate_ids):
        before = Place.from_columns(candidate_standings.get(connection, built.row.id, candidate_id))
        if before.standing not in PLACED_WITHOUT_REFIT:
            settle_again(connection, built, candidate_id, before=before)


STEP_SECONDS = 0.25  # longest time that a step waits for a job or a model
REMOTE_CHECK_SECONDS = 0.05  # interval between checks for remote jobs that have ended; a notification may come sooner
_LEDGER_GONE = (LedgerAwayError, LedgerReplacedError)
# new objects before a garbage collection; a batch of jobs makes as many, few of them in cycles
OBJECTS_PER_COLLECTION = 20_000
MAX_REASON = 500  # characters of an error that the campaign's state keeps


class Driver:
    """The driver of one campaign, used as a context manager.

    Entering takes the driver lease and the jobs of dead drivers; leaving gives the lease back.
    workers: number of parallel local jobs; None: as in the spec. executor: notifies remote workers, which then run all
    jobs; None: jobs run locally.
    Raises CampaignError if a live driver holds the campaign.
    """

    reaped = 0
    """Number of jobs taken back from dead drivers."""

    worker: Worker
    """Process of the fast rungs."""

    def __init__(
        self, built: Built, workers: int | None = None, executor: Executor | None = None, source: MakeSource = source_of
    ) -> None:
        """source: makes the source of candidates; default: the campaign's own proposers."""
        self._make_source = source
        self.session = DriverSession(built)
        self.request_stop = self.session.request_stop
        self.abort = self.session.abort
        self.pace = Pace(built.jobs_per_call)
        self._workers = workers
        self._runs_locally = executor is None
        self._executor = executor or Executor()
        self._bell = threading.Event()  # set when a job has finished or a model has answered
        self._disks = DiskWatch(built)
        self._shortfall: str | None = None  # message about a job that could run but exceeds the budget

    @property
    def built(self) -> Built:
        return self.session.built

    def __enter__(self) -> Driver:
        try:
            with self.session.computing():
                self._start()
        except _LEDGER_GONE:
            with suppress(*_LEDGER_GONE):  # the connection may be lost after the ledger has given the lease
                self.release()
            raise
        return self

    def _start(self) -> None:
        """Takes the lease, then reads the state of the campaign and starts what the steps need."""
        built = self.built
        session = self.session
        if self._runs_locally:
            check_here(built.computed, self._workers or built.spec.workers)
        for rung in built.fast:
            check_engines(rung)
        check_here([rung for rung in built.fast if rung.spec.inline], self._workers or built.spec.workers)
        built.ledger.secret.keys()  # a driver that cannot seal evidence begins nothing
        with built.ledger.begin() as connection:
            session.lease = campaigns.take_driver(connection, built.row.id, session.owner)
            refit(connection, built)
            place_new_measurements(connection, built)
            record_derived_of_answered(connection, built)
            last_directive_id = directives.last_id(connection, built.row.id)
        with ExitStack() as undo:  # undoes a start that fails half way
            undo.callback(self.release)
            self.reaped = reap(session)
            sweep(built.scratch())  # removes the folders of dead workers
            prepare(built.all_rungs)
            self._executor.listen(built.row.id, self._bell)
            undo.callback(self._executor.close)
            self.worker = Worker(built.scratch(), preload=[rung.verifier.name for rung in built.fast])
            undo.callback(self.worker.close)
            source = self._make_source(built, session.lease, self.worker, self._bell)
            undo.callback(source.close)
            with built.ledger.begin() as connection:
                campaigns.set_state(connection, built.row.id, CampaignState.RUNNING)
                session.log(connection, "driver_started", reaped=self.reaped, safety=built.spec.safety_note or "on")
                session.open(connection)
                reorder_list(connection, session)
                self.intake = Intake(source, connection, built.row.id)
                self._draws = ControlDraws(session, connection)
                session.crews = self._crews(connection)
            undo.pop_all()
        self.heart = Heartbeat(session)
        self.mailbox = Mailbox(session, self.heart, last_directive_id)
        self.heart.start()

    def _crews(self, connection: Connection) -> tuple[Crew, ...]:
        """Returns the crew that takes new jobs and, with a local pool, a second one for an earlier driver's remote
        jobs."""
        takes_new = not self._runs_locally
        remote = RemoteJobs(self.session, self.pace, self._executor, takes_new, connection)
        if not self._runs_locally:
            return (self._with_people(remote, connection),)
        local = LocalJobs(self.session, self.pace, self._workers, self._bell)
        return self._with_people(local, connection), remote

    def _with_people(self, computers: Crew, connection: Connection) -> Crew:
        """Returns the crew, joined with the crew of people if people do a rung."""
        if not self.built.asked:
            return computers
        return JointCrew(computers, WorldJobs(self.session, self.pace, connection))

    def release(self) -> None:
        """Gives the lease back if this driver holds it. May be called again if the ledger was unreachable at the exit,
        and before the driver knows whether it has the lease."""
        with self.built.ledger.begin() as connection:
            campaigns.release_driver(connection, self.built.row.id, self.session.owner)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        is_ledger_gone = isinstance(error, _LEDGER_GONE)  # another driver may continue from the last commit
        ignored = _LEDGER_GONE if is_ledger_gone else ()
        # each part is ended although the ledger may be unreachable at an earlier one; the last callback runs first
        with suppress(*ignored), ExitStack() as leaving:
            leaving.callback(self._give_back, error)
            leaving.callback(self.heart.stop)
            leaving.callback(self.worker.close)
            for crew in reversed(self.session.crews):
                leaving.callback(crew.close)
            leaving.callback(self.intake.source.close)

    def _give_back(self, error: BaseException | None) -> None:
        """Gives the lease back; marks the campaign as failed if the driver leaves because of an error that is not one
        of the ledger. error: with which the driver leaves. Raises LedgerAwayError; the lease then expires."""
        if isinstance(error, _LEDGER_GONE):
            self.release()
            return
        if self.heart.lost.is_set():
            return
        with self.built.ledger.begin() as connection:
            state = campaigns.get(connection, self.built.row.name).state
            if state in (CampaignState.RUNNING, CampaignState.PAUSED):
                why = str(error) if isinstance(error, SciagentError) else repr(error)
                campaigns.set_state(connection, self.built.row.id, CampaignState.FAILED, why[:MAX_REASON])
            campaigns.release_driver(connection, self.built.row.id, self.session.owner)

    def run(self, on_step: Callable[[], None] = lambda: None) -> CampaignState:
        """Steps the campaign until it ends; returns its state. on_step: called before each step and at the end."""
        gc.freeze()  # spares garbage collection of loaded objects, which took a tenth of the time at 10^5 candidates
        thresholds = gc.get_threshold()
        gc.set_threshold(OBJECTS_PER_COLLECTION, *thresholds[1:])
        try:
            while True:
                on_step()
                ended = self.step()
                if ended is not None:
                    on_step()
                    return ended
        finally:
            gc.set_threshold(*thresholds)
            gc.unfreeze()

    def step(self, wait: float = STEP_SECONDS) -> CampaignState | None:
        """Obeys directives, settles jobs, proposes candidates and dispatches jobs; returns the final state once there
        is one. wait: longest time, in seconds, to wait for a job or a model."""
        ending = self._go_on(wait)
        if ending is None or self.running:
            return None
        return self._end_campaign(ending)

    def settle(self, seconds: float) -> bool:
        """Steps the campaign until nothing is left to run, or the time is over. The campaign does not end, so that more
        can be proposed to it. Returns whether nothing is left."""
        deadline = time.monotonic() + seconds
        while True:
            remaining_seconds = deadline - time.monotonic()
            if remaining_seconds <= 0:
                return False
            ending = self._go_on(min(remaining_seconds, STEP_SECONDS))
            if ending is not None and not self.running:
                return True

    def _go_on(self, wait: float) -> Ending | None:
        """Takes a step; returns the ending once no more jobs may start, otherwise None. wait: as in `step`."""
        with self.session.computing():
            return self._take_step(wait)

    def _take_step(self, wait: float) -> Ending | None:
        self.attend()
        self._hold_back()
        self._wait_for_news(wait)
        self._settle_jobs()
        if self.mailbox.paused and not self.session.stopping.is_set():
            if not self.running:
                self.session.stopping.wait(wait)
            return None
        return self._advance()

    def attend(self) -> None:
        """Obeys directives. Raises StaleLeaseError if another process drives the campaign now, LedgerReplacedError if
        the file of the ledger is gone."""
        if self.heart.fault is not None:
            raise self.heart.fault
        if self.heart.lost.is_set():
            raise StaleLeaseError("another process drives this campaign now; this one stops and writes nothing more")
        if self.mailbox.is_due:
            with self.built.ledger.read() as connection:
                self._look(connection)
        self.mailbox.obey()

    @property
    def running(self) -> int:
        """Number of jobs that are not over, local and remote."""
        return sum(crew.running for crew in self.session.crews)

    def _look(self, connection: Connection) -> None:
        """Reads people's directives since the last look."""
        if self.mailbox.look(connection):
            self.intake.recount(connection, self.built.row.id)

    def _hold_back(self) -> None:
        """Takes back jobs that have not begun if no more jobs may start. Raises CampaignError if no job can run."""
        session = self.session
        faults = [crew.fault for crew in session.crews if crew.fault]
        fault = faults[0] if faults else self._disks.fault()
        if fault or session.stopping.is_set() or self.mailbox.paused or session.spent():
            for crew in session.crews:
                crew.recall()
        if fault:
            raise CampaignError(f"{fault}. Nothing is lost; then: sciagent resume {self.built.row.name}")
        if session.aborting.is_set():
            for crew in session.crews:
                crew.abort()

    def _wait_for_news(self, seconds: float) -> None:
        """Waits until a job has finished or a model has answered; returns at once if candidates can be proposed now."""
        source = self.intake.source
        asked_model = self.intake.is_asking
        self.intake.is_asking = False
        can_propose = asked_model and source.is_ready
        awaits_model = asked_model and source.is_busy
        if can_propose or not (self.running or awaits_model):
            return
        if self.session.crews[-1].running:  # remote workers, whose results may come without a notification
            seconds = min(seconds, REMOTE_CHECK_SECONDS)
        self._bell.wait(seconds)  # returns at once if the bell was set since the last wait
        self._bell.clear()  # before results are read, so that a later result sets the bell again

    def _settle_jobs(self) -> None:
        """Writes results of finished jobs, and counts hits again if the goal needs the number."""
        positions = set[Position]()
        for crew in self.session.crews:
            positions.update(crew.settle())
        may_be_settled = self.built.terminal in positions or (positions and self.built.measured_decides)
        if self.built.spec.goal.kind == "hits" and may_be_settled:
            with self.built.ledger.read() as connection:
                self.session.count_hits(connection)

    def _advance(self) -> Ending | None:
        """Proposes candidates and starts jobs. Returns the ending once no more jobs may start, otherwise None."""
        session = self.session
        if session.stopping.is_set():
            return CampaignState.INTERRUPTED, session.stop_reason
        ending = session.reached()
        if ending is not None:
            if not session.spent():  # a job that a person promoted runs although the goal is reached
                self._dispatch(preferred_only=True)
            if ending[0] is CampaignState.BUDGET_SPENT and self._take_up_known_answers():
                return None
            return ending
        proposed = self.intake.propose(session)
        # the new candidates may be settled already
        settles_at_once = session.built.decides_at_once or session.built.measured_decides
        if proposed and settles_at_once and session.built.spec.goal.kind == "hits":
            with session.built.ledger.read() as connection:
                session.count_hits(connection)
        started = self._dispatch()
        if proposed or started or self.running or self._awaits_model:
            return None
        if self._try_what_is_left():
            return None
        return session.nothing_left(self.intake.ended, self.intake.starved, self._shortfall)

    @property
    def _awaits_model(self) -> bool:
        """Whether a model was asked that has not answered yet."""
        return self.intake.is_asking and self.intake.source.is_busy

    def _try_what_is_left(self) -> bool:
        """Tries to continue when nothing runs and nothing could start; returns whether the campaign goes on.

        First the rungs are tried that were held back until the first paid rung has answered. Then the proposer is
        asked. If the budget is released in proportion to the proposals, the proposer is asked although candidates
        wait. This ends, since the number of proposals and the number of turns without a new candidate are limited.
        """
        if self.intake.holding:
            self.intake.holding = False
            if self._dispatch():
                return True
        blocked = self.session.purchasing.blocked
        # more proposals release more of the budget
        insist = blocked is not None and blocked.by is BlockedBy.SLICE
        return self.intake.propose(self.session, insist=insist, is_idle=True) or self._awaits_model

    def _take_up_known_answers(self) -> bool:
        """Takes up reusable evidence, which costs nothing, for candidates that wait at a rung for which the budget has
        no more jobs; returns whether there was any."""
        session = self.session
        is_spent = session.spent() is not None
        reused = False
        for rung in self.built.paid:
            position = rung.rules.position
            if not is_spent and session.budget.remaining_jobs(position) != 0:
                continue
            with session.begin() as connection:
                ids = candidate_standings.waiting_with_answer(
                    connection, self.built.row.id, rung.id, position, rung.verifier.computation, MAX_CHOICES
                )
                choices = [Choice(id_, position, 0.0) for id_ in ids]
                if take_up_answers(connection, session, choices):
                    session.purchasing.pool.mark_changed(ids)
                    reused = True
        if reused and self.built.spec.goal.kind == "hits":
            with self.built.ledger.read() as connection:
                session.count_hits(connection)
        return reused

    def _end_campaign(self, ending: Ending) -> CampaignState:
        with self.session.computing(), self.session.begin() as connection:
            state, why = ending_with_people(connection, self.session, ending)
            self.session.purchasing.write_chances(connection)
            campaigns.set_state(connection, self.built.row.id, state, why)
            wake_for_reordering(connection, self.session, state)
            self.session.log(connection, "ended", state=state, why=why)
            is_resumed_by_dispatcher = ending == INTERRUPTED or state is CampaignState.WAITING
            if not is_resumed_by_dispatcher:
                campaigns.set_hosted(connection, self.built.row.id, hosted=False)
        return state

    def _dispatch(self, preferred_only: bool = False) -> bool:
        """Fills the crew's slots with jobs. Returns True if a job was started, evidence was reused, or a directive is
        waiting. preferred_only: only jobs that a person promoted."""
        crew = self.session.crews[0]
        acted = False
        self._shortfall = None
        while crew.has_room:
            with self.session.begin() as connection:
                self._look(connection)  # under the lock, so that all earlier directives are known when jobs are chosen
                if self.mailbox.halts:
                    return True
                slots = crew.slots(connection)
                if not slots.wanted:
                    return acted
                resume_queued(connection, self.session, crew, slots, preferred_only)
                reused = self._start_control(connection, crew, slots)
                if not preferred_only:
                    reused_by_scheduler = self._start_choices(connection, crew, slots)
                    reused = reused or reused_by_scheduler
            started = crew.launch()  # after the commit, so that no job runs that is not in the ledger
            acted = acted or started > 0 or reused
            if not reused:  # reused evidence takes no slot, so more jobs may fit
                break
        return acted

    def _start_control(self, connection: Connection, crew: Crew, slots: JobSlots) -> bool:
        """Starts the control on candidates that were drawn for it; returns True if evidence was reused."""
        is_idle = not self.running
        chosen = self._draws.due(connection, idle=is_idle, rungs=slots.open, slots=slots.wanted)
        done = carry_out_choices(connection, self.session, chosen, crew, slots)
        not_started = {choice.id for choice in (*done.refused, *done.unplaced)}
        self._draws.take({choice.id for choice in chosen} - not_started)
        return done.reused

    def _start_choices(self, connection: Connection, crew: Crew, slots: JobSlots) -> bool:
        """Starts the scheduler's choices; returns True if evidence was reused. A job that does not fit the budget is
        skipped in favour of the next one that fits."""
        reused = False
        wanted = slots.wanted
        put_off = set[int]()
        purchasing = self.session.purchasing
        while wanted > 0:
            chosen = purchasing.choose(
                connection, slots=wanted, first_only=self.intake.holding, places=slots.open, put_off=put_off
            )
            done = carry_out_choices(connection, self.session, chosen, crew, slots)
            purchasing.pool.mark_changed(choice.id for choice in chosen)
            purchasing.take_back(done.unplaced, done.refused)
            put_off.update(choice.id for choice in done.refused)
            blocked = purchasing.blocked
            self._shortfall = self._shortfall or done.shortfall
            if self._shortfall is None and blocked is not None:
                self._shortfall = blocked.words
            reused = reused or done.reused
            if not done.refused or not slots.has_free or wanted > MAX_CHOICES:
                break
            wanted *= 2  # more choices than slots, since further ones may not fit the budget either
        return reused


class SteppedDrive:
    """Runs of a campaign in this process, one step at a time.

    A run ends with the campaign, at `close`, or with an error.
    """

    def __init__(self, opened: Callable[[], Built]) -> None:
        """opened: returns the campaign as the ledger has it now; called once for each run."""
        self._opened = opened
        self._driver: Driver | None = None

    @property
    def is_open(self) -> bool:
        """Whether this process is the campaign's driver."""
        return self._driver is not None

    def step(self, wait: float = 0.25) -> CampaignState | None:
        """Takes one step; the first one begins a run. Returns the state in which the run ended; None if it goes on.

        wait: longest time to wait for a job, in seconds.
        """
        driver = self._driver or Driver(self._opened()).__enter__()  # `leaving` exits it at the end or after an error
        self._driver = driver
        with ExitStack() as leaving:
            leaving.push(driver)
            leaving.callback(setattr, self, "_driver", None)
            ended = driver.step(wait)
            if ended is None:  # the driver is kept for the next step
                leaving.pop_all()
        return ended

    def close(self, now: bool = False) -> None:
        """Ends the run after its running jobs finish. now: kill them instead."""
        if self._driver is None:
            return
        if now:
            self._driver.abort()
        else:
            self._driver.request_stop("its notebook or script let go of it")
        while self.is_open:
            self.step()
