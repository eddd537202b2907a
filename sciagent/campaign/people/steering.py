"""A person's decisions on one candidate: hold, release, veto, promote.

The person's own process writes each of them, under the lock of the campaign's row that a driver takes as well. So it is
in force at once, whether or not a driver runs. A running driver reads the directive, the budget and the hits at its
next step. A running job may finish: its evidence is kept, and the candidate's standing follows the decision.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.build import Built, BuiltRung
from sciagent.campaign.core.judge import Place
from sciagent.campaign.core.record import settle_again
from sciagent.campaign.people.resolving import Named
from sciagent.campaign.people.screening import complete_fast
from sciagent.domain.campaigns.directives import SteeringState, Verb
from sciagent.domain.campaigns.ladder import Position
from sciagent.domain.cost import Cost
from sciagent.domain.jobs.states import JobState, Standing
from sciagent.errors import UsageError
from sciagent.store.campaign_state import directives, standings
from sciagent.store.database import tables as t
from sciagent.store.database.clock import db_now
from sciagent.store.job_queue import jobs, reservations
from sciagent.store.job_queue.jobs import NewJob
from sciagent.store.results import candidates, evidence


@dataclass(frozen=True)
class SteeringResult:
    """The result of a decision."""

    verb: str
    key: str
    smiles: str
    standing: str
    rung: str | None = None
    cancelled: tuple[str, ...] = ()
    """Labels of the rungs whose queued job was cancelled."""
    running: tuple[str, ...] = ()
    """Labels of the rungs whose job runs to its end."""
    detail: str = ""


def hold(built: Built, named: Named, who: str, why: str) -> SteeringResult:
    """Start no more jobs for the candidate until it is released."""
    with built.ledger.begin() as connection:
        steering, standing = _lock_and_read(connection, built, named)
        if steering.blocks_scheduling:
            raise UsageError(
                f"{named} is {'vetoed' if steering.vetoed else 'held'} already, by {steering.who}: {steering.why}"
            )
        if standing not in (Standing.OPEN, Standing.PENDING):
            raise UsageError(f"{named} is {standing} already; nothing would be started for it")
        directives.write(connection, built.row.id, Verb.HOLD, who, why, candidate_id=named.id)
        return _stop_work(connection, built, named, Verb.HOLD)


def veto(built: Built, named: Named, who: str, why: str) -> SteeringResult:
    """Take the candidate out: no more jobs are started, and it is neither hit nor parent. Its evidence stays."""
    with built.ledger.begin() as connection:
        steering, _ = _lock_and_read(connection, built, named)
        if steering.vetoed:
            raise UsageError(f"{named} is vetoed already, by {steering.who}: {steering.why}")
        before = dict(standings.get(connection, built.row.id, named.id))
        kept = {k: before[k] for k in Place.__dataclass_fields__}
        kept["detail"] = kept["detail"] or ""
        payload = {"before": kept} if before["standing"] == Standing.DROPPED else {}
        directives.write(connection, built.row.id, Verb.VETO, who, why, candidate_id=named.id, payload=payload)
        return _stop_work(connection, built, named, Verb.VETO)


def release(built: Built, named: Named, who: str, why: str) -> SteeringResult:
    """Take back a hold or a veto: the candidate's standing follows from its evidence again."""
    with built.ledger.begin() as connection:
        steering, standing = _lock_and_read(connection, built, named)
        if not steering.blocks_scheduling:
            raise UsageError(f"{named} is neither held nor vetoed; it is {standing}")
        before = None
        for directive in directives.on(connection, built.row.id, named.id):
            before = directive.payload.get("before") if directive.verb is Verb.VETO else before
        directives.write(connection, built.row.id, Verb.RELEASE, who, why, candidate_id=named.id)
        running = _running(connection, built, named)
        if not running:
            settle_again(connection, built, named.id, before)
        return _result(connection, built, named, Verb.RELEASE, running=running)


