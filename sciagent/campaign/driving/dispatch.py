"""Dispatch: from the rule's choices to decisions, reuse, or jobs under lease in the pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.build import Built, BuiltRung
from sciagent.campaign.core.record import Settling, settle, settle_again
from sciagent.campaign.driving.pace import MARGIN, Group, Places
from sciagent.campaign.driving.remote_jobs import Offered, Rooms, offer_of
from sciagent.domain.campaigns.ladder import Position
from sciagent.domain.campaigns.ports import Choice
from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import Cost
from sciagent.domain.evidence import EvidenceKey
from sciagent.domain.jobs.states import AttemptState, Standing
from sciagent.execution.worker.claimed_jobs import ClaimedJob, Task
from sciagent.store.campaign_state import directives, standings
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import execute_many
from sciagent.store.database.clock import db_now
from sciagent.store.job_queue import jobs, leases, offers, reservations
from sciagent.store.job_queue.jobs import NewJob
from sciagent.store.job_queue.leases import Claim
from sciagent.store.job_queue.offers import Out
from sciagent.store.results import candidates, evidence
from sciagent.store.results.audits import AUDIT

WINDOW = 512  # how many waiting candidates of each rung a rule sees at once


@dataclass(frozen=True)
class LocalJob:
    """A job that the driver's own pool runs."""

    job: ClaimedJob
    rung: BuiltRung
    reservation: Cost
    """What the budget holds for it."""
    ahead: bool = False
    """Whether it was claimed before a worker was free."""

    @property
    def claim(self) -> Claim:
        return self.job.claim


class _Started(NamedTuple):
    """What becomes a ticket once there is a job."""

    choice: Choice
    key: EvidenceKey
    declared: Cost | None
    reservation: Cost
    group: Group[Any]


@dataclass
class Dispatched:
    """What became of a rule's choices. reused: an answer was known. refused: whose reservations did not fit. unplaced:
    nobody could take them now."""

    reused: bool = False
    refused: list[Choice] = field(default_factory=list)
    unplaced: list[Choice] = field(default_factory=list)
    shortfall: str | None = None
    """What the first of the refused would have reserved, and what is left of it."""


def promote(
    connection: Connection,
    built: Built,
    purse: BudgetTracker,
    choices: Sequence[Choice],
    owner: str,
    places: Places[LocalJob] | Rooms,
) -> Dispatched:
    """Act on choices, most urgent first, inside a write transaction, while there are places: decisions, and jobs put
    into `places`, under lease or offered to workers elsewhere; what is known already is reused."""
    done = Dispatched()
    if not choices:
        return done
    loaded = candidates.load(connection, [one.id for one in choices])
    known = _known(connection, built, choices)
    decided: list[_Decided] = []
    started: list[_Started] = []
    for at, choice in enumerate(choices):
        rung = built.rungs[choice.position]
        if (evidence_id := known.get((choice.position, choice.id))) is not None:
            decided.append((choice, "reuse", "known under the same settings", evidence_id))
            purse.reuse(choice.position)
            done.reused = True
            continue
        declared = rung.declared(loaded[choice.id])
        reservation, seconds = rung.reserves(declared), rung.lasts(declared)
        # who has room for many has room for one
        many = {r: MARGIN * amount for r, amount in reservation.items()}
        ample = rung.cost_model.learnt and purse.fits(many, MARGIN * seconds)
        if not ample and (short := purse.shortfall(reservation, seconds)) is not None:
            done.refused.append(choice)
            done.shortfall = done.shortfall or f"{rung.spec.rung} would reserve {short}"
            continue
        group = places.find(choice.position, ample)
        if group is None:
            if places.is_full:
                done.unplaced += choices[at:]
                break
            done.unplaced.append(choice)
            continue
        decided.append((choice, "run", choice.why, None))
        group.reserve(1)
        key = rung.verifier.evidence_key(loaded[choice.id])
        started.append(_Started(choice, key, declared, reservation, group))
        purse.reserve(choice.position, reservation)
    _decide(connection, built, decided)
    settle(connection, built, [Settling(c.id, c.position) for c, action, *_ in decided if action == "reuse"])
    if isinstance(places, Rooms):
        _offer(connection, built, started, places)
    else:
        _start(connection, built, owner, loaded, started)
    return done


