"""Records results of rungs and blocked candidates, and computes the candidates' places in the campaign from them.

To settle a candidate is to compute its place again and to write it. The control is a rung that runs on settled
candidates and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import (
    Built,
    BuiltLadder,
    BuiltRung,
    record_derived,
    with_derived,
)
from sciagent.campaign.core.relaxed_to_same_structure import find_likenesses, known_likenesses
from sciagent.campaign.core.verdicts_and_places import (
    NO_VALUES,
    Answer,
    ExperimentalValues,
    Judgement,
    Place,
    judge,
    place,
    steered,
)
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.evidence_keys_and_pooled_replicates import Finding
from sciagent.domain.objectives import decisive
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason, Verdict
from sciagent.domain.rung_calibration_on_measurements import calibrated
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.states_and_needs import DEATHS, Hear, JobState, Standing
from sciagent.domain.worth import Basis
from sciagent.execution.worker.end_attempts import REACHED_LIMIT, DirectResult, complete_direct, store_files
from sciagent.execution.worker.read_claimed_jobs import direct_checkpoint, drop_direct_checkpoint, scratch_of
from sciagent.store.campaign_state import candidate_standings, directives, note_and_take_watermarks
from sciagent.store.campaign_state.campaigns import log_event, new_owner
from sciagent.store.campaign_state.same_structures import Likeness
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs
from sciagent.store.results import evidence, pooled_replicates
from sciagent.store.results.evidence import RecordedEvidence
from sciagent.verification.sandbox.host import HostResult, Request, Worker

MAX_LOGGED = 500  # characters of a text that an event keeps


def log_blocked(
    connection: Connection, campaign_id: int | None, *, key: str, text: str, reason: str, detail: str, **more: Any
) -> None:
    """Logs an event for a candidate that the safety screen refused: key, rule, reason and proposed text."""
    payload = {
        "key": key,
        "rule": detail.partition(":")[0],
        "reason": str(reason),
        "detail": detail[:MAX_LOGGED],
        "text": text[:MAX_LOGGED],
    }
    log_event(connection, campaign_id, "safety_blocked", payload | more)


def run_directly(
    ledger: Ledger,
    worker: Worker,
    rung: BuiltRung,
    candidate: Candidate,
    candidate_id: int,
    campaign_id: int | None = None,
    hear: Hear | None = None,
) -> HostResult:
    """Runs a rung on one candidate without a job, and records the result. campaign_id: the campaign that pays; None
    for `sciagent verify`. hear: takes its progress.

    A long verification that is killed, or that reaches a limit, leaves its checkpoint for the next run, whose cost is
    that of the rest alone and teaches nothing."""
    verifier = rung.verifier
    key = rung.verifier.evidence_key(candidate)
    scratch = scratch_of(ledger.artifacts)
    with direct_checkpoint(scratch, key.hash) as checkpoints:
        goes_on = any(folder.exists() for folder in checkpoints)
        request = replace(Request.of(verifier, (candidate,), rung.limits), checkpoints=checkpoints)
        result = worker.run(request, hear)[0]
        if checkpoints and result.finding.outcome not in REACHED_LIMIT:
            drop_direct_checkpoint(scratch, key.hash)
    files = store_files(ledger, [result])[0]
    with ledger.begin() as connection:
        if campaign_id is not None:
            note_and_take_watermarks.lock(connection, campaign_id)
        declared = None if goes_on else rung.declared_cost(candidate)
        record = DirectResult(verifier, candidate_id, key, result, files, declared)
        rung_id = None if campaign_id is None else rung.id
        complete_direct(connection, new_owner(), [record], campaign_id=campaign_id, rung_id=rung_id)
    return result


def known_or_run(
    ledger: Ledger, worker: Worker, rung: BuiltRung, candidate: Candidate, candidate_id: int, hear: Hear | None = None
) -> tuple[Finding | RecordedEvidence, float | None]:
    """Returns a rung's answer on one candidate and the cost in core-seconds; the cost is None for reused evidence.
    hear: takes the progress."""
    with ledger.read() as connection:
        known = evidence.find_reusable(connection, [candidate_id], rung.verifier.computation)
    if candidate_id in known:
        return known[candidate_id], None
    result = run_directly(ledger, worker, rung, candidate, candidate_id, hear=hear)
    return result.finding, result.cost.get("core_seconds", 0.0)


def experimental_values_of(
    connection: Connection, built: BuiltLadder, candidate_ids: Sequence[int], as_of: int | None = None
) -> dict[int, ExperimentalValues]:
    """Returns, by candidate id, the imported experimental values that decide objectives.

    Empty unless the campaign file says `measured: decide`. as_of: a watermark; None: all evidence counts.
    """
    if not built.measured_decides or not candidate_ids:
        return {}
    source = t.current_evidence if as_of is None else evidence.evidence_as_of(as_of)
    limits = {objective.property: objective.accept for objective in built.objectives}
    values = pooled_replicates.experimental_values(connection, candidate_ids, built.phases, source)
    return {id_: decisive(limits, of_candidate) for id_, of_candidate in values.items()}


def answer_of(
    rung: BuiltRung, result: Finding | RecordedEvidence, experimental: ExperimentalValues = NO_VALUES
) -> Answer:
    """Returns the judged answer of a rung; its values are calibrated. experimental: values that decide in its place."""
    if rung.fits:
        result = replace(result, measured=calibrated(result.measured, rung.fits))
    measured = result.measured if result.outcome is Outcome.OK else ()
    return Answer(rung.rules.position, judge(rung.rules, result, experimental), measured)


class Settling(NamedTuple):
    """A candidate whose place must be computed again because a rung's job is over."""

    candidate_id: int
    position: Position
    """Position of the rung."""
    failed: Finding | None = None
    """A failed finding that is not evidence, such as a timeout."""
    gave_up: Judgement | None = None
    """The judgement if the rung is not tried again."""
    recorded: RecordedEvidence | None = None
    """Evidence recorded in this transaction; None: it is read from the ledger."""