def _stop_work(connection: Connection, built: Built, named: Named, verb: Verb) -> SteeringResult:
    """Cancel queued jobs. Running ones may finish; the candidate's standing is settled after that."""
    labels = {r.id: r.spec.rung for r in built.paid}
    cancelled = [
        labels[rung_id]
        for job_id, rung_id, state, _ in jobs.of_candidate(connection, built.row.id, named.id, list(labels))
        if state == JobState.QUEUED and jobs.cancel_queued(connection, [job_id])
    ]
    running = _running(connection, built, named)
    if not running:
        settle_again(connection, built, named.id)
    return _result(connection, built, named, verb, cancelled=tuple(cancelled), running=running)


def promote(built: Built, named: Named, who: str, why: str, to: str | None = None) -> SteeringResult:
    """Run a rung on the candidate next, whatever the gates below have decided.

    to: label of the rung; by default the one after the candidate's last. Fast rungs that have not run yet run first,
    and a hazard that they find blocks the promotion. Raises UsageError if a promotion is impossible or exceeds the
    budget.
    """
    hazards = complete_fast(built, named, who)
    if hazards:
        raise UsageError(
            f"{named} was blocked by the safety screen ({hazards}); a promotion does not lift that. If you must, run a "
            "campaign whose safety rung is switched off, with its reason in the YAML"
        )
    with built.ledger.begin() as connection:
        steering, standing = _lock_and_read(connection, built, named)
        if steering.blocks_scheduling:
            which = "vetoed" if steering.vetoed else "held"
            raise UsageError(f"{named} is {which} by {steering.who}: {steering.why}; release it first")
        stands = standings.get(connection, built.row.id, named.id)
        rung = _target(built, named, to, standing, Position(int(stands["position"])))
        if running := _running(connection, built, named):
            raise UsageError(f"{named} runs at {', '.join(running)} now; promote it when that has answered")
        directives.write(connection, built.row.id, Verb.PROMOTE, who, why, candidate_id=named.id, rung_id=rung.id)
        detail = _start_rung(connection, built, named, rung, who, why)
        return _result(connection, built, named, Verb.PROMOTE, rung=rung.spec.rung, detail=detail)


def _target(built: Built, named: Named, to: str | None, standing: Standing, position: Position) -> BuiltRung:
    if not built.paid:
        raise UsageError(f'campaign "{built.row.name}" has no rung beyond those that run at once')
    labels = [r.spec.rung for r in built.paid if r.rules.position <= built.terminal]
    if standing is Standing.SETTLED:
        raise UsageError(f"{named} is settled: the terminal rung has answered; sciagent explain says what")
    if to is not None:
        if to not in labels:
            raise UsageError(f'--to "{to}": a candidate can be promoted to {", ".join(labels)}')
        return built.rungs[[r.spec.rung for r in built.rungs].index(to)]
    wanted = position + 1 if standing is Standing.DROPPED else position
    lowest: int = built.paid[0].rules.position
    return built.rungs[min(max(wanted, lowest), int(built.terminal))]