def _known(connection: Connection, built: Built, choices: Sequence[Choice]) -> dict[tuple[Position, int], int]:
    """{(rung position, candidate id): evidence id} of what the chosen rungs would answer."""
    known = {}
    for position in {one.position for one in choices}:
        v = built.rungs[position].verifier
        ids = [one.id for one in choices if one.position == position]
        found = evidence.find_reusable(connection, ids, v.name, v.version, v.settings_hash)
        known.update({(position, id_): one.id for id_, one in found.items()})
    return known


def _start(
    connection: Connection, built: Built, owner: str, loaded: Mapping[int, Candidate], started: Sequence[_Started]
) -> None:
    """Jobs under lease, reservations, and the candidates' new standing."""
    new: dict[AttemptState, list[NewJob]] = {}
    waiting: dict[AttemptState, list[_Started]] = {}
    for one in started:
        choice, rung, key = one.choice, built.rungs[one.choice.position], one.key
        job = NewJob(built.row.id, rung.id, choice.id, 0, key.hash, choice.index)
        state = AttemptState.CLAIMED if one.group.waits else AttemptState.RUNNING
        new.setdefault(state, []).append(job)
        waiting.setdefault(state, []).append(one)
    claims = [claim for state, mine in new.items() for claim in leases.start_many(connection, mine, owner, state)]
    pairs = list(zip(claims, (one for mine in waiting.values() for one in mine), strict=True))
    reservations.reserve_many(connection, built.row.id, {claim.job_id: one.reservation for claim, one in pairs})
    for position in sorted({one.choice.position for one in started}):
        ids = [one.choice.id for one in started if one.choice.position == position]
        standings.update_alike(connection, built.row.id, ids, standing=Standing.PENDING, position=position)
    tasks = {rung.id: _task(built, rung) for rung in built.paid}
    for claim, one in pairs:
        rung, id_ = built.rungs[one.choice.position], one.choice.id
        claimed = ClaimedJob(claim, tasks[rung.id], id_, loaded[id_], one.key, one.declared)
        one.group.jobs.append(LocalJob(claimed, rung, one.reservation, one.group.waits))


def _task(built: Built, rung: BuiltRung) -> Task:
    """The rung, as the local pool runs it."""
    v = rung.verifier
    return Task(built.row.id, rung.id, v, v.request_settings, rung.limits, rung.holds)


def _offer(connection: Connection, built: Built, started: Sequence[_Started], rooms: Rooms) -> None:
    """Jobs that workers elsewhere may take, reservations, and the candidates' new standing."""
    if not started:
        return
    new = []
    for one in started:
        choice, rung = one.choice, built.rungs[one.choice.position]
        offer = offer_of(rung, one.declared)
        new.append(NewJob(built.row.id, rung.id, choice.id, 0, one.key.hash, choice.index, offer))
    ids = jobs.create_many(connection, new)
    made = dict(zip(ids, started, strict=True))
    reservations.reserve_many(connection, built.row.id, {id_: one.reservation for id_, one in made.items()})
    for position in sorted({one.choice.position for one in started}):
        waiting = [one.choice.id for one in started if one.choice.position == position]
        standings.update_alike(connection, built.row.id, waiting, standing=Standing.PENDING, position=position)
    for id_, one in made.items():
        out = Out(id_, one.choice.id, built.rungs[one.choice.position].id)
        rooms.offered.append(Offered(out, one.choice.position, one.declared, one.reservation))