def settling_of(
    candidate_id: int,
    position: Position,
    state: JobState,
    finding: Finding | None,
    kills: int,
    losses: int = 0,
    recorded: RecordedEvidence | None = None,
) -> Settling:
    """Returns the settling for a job that is over. finding: None if its evidence is in the ledger.

    A candidate whose job was quarantined gets a judgement. Its reason is `kills_workers` if processes died, otherwise
    the reason of the last attempt.

    kills: number of attempts whose process died or was killed. losses: number of attempts lost with their worker.
    """
    if finding is None or state is JobState.CANCELLED:
        return Settling(candidate_id, position)
    if state is not JobState.QUARANTINED:
        return Settling(candidate_id, position, failed=finding, recorded=recorded)
    outcome = finding.outcome
    reason = finding.reason
    detail = finding.detail
    if losses:
        killed = f"{kills} killed theirs; " if kills else ""
        detail = f"{killed}{losses} attempts were lost with their workers; the last: {outcome} ({reason}): {detail}"
        reason = Reason.KILLS_WORKERS
    elif reason in DEATHS:
        detail = f"{kills} attempts ended in {outcome} ({reason}): {detail}"
        reason = Reason.KILLS_WORKERS
    elif kills > 1:
        detail += f"; so {kills} times"
    judgement = Judgement(Verdict.ERROR, reason, detail)
    return Settling(candidate_id, position, failed=finding, gave_up=judgement, recorded=recorded)


def is_verdict_due(connection: Connection, rung: BuiltRung, candidate_id: int) -> bool:
    """Whether the verdict of a rung on a candidate can be made now. If the rung asks for replicates, enough of them
    must have been answered, in this campaign or in another one."""
    if rung.spec.lab is None or rung.spec.lab.replicates == 1:
        return True
    answered = pooled_replicates.answered_replicates(connection, [candidate_id], rung.verifier.computation)
    n_own, n_open = jobs.answered_and_open(connection, rung.id, candidate_id)
    return rung.spec.lab.is_verdict_due(len(answered.get(candidate_id, {})), n_own, n_open)


def known_answers(connection: Connection, rung: BuiltRung, candidate_ids: Sequence[int]) -> dict[int, int]:
    """Returns {candidate id: id of reusable evidence} of the candidates on which the rung need not be asked. If the
    rung asks for replicates, enough of them must have been answered."""
    computation = rung.verifier.computation
    lab = rung.spec.lab
    if lab is None or lab.replicates == 1:
        reusable = evidence.find_reusable(connection, candidate_ids, computation)
        return {id_: recorded.id for id_, recorded in reusable.items()}
    known = {}
    for id_, replicates in pooled_replicates.answered_replicates(connection, candidate_ids, computation).items():
        if lab.is_verdict_due(len(replicates)):
            known[id_] = min(replicates.values())
    return known


