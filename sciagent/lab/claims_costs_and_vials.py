"""Claims of tasks, and the samples for them: claim, release, approve, and register or check a vial.

A claim has no end: its person gives the task back, or another person takes it over. The cost of a task is booked when
it is claimed. The cost is given back only if the task is released within a day. What is given back is dated to the
claim, so that no week has more slots than its limit. A cost beyond the limit is booked only for a measurement that was
finished before its task was claimed.

A vial of another compound, or one that is empty, is refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.lab_messages_and_codes import read_code
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.people import Rights, Role, person_and_access_ids
from sciagent.domain.states_and_needs import AttemptState, JobState
from sciagent.errors import TaskStateError, UsageError, WrongVialError
from sciagent.store.campaign_state import campaigns, note_and_take_watermarks
from sciagent.store.database.engine import db_now
from sciagent.store.job_queue import attempts, leases, reservations_and_bookings
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.job_queue.leases import Claim, JobEnd
from sciagent.store.lab import blind_measurements, samples, submissions, tasks
from sciagent.store.lab.blind_measurements import Viewer
from sciagent.store.lab.samples import NewSample, Vial
from sciagent.store.lab.tasks import LabTask
from sciagent.store.people import audit, persons
from sciagent.store.results import candidates

GIVE_BACK = timedelta(days=1)  # time after a claim within which its cost is given back
MAX_REASON = 2000  # characters of a reason that are kept


@contextmanager
def locked(built: Built, task_id: int) -> Iterator[tuple[Connection, LabTask, BuiltRung]]:
    """Opens a transaction under the lock of the campaign. Raises UsageError if the task is not one of the campaign."""
    with built.ledger.begin() as connection:
        lock_all(connection, [(built, task_id)])
        yield connection, *task_and_rung(connection, built, task_id)


def task_and_rung(connection: Connection, built: Built, task_id: int) -> tuple[LabTask, BuiltRung]:
    """Returns a task and its rung. Raises UsageError if the task is not one of the campaign."""
    task = tasks.find(connection, task_id)
    # `asked` holds the rungs that people do
    rungs_by_id = {rung.id: rung for rung in built.asked}
    rung = None if task is None else rungs_by_id.get(task.rung_id)
    if task is None or rung is None:
        raise UsageError(f"task {task_id} is not on the list of {built.row.name}", "see: sciagent lab list")
    return task, rung


def lock_all(connection: Connection, several: Iterable[tuple[Built, int]]) -> None:
    """Locks all campaigns that an answer to one of the tasks may touch, in one order. These are the campaigns with the
    rung and the candidate, since a correction places the candidate again in each."""
    campaign_ids = set()
    for built, task_id in several:
        task, rung = task_and_rung(connection, built, task_id)
        for campaign_id, _ in campaigns.campaigns_with_rung(connection, task.candidate_id, rung.verifier.computation):
            campaign_ids.add(campaign_id)
    for campaign_id in sorted(campaign_ids):
        note_and_take_watermarks.lock(connection, campaign_id)


def claim(built: Built, task_id: int, who: str, *, take_over: bool = False) -> Claim:
    """Claims a task for a person. take_over: also if somebody else has it; the other claim then ends.

    Raises UsageError if the task is not free, is not approved, or the week's slots are used."""
    with locked(built, task_id) as (connection, task, rung):
        if task.state is JobState.RUNNING and take_over and task.claimed_by != who:
            _end_claim(connection, built, task, rung, f"taken over by {who}")
            note(connection, task, who, "took over", before=task.claimed_by)
            task = tasks.find(connection, task_id) or task
        return claim_here(connection, built, task, rung, who)


def claim_here(connection: Connection, built: Built, task: LabTask, rung: BuiltRung, who: str) -> Claim:
    """Claims a task in the transaction of `locked`. Raises the errors of `claim`."""
    refuse_unless_free(connection, task, rung, who)
    cost = _cost(connection, rung, task)
    reservations_and_bookings.release_many(connection, [task.id])  # what was reserved for the task is booked now
    shortfall = _shortfall(BudgetTracker(built, connection), task, cost)
    if shortfall is not None:
        raise TaskStateError(shortfall)
    return _claim_and_book(connection, built, task, rung, who, cost)


