"""Dispatch: turns the scheduler's choices into decisions, reused evidence, and jobs that a crew starts.

A crew is the part of a driver that has jobs run: by local processes, by remote workers, or by people. The control is a
rung that runs on settled candidates and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.campaign.core.record_results_and_place import (
    Settling,
    known_answers,
    replicates_to_make,
    set_pending,
    settle,
    settle_again,
)
from sciagent.campaign.driving.driver_state_and_heartbeat import Crew, DriverSession
from sciagent.campaign.driving.job_slots import AMPLE_JOBS, JobSlots, PlannedJob
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.proposer_interfaces import Choice
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.states_and_needs import Standing
from sciagent.store.campaign_state import candidate_standings, directives
from sciagent.store.job_queue import jobs, reservations_and_bookings
from sciagent.store.results import candidates, evidence_seals
from sciagent.store.results.laws_and_audits import AUDIT

CONTROL = "control"  # the chooser in decisions to run the control
KNOWN = "known under the same settings"  # the reason of a decision to reuse evidence
MAX_CHOICES = 512  # a dispatch asks for no more choices once it has asked for this many


@dataclass
class Dispatched:
    """The result of carrying out one batch of choices."""

    reused: bool = False
    """Whether evidence in the ledger answered at least one choice."""
    refused: list[Choice] = field(default_factory=list)
    """Choices whose reservation exceeds the budget."""
    unplaced: list[Choice] = field(default_factory=list)
    """Choices for which no worker had a slot."""
    shortfall: str | None = None
    """Message about the first refused choice: the amount it would have reserved and the amount left."""


def carry_out_choices(
    connection: Connection, session: DriverSession, choices: Sequence[Choice], crew: Crew, slots: JobSlots
) -> Dispatched:
    """Writes decisions, starts jobs and reuses evidence for the choices, most urgent first, until all slots are taken.
    Runs inside a write transaction."""
    done = Dispatched()
    if not choices:
        return done
    built = session.built
    budget = session.budget
    choices, done.unplaced = _within_verifications(connection, session, choices)
    loaded = candidates.load(connection, [choice.id for choice in choices])
    known = _known(connection, built, choices)
    decided: list[_Decided] = []
    reused: list[Choice] = []
    planned: list[PlannedJob] = []
    for place, choice in enumerate(choices):
        evidence_id = known.get((choice.position, choice.id))
        if evidence_id is not None:
            decided.append((choice, "reuse", KNOWN, evidence_id))
            reused.append(choice)
            continue
        rung = built.all_rungs[choice.position]
        replicates = replicates_to_make(connection, rung, choice.id)
        if not replicates:  # all measurements that it lacks are asked for
            set_pending(connection, built, choice.id, rung)
            continue
        job, ample, shortfall = _plan(budget, rung, choice.id, loaded[choice.id], replicates)
        if shortfall is not None:
            done.refused.append(choice)
            done.shortfall = done.shortfall or shortfall
            continue
        call = slots.take(choice.position, ample)
        if call is None:
            if slots.is_full:
                done.unplaced += choices[place:]  # less urgent choices get no slot either
                break
            done.unplaced.append(choice)
            continue
        decided.append((choice, "run", choice.why, None))
        planned.append(replace(job, call=call, priority=choice.index))
        for _ in job.replicates:
            budget.reserve(choice.position, job.reservation)
    _decide(connection, built, decided)
    _settle_reused(connection, session, reused)
    done.reused = bool(reused)
    if planned:
        _start(connection, built, crew, planned)
    return done


def take_up_answers(connection: Connection, session: DriverSession, choices: Sequence[Choice]) -> bool:
    """Takes up the reusable evidence of the choices; returns whether there was any. The budget of verifications limits
    it. Runs inside a write transaction."""
    allowed, _ = _within_verifications(connection, session, choices)
    known = _known(connection, session.built, allowed)
    reused = [choice for choice in allowed if (choice.position, choice.id) in known]
    _decide(
        connection, session.built, [(choice, "reuse", KNOWN, known[choice.position, choice.id]) for choice in reused]
    )
    _settle_reused(connection, session, reused)
    return bool(reused)


def _settle_reused(connection: Connection, session: DriverSession, reused: Sequence[Choice]) -> None:
    """Counts the choices whose evidence is reused, and places their candidates again."""
    for choice in reused:
        session.budget.reuse(choice.position)
    settle(connection, session.built, [Settling(choice.id, choice.position) for choice in reused])


def _within_verifications(
    connection: Connection, session: DriverSession, choices: Sequence[Choice]
) -> tuple[list[Choice], list[Choice]]:
    """Splits choices into the ones that the budget of verifications allows, and the others.

    Choices of rungs below the terminal one are always allowed, and so are choices for seed candidates.
    """
    n_left = session.verifications_left(connection)
    if n_left is None:
        return list(choices), []
    terminal_ids = [choice.id for choice in choices if choice.position == session.built.terminal]
    seed_ids = candidate_standings.seeds_among(connection, session.built.row.id, terminal_ids)
    counted_ids = [id_ for id_ in terminal_ids if id_ not in seed_ids]
    excess_ids = set(counted_ids[n_left:])
    allowed = [choice for choice in choices if choice.id not in excess_ids]
    excess = [choice for choice in choices if choice.id in excess_ids]
    return allowed, excess


def _known(connection: Connection, built: Built, choices: Sequence[Choice]) -> dict[tuple[Position, int], int]:
    """Returns {(rung position, candidate id): evidence id} for the choices that reusable evidence answers. Raises
    LedgerError for computed evidence that does not fit its seal."""
    known = {}
    for position in {choice.position for choice in choices}:
        ids = [choice.id for choice in choices if choice.position == position]
        rung = built.all_rungs[position]
        reusable = known_answers(connection, rung, ids)
        if not rung.spec.is_world:
            evidence_seals.refuse_forged(connection, list(reusable.values()))
        for id_, evidence_id in reusable.items():
            known[position, id_] = evidence_id
    return known


def _plan(
    budget: BudgetTracker, rung: BuiltRung, candidate_id: int, candidate: Candidate, replicates: tuple[int, ...] = (0,)
) -> tuple[PlannedJob, bool, str | None]:
    """Returns the job, whether the budget suffices for `AMPLE_JOBS` such jobs, and a message if it does not suffice for
    one such job with all its replicates. replicates: numbers of the candidate's measurements."""
    declared = rung.declared_cost(candidate)
    reservation = rung.reservation(declared)
    seconds = rung.lasts(declared)
    if rung.spec.is_world:
        reservation = budget.stocks_of(reservation)  # weekly amounts are booked when a person claims the task
    key = rung.verifier.evidence_key(candidate, replicates[0])
    job = PlannedJob(rung, candidate_id, candidate, key, declared, reservation, replicates=replicates)
    for_many_jobs = {resource: AMPLE_JOBS * amount for resource, amount in reservation.items()}
    # before the first job of a rung has ended, its declared cost may be far too low
    if rung.cost_model.learnt and budget.fits(for_many_jobs, AMPLE_JOBS * seconds):
        return job, True, None
    return job, False, _shortfall(budget, job, seconds)