def replicates_to_make(connection: Connection, rung: BuiltRung, candidate_id: int) -> tuple[int, ...]:
    """Returns the numbers of the measurements of a candidate that nobody has made, and of which the campaign has no
    open job: (0,) for a rung without replicates."""
    n_replicates = rung.spec.tasks_per_candidate
    if n_replicates == 1:
        return (0,)
    computation = rung.verifier.computation
    answered = pooled_replicates.answered_replicates(connection, [candidate_id], computation).get(candidate_id, {})
    open_numbers = jobs.open_replicates(connection, rung.id, candidate_id)
    return tuple(number for number in range(n_replicates) if number not in answered and number not in open_numbers)


def settle(connection: Connection, built: Built, settlings: Sequence[Settling]) -> None:
    """Computes the candidates' places again and writes them. A control changes no place.

    A candidate that the rung relaxed to the structure of an earlier one is dropped at the rung, and so are those of
    them and of the campaign that lie too far above another one.
    """
    settlings = [item for item in settlings if not built.all_rungs[item.position].spec.control]
    if not settlings:
        return
    steering = directives.steering_of_many(connection, built.row.id, [item.candidate_id for item in settlings])
    experimental = experimental_values_of(connection, built, [item.candidate_id for item in settlings])
    answers = _answers(connection, built, settlings, experimental)
    likenesses = known_likenesses(connection, built, list(answers))

    def columns(id_: int) -> Mapping[str, Any]:
        likeness = likenesses.get(id_)
        values = experimental.get(id_, NO_VALUES)
        return place(built.rules, built.objectives, answers[id_], steering[id_], likeness, values).columns

    places = {}
    for item in settlings:
        id_ = item.candidate_id
        has_answered = any(answer.position == item.position for answer in answers[id_])
        if item.failed is not None and not has_answered:
            judgement = item.gave_up or judge(built.rungs[item.position].rules, item.failed)
            answers[id_].append(Answer(item.position, judgement))
        places[id_] = columns(id_)
    candidate_standings.update_many(connection, built.row.id, places)
    new_likenesses = find_likenesses(connection, built, {item.candidate_id: item.position for item in settlings})
    likenesses |= new_likenesses
    candidate_standings.update_many(
        connection, built.row.id, {id_: columns(id_) for id_ in new_likenesses if id_ in places}
    )
    for id_ in sorted(new_likenesses.keys() - places.keys()):
        settle_again(connection, built, id_)
    record_derived(connection, built, list(places))


def _answers(
    connection: Connection, built: Built, settlings: Sequence[Settling], experimental: Mapping[int, ExperimentalValues]
) -> dict[int, list[Answer]]:
    """Returns, by candidate id, the answers of all rungs up to the position of its settling, in ladder order. Rungs
    that the scheduler or a person has skipped have no answer. experimental: values that decide, by candidate id."""
    answers: dict[int, list[Answer]] = {item.candidate_id: [] for item in settlings}
    for rung in built.rungs:
        position = rung.rules.position
        computation = rung.verifier.computation
        due = [item for item in settlings if item.position >= position]
        recorded = {item.candidate_id: item.recorded for item in due if item.position == position and item.recorded}
        if recorded:
            for id_ in pooled_replicates.ids_with_replicates(connection, list(recorded), computation):
                del recorded[id_]  # the answer has replicates, so the pooled answer is read below
        unread = [item.candidate_id for item in due if item.candidate_id not in recorded]
        read = pooled_replicates.pooled_answers(connection, unread, computation) if unread else {}
        for id_, result in (recorded | read).items():
            with_all_values = with_derived(rung, result, answers[id_])
            answers[id_].append(answer_of(rung, with_all_values, experimental.get(id_, NO_VALUES)))
    return answers