def claim_finished(connection: Connection, built: Built, task: LabTask, rung: BuiltRung, who: str) -> str:
    """Claims a task whose measurement is finished, in the transaction of `locked`, even if the budget does not hold it.
    The measurement then overdraws the budget, and the next claim waits until that is made up for.

    Returns a message on the limit that is overdrawn; empty if none is. Raises UsageError if the task is not free or not
    approved."""
    refuse_unless_free(connection, task, rung, who)
    cost = _cost(connection, rung, task)
    reservations_and_bookings.release_many(connection, [task.id])  # what was reserved for the task is booked now
    budget = BudgetTracker(built, connection)
    shortfall = _shortfall(budget, task, cost)
    if shortfall is None:
        _claim_and_book(connection, built, task, rung, who, cost)
        return ""
    _claim_and_book(connection, built, task, rung, who, cost, overdrawn=shortfall)
    budget.spend(cost)  # `budget` was read before the cost was booked
    wait = budget.resumption_text([cost])
    if wait is not None:
        return f"the slots of the week were used; this measurement counts on top, and the next claim waits: {wait}"
    return f"the budget was used; this measurement counts on top: {shortfall}"


def _shortfall(budget: BudgetTracker, task: LabTask, cost: Cost) -> str | None:
    """Returns a message on the limit that the cost of a task exceeds; None if the budget holds it."""
    wait = budget.resumption_text([cost])
    if wait is not None:
        return f"no slot is left this week: {wait}"
    shortfall = budget.shortfall(cost, seconds=0.0)  # a measurement takes none of the campaign's wall time
    if shortfall is not None:
        return f"the budget does not hold task {task.id}: {shortfall}"
    return None


def _claim_and_book(
    connection: Connection, built: Built, task: LabTask, rung: BuiltRung, who: str, cost: Cost, **about: object
) -> Claim:
    """Gives a free task to a person, and books its cost. about: further fields for the audit trail."""
    # without an end, since a person gives the task back
    claim_made = leases.claim_many(connection, [task.id], str(who), lease_seconds=None).get(task.id)
    if claim_made is None:
        raise TaskStateError(f"task {task.id} is not wanted any more")
    reservations_and_bookings.book_many(
        connection, [reservations_and_bookings.Bill(task.campaign_id, task.rung_id, claim_made.attempt_id, cost)]
    )
    tasks.write_change(connection, task.id)
    note(connection, task, who, "claimed", fence=claim_made.fence, **about)
    open_by_rung = tasks.open_by_rung(connection, task.campaign_id)
    n_free, _ = open_by_rung.get(task.rung_id, (0, 0))
    slots_per_week = built.spec.budget.rates().get("lab_slots")
    wanted_length = rung.spec.most_unclaimed_tasks(slots_per_week)
    if n_free < wanted_length / 2:
        campaigns.wake(connection, task.campaign_id)  # so that there are tasks before the first answer comes
    return claim_made


def refuse_unless_free(connection: Connection, task: LabTask, rung: BuiltRung, who: str) -> None:
    """Raises UsageError if a person cannot claim a task; the message says who has it or what it waits for."""
    if task.state is JobState.RUNNING:
        if task.claimed_by == who:
            raise TaskStateError(f"task {task.id} is yours already")
        holder = "another person" if is_blind(connection, task) else task.claimed_by
        raise TaskStateError(
            f"task {task.id} is with {holder} since {task.claimed_at:%Y-%m-%d %H:%M} UTC",
            f"take it over with: sciagent lab claim {task.id} --take-over",
        )
    if task.state is not JobState.QUEUED:
        raise TaskStateError(f"task {task.id} is over: {task.state}")
    if rung.spec.lab is not None and rung.spec.lab.approve and task.approved_by is None:
        raise TaskStateError(
            f"task {task.id} waits for the word of a chemist",
            f"approve it with: sciagent lab review {task.id} --approve",
        )
    refuse_if_blind(connection, task, who)
    for other in tasks.asking_for(connection, task.evidence_key):
        if other.state is JobState.RUNNING:
            holder = "another person" if is_blind(connection, task) else other.claimed_by
            raise TaskStateError(
                f"task {other.id} of {other.campaign} asks for the same, and is with {holder}; its answer "
                f"counts for task {task.id}, too"
            )


