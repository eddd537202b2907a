"""Cancelled jobs, and jobs that are tried again: what a person decides about jobs, and what it makes of candidates.

A cancelled job alone would be chosen again by the rule, so its candidate is held until somebody releases it, or tries
the job again. All of it is written under the lock of the campaign's row, as in `steering`.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import Purse
from sciagent.campaign.core.build import Built, BuiltRung
from sciagent.campaign.core.record import settle_again
from sciagent.domain.directives import Verb
from sciagent.domain.states import JobState, Standing
from sciagent.store.campaign_state import campaigns, directives, standings
from sciagent.store.job_queue import job_lists, jobs, offers

CANCELLABLE = (JobState.QUEUED, JobState.RUNNING)
GAVE_UP = (JobState.FAILED, JobState.QUARANTINED, JobState.CANCELLED)
MARK = "cancelled"  # in the payload of a hold: the jobs whose cancelling made it


@dataclass(frozen=True)
class Changed:
    """What became of a job. done: `cancelled`, `told` (its worker ends it), `queued` (tried again), or empty: then
    `why` says why nothing was done. held: whether its candidate is held from now on because of it."""

    job_id: int
    rung: str
    key: str
    smiles: str
    done: str
    why: str = ""
    held: bool = False


def cancel(built: Built, job_ids: Sequence[int], who: str, why: str = "") -> list[Changed]:
    """End jobs: those that wait are over at once, of those that run the worker is told. Their candidates are held."""
    with built.ledger.begin() as connection:
        directives.lock(connection, built.row.id)
        found = job_lists.standing(connection, job_ids)
        waiting, running = offers.request_cancel(connection, [one.id for one in found if one.state in CANCELLABLE])
        held = set[int]()
        for candidate_id in dict.fromkeys(one.candidate_id for one in found if one.id in (*waiting, *running)):
            mine = [one.id for one in found if one.candidate_id == candidate_id and one.id in (*waiting, *running)]
            if not directives.word(connection, built.row.id, candidate_id).rests:
                numbers = ", ".join(map(str, mine))
                said = f"job{'' if len(mine) == 1 else 's'} {numbers} cancelled" + (f": {why}" if why else "")
                directives.write(
                    connection, built.row.id, Verb.HOLD, who, said, candidate_id=candidate_id, payload={MARK: mine}
                )
                held.add(candidate_id)
            if not any(one in running for one in mine) and not _runs(connection, built, candidate_id):
                settle_again(connection, built, candidate_id)
        fates = dict[int, tuple[str, str]]()
        for one in found:
            done = "cancelled" if one.id in waiting else "told" if one.id in running else ""
            fates[one.id] = done, "" if done else f"it is {one.state} already"
        return _changed(connection, fates, {one.id for one in found if one.candidate_id in held})


def retry(built: Built, job_ids: Sequence[int], who: str, named: bool = True) -> list[Changed]:
    """Try jobs again that gave up; the driver reserves what each may cost when it takes it up.

    named: a person named each of them: they go to the front. What is over otherwise, or whose candidate rests or has
    gone elsewhere since, is left as it is.
    """
    with built.ledger.begin() as connection:
        directives.lock(connection, built.row.id)
        purse = Purse(built, connection)
        room = {r.rules.position: purse.remaining_jobs(r.rules.position) for r in built.paid}
        fates, again = dict[int, tuple[str, str]](), list[int]()
        for one in job_lists.standing(connection, job_ids):
            rung = next(r for r in built.rungs if r.id == one.rung_id)
            why = _why_not(connection, built, one, rung, room)
            fates[one.id] = "" if why else "queued", why
            if not why:
                again.append(one.id)
                _try_again(connection, built, one, rung, who, jobs.PREFERRED if named else None)
                left = room[rung.rules.position]
                if one.state is JobState.CANCELLED and left is not None:
                    room[rung.rules.position] = left - 1
        if again:
            payload = {"who": who, "jobs": again[:1000], "n": len(again)}
            campaigns.log_event(connection, built.row.id, "retried", payload)
        return _changed(connection, fates)


def _try_again(
    connection: Connection, built: Built, one: job_lists.JobStanding, rung: BuiltRung, who: str, priority: float | None
) -> None:
    if directives.word(connection, built.row.id, one.candidate_id).rests:  # because its job was cancelled
        said = f"job {one.id} is tried again"
        directives.write(connection, built.row.id, Verb.RELEASE, who, said, candidate_id=one.candidate_id)
    jobs.retry(connection, one.id, priority)
    standings.update(
        connection,
        built.row.id,
        one.candidate_id,
        standing=Standing.PENDING,
        position=rung.rules.position,
        verdict=None,
        reason=None,
        detail="",
    )


def _why_not(
    connection: Connection, built: Built, one: job_lists.JobStanding, rung: BuiltRung, room: Mapping[int, int | None]
) -> str:
    """What speaks against trying it again; empty for nothing. room: places that are left, by rung position."""
    if one.state not in GAVE_UP:
        return "it is done, and its answer stands" if one.state is JobState.DONE else f"it is {one.state}, not over"
    word = directives.word(connection, built.row.id, one.candidate_id)
    if word.rests and not _held_by_cancelling(connection, built, one.candidate_id):
        which = "vetoed" if word.vetoed else "held"
        return f"its candidate is {which} by {word.who}: {word.why}; release it first: sciagent release"
    stands = standings.get(connection, built.row.id, one.candidate_id)
    standing, position = Standing(stands["standing"]), int(stands["position"])
    if standing in (Standing.PENDING, Standing.SETTLED) or position != rung.rules.position:
        there = built.rungs[min(position, len(built.rungs) - 1)].spec.rung
        return f"its candidate has gone elsewhere since: {standing} at {there}"
    if one.state is JobState.CANCELLED and room[position] == 0:
        label = rung.spec.rung
        return (
            f"all {built.limit_by_rung.get(position)} places of {label} are used; raise the limit first: "
            f"sciagent amend {built.row.name} --budget rungs.{label}=N"
        )
    return ""


def _held_by_cancelling(connection: Connection, built: Built, candidate_id: int) -> bool:
    """Whether all that rests the candidate is that one of its jobs was cancelled."""
    last = [
        one
        for one in directives.on(connection, built.row.id, candidate_id)
        if one.verb in (Verb.HOLD, Verb.VETO, Verb.RELEASE)
    ]
    return bool(last) and last[-1].verb is Verb.HOLD and MARK in last[-1].payload


def _runs(connection: Connection, built: Built, candidate_id: int) -> bool:
    found = jobs.of_candidate(connection, built.row.id, candidate_id, [r.id for r in built.paid])
    return any(state == JobState.RUNNING for _, _, state, _ in found)


def _changed(connection: Connection, fates: Mapping[int, tuple[str, str]], held: Container[int] = ()) -> list[Changed]:
    return [
        Changed(one.id, one.rung, one.key, one.candidate, *fates[one.id], one.id in held)
        for one in job_lists.rows(connection, list(fates))
    ]