def settle_again(
    connection: Connection,
    built: Built,
    candidate_id: int,
    before: Place | None = None,
    answered: int | None = None,
    forecast: Place | None = None,
) -> None:
    """Computes a candidate's place again after a person's decision, from the answers that its campaign has used.

    Later evidence of other campaigns counts only after a decision to reuse it. A candidate that waits for further
    measurements of a rung with replicates goes on waiting. answered: position of a rung whose reusable evidence counts
    from now on, if its verdict is due. before: the earlier place. It is restored if it came from a fast rung or from
    a job that failed, since such a job has no evidence. forecast: the candidate's place from before, if what
    the campaign's law had forecast still holds where no answer came since.
    """
    row = candidate_standings.get(connection, built.row.id, candidate_id)
    last = int(row["position"])  # position of the last rung whose answer counts
    if row["verdict"] is None:  # the rung at the candidate's position has not answered
        last -= 1
    if answered is not None and is_verdict_due(connection, built.rungs[answered], candidate_id):
        last = max(last, answered)
    experimental = experimental_values_of(connection, built, [candidate_id])
    answers = _answers(connection, built, [Settling(candidate_id, Position(last))], experimental)[candidate_id]
    values = experimental.get(candidate_id, NO_VALUES)
    steering = directives.steering_of(connection, built.row.id, candidate_id)
    likeness = known_likenesses(connection, built, [candidate_id]).get(candidate_id)
    new_place = place(built.rules, built.objectives, answers, steering, likeness, values)
    # the answers of the ledger leave the candidate open, but its earlier place may come from one without evidence
    if before is not None and new_place.standing in (Standing.OPEN, Standing.HELD):
        rung = built.rungs[min(new_place.position, len(built.rungs) - 1)]
        tried = {job.state for job in jobs.of_candidate(connection, built.row.id, candidate_id, [rung.id])}
        if rung in built.fast or tried & {JobState.FAILED, JobState.QUARANTINED}:
            new_place = steered(before, steering)
    if new_place.standing is Standing.OPEN and _has_open_replicates(connection, built, new_place, candidate_id):
        new_place = replace(new_place, standing=Standing.PENDING)
    if forecast is not None:
        new_place = _with_forecast(forecast, new_place)
    candidate_standings.update(connection, built.row.id, candidate_id, **new_place.columns)
    if answers and likeness is None:
        found = _new_likeness(connection, built, candidate_id, answers[-1].position)
        if found is not None:
            new_place = place(built.rules, built.objectives, answers, steering, found, values)
            candidate_standings.update(connection, built.row.id, candidate_id, **new_place.columns)
    record_derived(connection, built, [candidate_id])


def _new_likeness(connection: Connection, built: Built, candidate_id: int, position: Position) -> Likeness | None:
    """Compares a candidate that a rung has answered with the others of its campaign. Returns its likeness, or None.

    Others that turn out to lie too far above it are placed again."""
    found = find_likenesses(connection, built, {candidate_id: position})
    for other_id in sorted(found.keys() - {candidate_id}):
        settle_again(connection, built, other_id)
    return found.get(candidate_id)


def _has_open_replicates(connection: Connection, built: Built, new_place: Place, candidate_id: int) -> bool:
    """Whether the campaign has open jobs for the measurements of a candidate by the rung at its place, of which there
    are several."""
    if new_place.position >= len(built.rungs):
        return False
    rung = built.rungs[new_place.position]
    is_repeated = rung.spec.tasks_per_candidate > 1
    return is_repeated and bool(jobs.open_replicates(connection, rung.id, candidate_id))


def _with_forecast(before: Place, new_place: Place) -> Place:
    """Returns the place of a candidate that waits with the worth that the campaign's law has given it, if there is one.
    before: the candidate's place from before."""
    forecast = before.worth
    is_waiting = new_place.standing in (Standing.OPEN, Standing.HELD)
    has_same_answers = (before.position, before.depth) == (new_place.position, new_place.depth)
    if forecast is None or forecast.basis is not Basis.LAW or not is_waiting or not has_same_answers:
        return new_place
    return replace(new_place, worth=forecast)


def set_pending(connection: Connection, built: Built, candidate_id: int, rung: BuiltRung) -> None:
    """Sets the candidate to pending at this rung."""
    place = {"standing": Standing.PENDING, "position": rung.rules.position, "verdict": None}
    candidate_standings.update(connection, built.row.id, candidate_id, **place, reason=None, detail="")