def _shortfall(budget: BudgetTracker, job: PlannedJob, seconds: float) -> str | None:
    """Returns a message if the budget does not suffice for a job with all its replicates, else None. seconds: of wall
    time that the job takes."""
    label = job.rung.spec.rung
    n_jobs = len(job.replicates)
    if n_jobs == 1:
        shortfall = budget.shortfall(job.reservation, seconds)
        return None if shortfall is None else f"{label} would reserve {shortfall}"
    measurements = f"the {n_jobs} measurements of one candidate by {label}"
    n_left = budget.remaining_jobs(job.position)
    if n_left is not None and n_left < n_jobs:
        return f"{measurements} would be {n_jobs} runs, and {n_left} are left"
    shortfall = budget.shortfall({name: n_jobs * amount for name, amount in job.reservation.items()}, seconds)
    return None if shortfall is None else f"{measurements} would reserve {shortfall}"


def _start(connection: Connection, built: Built, crew: Crew, planned: Sequence[PlannedJob]) -> None:
    """Writes jobs and reservations to the ledger and sets their candidates to pending, unless the control runs."""
    ids = crew.start(connection, planned)
    held = {id_: job.reservation for id_, job in zip(ids, planned, strict=True)}
    reservations_and_bookings.reserve_many(connection, built.row.id, held)
    for position in sorted({job.position for job in planned if not job.rung.spec.control}):
        waiting = [job.candidate_id for job in planned if job.position == position]
        candidate_standings.update_alike(
            connection, built.row.id, waiting, standing=Standing.PENDING, position=position
        )


