"""Dispatch: from the rule's choices to decisions, reuse, or jobs under lease in the pool."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.campaign.build import Built, BuiltRung
from sciagent.campaign.money import Purse
from sciagent.campaign.record import settle
from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import Cost
from sciagent.domain.ports import Choice, OpenCandidates, RungRoom
from sciagent.domain.states import Standing
from sciagent.store import candidates, evidence, jobs, standings
from sciagent.store import tables as t
from sciagent.store.clock import db_now
from sciagent.store.jobs import Claim
from sciagent.verification.host import Request

WINDOW = 512  # how many waiting candidates of each rung a rule sees at once


@dataclass(frozen=True)
class Ticket:
    """A job that runs in the pool."""

    claim: Claim
    rung: BuiltRung
    candidate_id: int
    candidate: Candidate
    reservation: Cost


def choose(connection: Connection, built: Built, purse: Purse, slots: int, first_only: bool) -> list[Choice]:
    """Ask the rule for at most `slots` choices among what waits for a paid rung (first_only: for the first of them)."""
    waiting, room = [], []
    by_score = built.rule.by_score
    for rung in built.paid[:1] if first_only else built.paid:
        position = rung.rules.position
        remaining = purse.remaining_jobs(position)
        found = (
            standings.waiting(connection, built.row.id, position, by_score=by_score, limit=WINDOW)
            if remaining != 0
            else []
        )
        ids, seqs, scores = zip(*found, strict=True) if found else ((), (), ())
        undecided: list[int] = []
        if remaining is not None and found and not by_score:
            undecided = standings.undecided_seqs(connection, built.row.id, position, remaining + WINDOW)
        waiting.append(
            OpenCandidates(
                position,
                np.array(ids, dtype=np.int64),
                np.array(seqs, dtype=np.int64),
                np.array([np.nan if s is None else s for s in scores], dtype=np.float64),
                np.zeros(len(ids)),
            )
        )
        room.append(RungRoom(remaining, np.array(undecided, dtype=np.int64)))
    return built.rule.choose(waiting, room, slots)


def promote(connection: Connection, built: Built, purse: Purse, choice: Choice, owner: str) -> Ticket | str:
    """Act on one choice, inside a write transaction.

    Returns a ticket for the pool; `reused` if the answer was known; `budget` if the reservation does not fit.
    """
    rung = built.rungs[choice.position]
    candidate = candidates.load(connection, [choice.id])[choice.id]
    v = rung.verifier
    found = evidence.find_reusable(connection, [choice.id], v.name, v.version, v.settings_hash)
    if choice.id in found:
        _decide(connection, built, rung, choice, "reuse", "known under the same settings", found[choice.id].id)
        settle(connection, built, choice.id, choice.position)
        return "reused"
    reservation = rung.cost_model.reservation(v.cost(candidate))
    if not purse.fits(reservation):
        return "budget"
    _decide(connection, built, rung, choice, "run", choice.why, None)
    job_id = jobs.create(
        connection, campaign_id=built.row.id, rung_id=rung.id, candidate_id=choice.id, replicate=0,
        evidence_key=v.evidence_key(candidate).hash, priority=choice.index,
    )  # fmt: skip
    jobs.reserve(connection, built.row.id, job_id, reservation)
    standings.update(connection, built.row.id, choice.id, standing=Standing.PENDING)
    claim = jobs.claim(connection, job_id, owner)
    assert claim is not None, "a job that this transaction made is free"
    purse.reserve(choice.position, reservation)
    return Ticket(claim, rung, choice.id, candidate, reservation)


def take_queued(connection: Connection, built: Built, owner: str, slots: int) -> list[Ticket]:
    """Jobs that were decided before (an attempt was lost or interrupted): claimed again, most urgent first."""
    tickets = []
    by_id = {r.id: r for r in built.rungs}
    for job_id, candidate_id, rung_id, _ in jobs.queued(connection, built.row.id)[:slots]:
        claim = jobs.claim(connection, job_id, owner)
        if claim is not None:
            rung = by_id[rung_id]
            candidate = candidates.load(connection, [candidate_id])[candidate_id]
            reservation = rung.cost_model.reservation(rung.verifier.cost(candidate))
            tickets.append(Ticket(claim, rung, candidate_id, candidate, reservation))
    return tickets


def request_of(built: Built, ticket: Ticket) -> Request:
    v = ticket.rung.verifier
    checkpoint = built.scratch() / "checkpoints" / v.evidence_key(ticket.candidate).hash
    return Request(v.name, v.request_settings, (ticket.candidate,), ticket.rung.limits, checkpoints=(checkpoint,))


def _decide(
    connection: Connection,
    built: Built,
    rung: BuiltRung,
    choice: Choice,
    action: str,
    why: str,
    evidence_id: int | None,
) -> None:
    connection.execute(
        t.decision.insert().values(
            campaign_id=built.row.id,
            candidate_id=choice.id,
            rung_id=rung.id,
            action=action,
            chooser=built.rule.name,
            why=why,
            watermark=evidence.read_watermark(connection),
            index=choice.index,
            propensity=choice.propensity,
            evidence_id=evidence_id,
            at=db_now(connection),
        )
    )