def is_blind(connection: Connection, task: LabTask) -> bool:
    """Returns whether each measurement of a candidate is another person's, who sees nothing of the others."""
    return blind_measurements.method_of(connection, task) is not None


def refuse_if_blind(connection: Connection, task: LabTask, who: str) -> None:
    """Raises TaskStateError for a blind task that is another person's to claim, answer, complete or correct."""
    person_id, _ = person_and_access_ids(who)
    roles: Mapping[int | None, Role] = {}
    if person_id is not None:
        roles = persons.roles(connection, [person_id]).get(person_id, {})
    reason = blind_measurements.why_not_for(connection, task, Viewer(str(who), Rights(roles=roles)))
    if reason is not None:
        raise TaskStateError(f"task {task.id} is for another person: {reason}")


def release(built: Built, task_id: int, who: str, why: str) -> bool:
    """Gives a claimed task back to the list; returns whether its cost was given back, too. Raises UsageError if the
    person does not have it."""
    with locked(built, task_id) as (connection, task, rung):
        if task.state is not JobState.RUNNING or task.claimed_by != who:
            raise TaskStateError(f"task {task_id} is not claimed by {who}")
        if task.in_review_id is not None:
            raise TaskStateError(f"the answer of task {task_id} waits for its review; it cannot be given back")
        is_cost_given_back = _end_claim(connection, built, task, rung, why)
        note(connection, task, who, "gave back", why=why)
        campaigns.wake(connection, built.row.id)
        return is_cost_given_back


def approve(built: Built, task_id: int, who: str) -> None:
    """Lets a task that needs a chemist's approval go on the list. Raises UsageError if it is approved already or
    over."""
    with locked(built, task_id) as (connection, task, _):
        _approve(connection, task, who)


def approve_all(several: Sequence[tuple[Built, int]], who: str) -> int:
    """Lets several tasks of one ledger go on the list at once; returns their number. A task that somebody else has
    approved meanwhile, or that is over, stays as it is."""
    n_approved = 0
    first_built, _ = several[0]
    with first_built.ledger.begin() as connection:
        lock_all(connection, several)
        for built, task_id in several:
            task, _ = task_and_rung(connection, built, task_id)
            if task.approved_by is None and task.state is JobState.QUEUED:
                _approve(connection, task, who)
                n_approved += 1
    return n_approved


def _approve(connection: Connection, task: LabTask, who: str) -> None:
    if task.approved_by is not None:
        raise TaskStateError(f"task {task.id} is approved by {task.approved_by} already")
    if task.state is not JobState.QUEUED:
        raise TaskStateError(f"task {task.id} is over: {task.state}")
    tasks.write_change(connection, task.id, approved_by=who[:200], approved_at=db_now(connection))
    note(connection, task, who, "approved")


def note(connection: Connection, task: LabTask, who: str, what: str, **payload: object) -> None:
    """Appends an act on a task to the audit trail."""
    audit.append(connection, who, what, "task", task.id, campaign_id=task.campaign_id, **payload)