def _start_rung(connection: Connection, built: Built, named: Named, rung: BuiltRung, who: str, why: str) -> str:
    """Write a decision and a job at the front of the queue, unless the rung has answered already. Returns a message."""
    v = rung.verifier
    known = evidence.find_reusable(connection, [named.id], v.name, v.version, v.settings_hash)
    if named.id in known:
        _decide(connection, built, named, rung, "reuse", who, why, known[named.id].id)
        settle_again(connection, built, named.id, answered=rung.rules.position)
        return f"{rung.spec.rung} has answered before, under the same settings: nothing is run, its answer counts"
    candidate = candidates.load(connection, [named.id])[named.id]
    try:
        refusal = v.accepts(candidate)
    except (Exception, SystemExit) as error:  # a plug-in may raise anything
        raise UsageError(f"{rung.spec.rung} cannot run on {named}: {v.name} in accepts: {error!r}") from error
    if refusal is not None:
        raise UsageError(f"{rung.spec.rung} does not take {named}: {refusal.reason}: {refusal.detail}")
    own = jobs.of_candidate(connection, built.row.id, named.id, [rung.id])
    waiting = [job_id for job_id, _, state, _ in own if state == JobState.QUEUED]
    if waiting:
        _decide(connection, built, named, rung, "promote", who, why, None)
        jobs.prefer(connection, waiting[0], jobs.PREFERRED)
        return f"its job at {rung.spec.rung} goes to the front"
    reservation = rung.reservation(candidate)
    new = not own or own[0][2] == JobState.CANCELLED
    _check_budget(BudgetTracker(built, connection), built, rung, reservation, new)
    _decide(connection, built, named, rung, "promote", who, why, None)
    others = [other.id for other in built.paid if other is not rung]  # jobs queued at lower rungs are no longer wanted
    jobs.cancel_queued(connection, [id_ for id_, *_ in jobs.of_candidate(connection, built.row.id, named.id, others)])
    if new:
        key = v.evidence_key(candidate).hash
        [job_id] = jobs.create_many(connection, [NewJob(built.row.id, rung.id, named.id, 0, key, jobs.PREFERRED)])
    else:
        job_id = own[0][0]
        jobs.retry(connection, job_id, jobs.PREFERRED)
    reservations.reserve_many(connection, built.row.id, {job_id: reservation})
    standings.update(
        connection,
        built.row.id,
        named.id,
        standing=Standing.PENDING,
        position=rung.rules.position,
        verdict=None,
        reason=None,
        detail="",
    )
    return f"it is the next at {rung.spec.rung}" + ("" if new else ", once more")


def _check_budget(purse: BudgetTracker, built: Built, rung: BuiltRung, reservation: Cost, new: bool) -> None:
    """Raises UsageError unless the budget holds the job. new: whether the job counts for the rung's limit."""
    no_place = new and purse.remaining_jobs(rung.rules.position) == 0
    if not no_place and purse.fits(reservation):
        return
    label = rung.spec.rung
    used = f"all {built.limit_by_rung.get(rung.rules.position)} places of {label} are used"
    limit = used if no_place else purse.exhausted() or f"what is left does not hold a job at {label}"
    raise UsageError(
        f"the budget is in the way: {limit}; raise it first: sciagent amend {built.row.name} --budget "
        + (f"rungs.{label}=N" if no_place else "core_seconds=N, or wall_minutes=N")
    )


def _decide(
    connection: Connection,
    built: Built,
    named: Named,
    rung: BuiltRung,
    action: str,
    who: str,
    why: str,
    evidence_id: int | None,
) -> None:
    values = {
        "campaign_id": built.row.id,
        "candidate_id": named.id,
        "rung_id": rung.id,
        "action": action,
        "chooser": f"person:{who}"[:200],
        "why": why,
        "watermark": evidence.read_watermark(connection),
        "propensity": 1.0,
        "evidence_id": evidence_id,
        "at": db_now(connection),
    }
    connection.execute(t.decision.insert().values(values))


def _lock_and_read(connection: Connection, built: Built, named: Named) -> tuple[SteeringState, Standing]:
    """What people have decided on the candidate, and its standing, with the campaign's row locked."""
    directives.lock(connection, built.row.id)
    stands = standings.get(connection, built.row.id, named.id)
    return directives.steering_of(connection, built.row.id, named.id), Standing(stands["standing"])


def _running(connection: Connection, built: Built, named: Named) -> tuple[str, ...]:
    labels = {r.id: r.spec.rung for r in built.paid}
    listed = jobs.of_candidate(connection, built.row.id, named.id, list(labels))
    return tuple(labels[rung_id] for _, rung_id, state, _ in listed if state == JobState.RUNNING)


def _result(
    connection: Connection,
    built: Built,
    named: Named,
    verb: Verb,
    *,
    rung: str | None = None,
    cancelled: tuple[str, ...] = (),
    running: tuple[str, ...] = (),
    detail: str = "",
) -> SteeringResult:
    stands = standings.get(connection, built.row.id, named.id)
    label = rung or built.rungs[min(int(stands["position"]), len(built.rungs) - 1)].spec.rung
    return SteeringResult(str(verb), named.key, named.text, str(stands["standing"]), label, cancelled, running, detail)