def resume_queued(
    connection: Connection, session: DriverSession, crew: Crew, slots: JobSlots, preferred_only: bool = False
) -> None:
    """Resumes queued jobs, most urgent first: jobs that a person started, and jobs whose attempt was lost or
    interrupted. preferred_only: only jobs that a person promoted."""
    taken: dict[int, PlannedJob] = {}
    listed = set[tuple[Position, int]]()  # a slot of people holds all measurements of a candidate
    for job_id, job, is_held in _ready(connection, session, preferred_only):
        place = (job.position, job.candidate_id)
        call = 0 if place in listed else slots.take(job.position, ample=False)
        if call is None:
            if slots.is_full:
                break
            continue
        if not is_held:  # the job had failed and lost its reservation
            reservations_and_bookings.reserve_many(connection, session.built.row.id, {job_id: job.reservation})
            session.budget.hold(job.reservation)
        taken[job_id] = replace(job, call=call)
        if job.rung.spec.is_world:
            listed.add(place)
    if taken:
        crew.resume(connection, taken)


def _ready(
    connection: Connection, session: DriverSession, preferred_only: bool
) -> Iterator[tuple[int, PlannedJob, bool]]:
    """Yields (job id, job, whether the ledger has its reservation) for each queued job that fits the budget. Cancels
    jobs whose candidate a person has held or vetoed since."""
    built = session.built
    budget = session.budget
    by_id = {rung.id: rung for rung in built.all_rungs}
    queued = jobs.queued(connection, built.row.id)
    reserved: Mapping[int, Mapping[str, float]] = (
        reservations_and_bookings.reserved_by_job(connection, built.row.id) if queued else {}
    )
    too_dear: set[int] = set()  # ids of rungs with a job that did not fit the budget
    for job_id, candidate_id, rung_id, _replicate, priority in queued:
        if preferred_only and priority < jobs.PREFERRED:
            break  # later jobs have a lower priority
        if directives.steering_of(connection, built.row.id, candidate_id).blocks_scheduling:
            jobs.cancel_queued(connection, [job_id])
            settle_again(connection, built, candidate_id)
            budget.refresh(built, connection)
            continue
        held = Cost(reserved.get(job_id))
        if not held and rung_id in too_dear:
            continue
        candidate = candidates.load(connection, [candidate_id])[candidate_id]
        job, _, shortfall = _plan(budget, by_id[rung_id], candidate_id, candidate)
        if held:
            yield job_id, replace(job, reservation=held), True
        elif shortfall is None:
            yield job_id, job, False
        else:
            too_dear.add(rung_id)


def _chooser(built: Built, choice: Choice) -> str:
    """Returns who chose: the control, the audit, whose reasons begin with its name, or the scheduler."""
    if built.all_rungs[choice.position].spec.control:
        return CONTROL
    return AUDIT if choice.why.startswith(f"{AUDIT}: ") else built.spec.scheduler.kind


_Decided = tuple[Choice, str, str, int | None]  # choice, action, reason, id of the reused evidence


def _decide(connection: Connection, built: Built, decided: Sequence[_Decided]) -> None:
    rows = [
        {
            "candidate_id": choice.id,
            "rung_id": built.all_rungs[choice.position].id,
            "action": action,
            "chooser": _chooser(built, choice),
            "why": why,
            "index": choice.index,
            "propensity": choice.propensity,
            "evidence_id": evidence_id,
            "law_version": choice.law,
            "price": choice.price,
        }
        for choice, action, why, evidence_id in decided
    ]
    candidate_standings.decide(connection, built.row.id, rows)