def _end_claim(connection: Connection, built: Built, task: LabTask, rung: BuiltRung, why: str) -> bool:
    """Ends the claim of a task whose answer is not complete. Returns whether its cost was given back; what was measured
    and recorded in part stays booked."""
    claim, claimed_at = claim_of(connection, task)
    cost = cost_of_claim(connection, rung, task, claim)
    is_given_back = db_now(connection) - claimed_at <= GIVE_BACK and not task.open_quantities
    if is_given_back:
        reservations_and_bookings.book_opposite(connection, claim.attempt_id)
    state = JobState.CANCELLED if task.cancel_requested else JobState.QUEUED
    remaining_cost = {} if is_given_back else cost
    attempt_end = AttemptEnd(
        claim.attempt_id,
        AttemptState.CANCELLED,
        cost=remaining_cost,
        wall_seconds=None,
        outcome=Outcome.BAD_ENVIRONMENT,
        reason=Reason.RETURNED,
        detail=why[:MAX_REASON],
    )
    attempts.end_many(connection, [attempt_end])
    leases.end_held(connection, [JobEnd(claim, state, outcome=None)])
    attempts.mark_end(connection, [claim.attempt_id])
    if state is JobState.QUEUED:  # a task on the list reserves what it takes of the stocks
        reserved = BudgetTracker(built, connection).stocks_of(_cost(connection, rung, task))
        reservations_and_bookings.reserve_many(connection, task.campaign_id, {task.id: reserved})
    tasks.write_change(connection, task.id)
    return is_given_back


def claim_of(connection: Connection, task: LabTask) -> tuple[Claim, datetime]:
    """Returns the claim of a task that somebody has, and when it began. Raises UsageError without a claim."""
    claim = tasks.claim_of_task(connection, task.id)
    if claim is None or task.claimed_at is None:
        raise UsageError(f"task {task.id} is not claimed")
    return claim, task.claimed_at


def cost_of_claim(connection: Connection, rung: BuiltRung, task: LabTask, claim: Claim) -> Cost:
    """Returns the cost that was booked for a claim. It is zero if an earlier claim brought a part of the answer, since
    that one bears the cost of the task."""
    bearer = submissions.bearing_attempt(connection, task.id)
    return _declared(connection, rung, task) if bearer in (None, claim.attempt_id) else Cost()


def _cost(connection: Connection, rung: BuiltRung, task: LabTask) -> Cost:
    """Returns the cost that the next claim of a task books: zero if a part of its answer is recorded."""
    return Cost() if task.open_quantities else _declared(connection, rung, task)


def _declared(connection: Connection, rung: BuiltRung, task: LabTask) -> Cost:
    """Returns the cost that the rung declares for the candidate of a task."""
    candidate = candidates.load(connection, [task.candidate_id])[task.candidate_id]
    return rung.declared_cost(candidate) or Cost()


def register(built: Built, task_id: int, who: str, form: str, source: str, **more: object) -> Vial:
    """Registers a sample of the task's molecule for the task, which then names it. more: other fields of `NewSample`.

    Raises UsageError for an empty form, an unknown source, a purity that is no fraction, or a text that is too long."""
    if not form.strip():
        raise UsageError("say in which form it is, such as: free base; HCl salt, 1 H2O")
    if source not in samples.SOURCES:
        raise UsageError(f'"{source}" is no source; one of: {", ".join(samples.SOURCES)}')
    purity = more.get("purity")
    if isinstance(purity, float) and not 0 <= purity <= 1:
        raise UsageError(f"purity = {purity:g} is no fraction from 0 to 1")
    with locked(built, task_id) as (connection, task, _):
        new = NewSample(task.candidate_id, task.id, form.strip(), source, who[:200], **more)  # type: ignore[arg-type]
        samples.check_lengths(new)
        made = samples.register(connection, new)
        tasks.write_change(connection, task.id, sample_id=made.id)
        note(connection, task, who, "registered", sample=made.code)
    return made


def usable_vial(connection: Connection, task: LabTask, text: str) -> Vial:
    """Returns the sample with a scanned code.

    Raises WrongVialError if the sample is not usable or not of the task's molecule, and UsageError for an unknown code
    or a text that is no code.
    """
    code = read_code(text)
    sample = samples.find(connection, code)
    if sample is None:
        raise UsageError(f"no vial has the code {code}", f"register it: sciagent lab sample {task.id} --form ...")
    if sample.candidate_id != task.candidate_id:
        raise WrongVialError(f"this vial is another compound: {code} is not of task {task.id} ({task.text})")
    if sample.state != "ok":
        raise WrongVialError(f"the vial {code} is {sample.state}; nothing was recorded")
    return sample