def offer_queued(
    connection: Connection, built: Built, purse: BudgetTracker, rooms: Rooms, preferred_only: bool = False
) -> None:
    """`take_queued` for workers elsewhere."""
    found = []
    for one in _ready(connection, built, purse, preferred_only):
        position = one.rung.rules.position
        if rooms.find(position, ample=False) is None:
            if rooms.is_full:
                break
            continue
        if not one.held:
            reservations.reserve_many(connection, built.row.id, {one.job_id: one.reservation})
            purse.hold(one.reservation)
        found.append(one)
    offers.offer_many(connection, {one.job_id: offer_of(one.rung, one.declared) for one in found})
    seen = offers.last_attempts(connection, [one.job_id for one in found])
    for one in found:
        out = Out(one.job_id, one.candidate_id, one.rung.id, seen.get(one.job_id, 0))
        rooms.offered.append(Offered(out, one.rung.rules.position, one.declared, one.reservation))


@dataclass(frozen=True)
class _Ready:
    """A job that was decided before, and that the budget holds. held: its reservation is in the ledger."""

    job_id: int
    rung: BuiltRung
    candidate_id: int
    candidate: Candidate
    declared: Cost | None
    reservation: Cost
    held: bool


def take_queued(
    connection: Connection, built: Built, purse: BudgetTracker, owner: str, slots: int, preferred_only: bool = False
) -> list[LocalJob]:
    """Jobs that were decided before (by a person, or an attempt was lost or interrupted): claimed again, most urgent
    first. What a person holds or has vetoed since is cancelled instead; what gave up and is tried again waits until the
    budget holds it. slots: that are free; a job takes one for each core. preferred_only: what a person promoted."""
    taken: list[LocalJob] = []
    for one in _ready(connection, built, purse, preferred_only) if slots else ():
        if one.rung.limits.threads > slots:
            break  # its turn comes when so many are free
        if (claim := leases.claim(connection, one.job_id, owner)) is not None:
            if not one.held:  # it gave up, and is to be tried again
                reservations.reserve_many(connection, built.row.id, {one.job_id: one.reservation})
                purse.hold(one.reservation)
            key = one.rung.verifier.evidence_key(one.candidate)
            job = ClaimedJob(claim, _task(built, one.rung), one.candidate_id, one.candidate, key, one.declared)
            taken.append(LocalJob(job, one.rung, one.reservation))
            slots -= one.rung.limits.threads
            if not slots:
                break
    return taken


def _ready(connection: Connection, built: Built, purse: BudgetTracker, preferred_only: bool) -> Iterator[_Ready]:
    """Jobs that wait for their driver, most urgent first."""
    by_id = {r.id: r for r in built.rungs}
    queued = jobs.queued(connection, built.row.id)
    held_by_job = reservations.held(connection, built.row.id) if queued else {}
    wait: set[int] = set()  # rungs of which one did not fit
    for job_id, candidate_id, rung_id, _, priority in queued:
        if preferred_only and priority < jobs.PREFERRED:
            break
        if directives.steering_of(connection, built.row.id, candidate_id).blocks_scheduling:
            jobs.cancel_queued(connection, [job_id])
            settle_again(connection, built, candidate_id)
            purse.refresh(built, connection)
            continue
        held = Cost(held_by_job.get(job_id))
        if not held and rung_id in wait:
            continue
        rung = by_id[rung_id]
        candidate = candidates.load(connection, [candidate_id])[candidate_id]
        declared = rung.declared(candidate)
        reservation = held or rung.reserves(declared)
        if not held and not purse.fits(reservation, rung.lasts(declared)):
            wait.add(rung_id)
            continue
        yield _Ready(job_id, rung, candidate_id, candidate, declared, reservation, bool(held))


_Decided = tuple[Choice, str, str, int | None]  # choice, action, why, evidence reused


def _decide(connection: Connection, built: Built, decided: Sequence[_Decided]) -> None:
    alike = {"campaign_id": built.row.id, "watermark": evidence.read_watermark(connection), "at": db_now(connection)}
    rows = [
        {
            "candidate_id": choice.id,
            "rung_id": built.rungs[choice.position].id,
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
    execute_many(connection, t.decision, rows, alike)


def _chooser(built: Built, choice: Choice) -> str:
    """The rule, or the audit of it, whose reasons begin with its name."""
    return AUDIT if choice.why.startswith(f"{AUDIT}: ") else built.spec.scheduler.kind
