"""People decide on a candidate: hold, release, veto or promote.

A standing is the state of a candidate in its campaign, such as open, pending or settled. The person's own process
writes the decision under the lock of the campaign's row, which a driver takes as well. The decision is in force at
once, whether or not a driver runs. A running driver reads it at its next step. A running job may finish: its evidence
is kept, and the candidate's standing follows the decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.campaign.core.record_results_and_place import known_answers, replicates_to_make, set_pending, settle_again
from sciagent.campaign.core.verdicts_and_places import Place
from sciagent.campaign.people.find_candidate import FoundCandidate
from sciagent.campaign.people.verify_calculate_and_add import add, complete_fast
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.outcomes_verdicts_and_reasons import LIKE_ANOTHER, Verdict
from sciagent.domain.proposer_interfaces import ProposalIn
from sciagent.domain.states_and_needs import JobState, Standing, Verb
from sciagent.domain.worth import Basis
from sciagent.errors import UsageError
from sciagent.store.campaign_state import candidate_standings, directives, note_and_take_watermarks
from sciagent.store.job_queue import jobs, reservations_and_bookings
from sciagent.store.job_queue.jobs import NewJob
from sciagent.store.results import candidates
from sciagent.store.views import campaign_counts_and_remarks

# {resource: what people call it}, where its name says too little
SCARCE_IN_WORDS = {
    "lab_slots": "measurement slots",
    "person_hours": "hours of people",
    "core_seconds": "core-seconds",
    "wall_minutes": "minutes on the clock",
}
MAX_CHOOSER = 200  # characters of the name of who made a decision


@dataclass(frozen=True)
class SteeringResult:
    """The result of a decision."""

    verb: str
    key: str
    smiles: str
    """Notation of the candidate."""
    standing: str
    """Standing of the candidate after the decision."""
    rung: str | None = None
    """Label of the rung that the candidate is at or waits for."""
    cancelled: tuple[str, ...] = ()
    """Labels of rungs at which the queued job was cancelled."""
    running: tuple[str, ...] = ()
    """Labels of rungs at which a running job may finish."""
    detail: str = ""


def hold(built: Built, named: FoundCandidate, who: str, why: str) -> SteeringResult:
    """Holds the candidate: no job is started for it until it is released."""
    with built.ledger.begin() as connection:
        case = _Case(connection, built, named)
        case.check_not_blocked(Verb.HOLD)
        if case.standing not in (Standing.OPEN, Standing.PENDING):
            raise UsageError(f"{named} is {case.standing} already; nothing would be started for it")
        case.write(Verb.HOLD, who, why)
        return case.stop_work(Verb.HOLD)


def veto(built: Built, named: FoundCandidate, who: str, why: str) -> SteeringResult:
    """Vetoes the candidate: no job is started for it, and it is neither a hit nor a parent. Its evidence is kept."""
    with built.ledger.begin() as connection:
        case = _Case(connection, built, named)
        if case.steering.vetoed:
            raise UsageError(f"{named} is vetoed already, by {case.steering.who}: {case.steering.why}")
        payload = {}
        if case.row["basis"] == Basis.LAW:  # a vetoed candidate has no worth, and a release restores what was forecast
            payload["forecast"] = {name: case.row[name] for name in Place.column_names()}
        if case.standing is Standing.DROPPED:
            # some drops have no evidence from which a release could find the place again; see `settle_again`
            place = {name: case.row[name] for name in Place.column_names()}
            payload["before"] = place | {"detail": place["detail"] or ""}
        case.write(Verb.VETO, who, why, payload=payload)
        return case.stop_work(Verb.VETO)


def release(built: Built, named: FoundCandidate, who: str, why: str) -> SteeringResult:
    """Takes back a hold or a veto; the candidate's standing then follows from its evidence again."""
    with built.ledger.begin() as connection:
        case = _Case(connection, built, named)
        if not case.steering.blocks_scheduling:
            raise UsageError(f"{named} is neither held nor vetoed; it is {case.standing}")
        written = directives.directives_on(connection, built.row.id, named.id)
        vetoes = [directive for directive in written if directive.verb is Verb.VETO]
        case.write(Verb.RELEASE, who, why)
        payload = vetoes[-1].payload if vetoes else {}
        before = _place_in(payload.get("before"))
        return case.settle_and_report(Verb.RELEASE, before=before, forecast=_place_in(payload.get("forecast")))


def promote(built: Built, named: FoundCandidate, who: str, why: str, to: str | None = None) -> SteeringResult:
    """Queues the candidate's job at a rung before all other jobs, whatever lower gates have decided.

    to: label of the rung; None: the rung after the candidate's last one. Fast rungs without an answer run first, and a
    hazard blocks the promotion. A candidate that a filter has dropped is added to the campaign first. Raises UsageError
    if the promotion is impossible or exceeds the budget.
    """
    with built.ledger.read() as connection:
        is_member = bool(candidate_standings.members(connection, built.row.id, [named.id]))
        notation = candidates.notations(connection, built.subject, {named.id: named.text})[named.id]
    if not is_member:
        list(add(built, [ProposalIn(notation)], who, why))
        if not built.paid:
            with built.ledger.begin() as connection:
                return _Case(connection, built, named).result(Verb.PROMOTE, detail="its rungs have answered at once")
    hazards = complete_fast(built, named, who)
    if hazards:
        raise UsageError(
            f"{named} was blocked by the safety screen ({hazards}); a promotion does not lift that. If you must, run a "
            "campaign whose safety rung is switched off, with its reason in the YAML"
        )
    with built.ledger.begin() as connection:
        case = _Case(connection, built, named)
        case.check_not_blocked(Verb.PROMOTE)
        rung = case.rung_to_promote_to(to)
        running = case.jobs_by_rung(JobState.RUNNING)
        if running:
            raise UsageError(f"{named} runs at {', '.join(running)} now; promote it when that has answered")
        case.write(Verb.PROMOTE, who, why, rung_id=rung.id)
        detail = case.start(rung, who, why)
        return case.result(Verb.PROMOTE, rung=rung.spec.rung, detail=detail)


def _place_in(columns: Mapping[str, object] | None) -> Place | None:
    """Returns the place that columns of the ledger hold; None without any."""
    return Place.from_columns(columns) if columns else None


class _Case:
    """A candidate of a campaign within a transaction that locks the campaign's row."""

    def __init__(self, connection: Connection, built: Built, named: FoundCandidate) -> None:
        note_and_take_watermarks.lock(connection, built.row.id)
        self.connection = connection
        self.built = built
        self.named = named
        self.steering = directives.steering_of(connection, built.row.id, named.id)
        self.row = candidate_standings.get(connection, built.row.id, named.id)
        """The candidate's row in the campaign, before the decision."""
        self.standing = Standing(self.row["standing"])

    def check_not_blocked(self, verb: Verb) -> None:
        """Raises UsageError if a person has held or vetoed the candidate."""
        if not self.steering.blocks_scheduling:
            return
        state = "vetoed" if self.steering.vetoed else "held"
        by = f"by {self.steering.who}: {self.steering.why}"
        if verb is Verb.HOLD:
            raise UsageError(f"{self.named} is {state} already, {by}")
        raise UsageError(f"{self.named} is {state} {by}; release it first")

    def write(self, verb: Verb, who: str, why: str, **more: Any) -> None:
        directives.write(self.connection, self.built.row.id, verb, who, why, candidate_id=self.named.id, **more)

    def jobs_by_rung(self, state: JobState) -> dict[str, list[int]]:
        """Returns the ids of the candidate's jobs in this state, by rung label: one for each of its measurements."""
        labels = {rung.id: rung.spec.rung for rung in self.built.bought}
        by_rung: dict[str, list[int]] = {}
        for job_id, rung_id, job_state, _ in jobs.of_candidate(
            self.connection, self.built.row.id, self.named.id, list(labels)
        ):
            if job_state == state:
                by_rung.setdefault(labels[rung_id], []).append(job_id)
        return by_rung

    def stop_work(self, verb: Verb) -> SteeringResult:
        """Cancels queued jobs. Running jobs may finish; the candidate's standing is settled after that."""
        queued = self.jobs_by_rung(JobState.QUEUED)
        cancelled_ids = set(jobs.cancel_queued(self.connection, list(chain.from_iterable(queued.values()))))
        cancelled = tuple(label for label, job_ids in queued.items() if cancelled_ids.intersection(job_ids))
        return self.settle_and_report(verb, cancelled=cancelled)

    def settle_and_report(
        self, verb: Verb, before: Place | None = None, forecast: Place | None = None, **more: Any
    ) -> SteeringResult:
        """Settles the candidate's standing again, unless a running job will do so at its end; returns the result.

        before: the place before a veto. forecast: the place before a veto of a candidate that the campaign's law had
        valued; None: its present place. more: fields of the result.
        """
        running = tuple(self.jobs_by_rung(JobState.RUNNING))
        if not running:
            settle_again(self.connection, self.built, self.named.id, before, forecast=forecast or _place_in(self.row))
        return self.result(verb, running=running, **more)

    def rung_to_promote_to(self, to: str | None) -> BuiltRung:
        """Returns the rung of a promotion. Raises UsageError if there is none."""
        built = self.built
        position = int(self.row["position"])
        if not built.paid:
            raise UsageError(f'campaign "{built.row.name}" has no rung beyond those that run at once')
        if self.standing is Standing.SETTLED:
            raise UsageError(f"{self.named} is settled: the terminal rung has answered; sciagent explain says what")
        if self.row["reason"] in LIKE_ANOTHER and position == built.terminal:
            detail = self.row["detail"]
            raise UsageError(f"{self.named} {detail}, by the terminal rung: no rung is left to which it could go on")
        if to is None:
            # a dropped candidate has been answered at its position, unless a measured value dropped it before;
            # another one waits for the rung there
            is_by_measurement = self.row["verdict"] == Verdict.FAIL and int(self.row["depth"]) < position
            was_answered = self.standing is Standing.DROPPED and not is_by_measurement
            wanted = position + 1 if was_answered else position
            at_least_paid = max(wanted, built.paid[0].rules.position)
            return built.rungs[min(at_least_paid, built.terminal)]
        # nobody is promoted beyond the terminal rung
        rungs = {rung.spec.rung: rung for rung in built.paid if rung.rules.position <= built.terminal}
        if to not in rungs:
            raise UsageError(f'--to "{to}": a candidate can be promoted to {", ".join(rungs)}')
        return rungs[to]

    def start(self, rung: BuiltRung, who: str, why: str) -> str:
        """Writes a decision, and puts a job at the front of the queue or reuses evidence; returns a message. A rung
        that asks for replicates gets a job for each measurement that is to be made."""
        connection = self.connection
        built = self.built
        named = self.named
        verifier = rung.verifier
        known = known_answers(connection, rung, [named.id])
        if named.id in known:
            self._decide(rung, "reuse", who, why, known[named.id])
            settle_again(connection, built, named.id, answered=rung.rules.position)
            return f"{rung.spec.rung} has answered before, under the same settings: nothing is run, its answer counts"
        candidate = candidates.load(connection, [named.id])[named.id]
        try:
            refusal = verifier.accepts(candidate)
        except (Exception, SystemExit) as error:  # a plug-in may raise anything
            what = f"{verifier.name} in accepts: {error!r}"
            raise UsageError(f"{rung.spec.rung} cannot run on {named}: {what}") from error
        if refusal is not None:
            raise UsageError(f"{rung.spec.rung} does not take {named}: {refusal.reason}: {refusal.detail}")
        queued = self.jobs_by_rung(JobState.QUEUED)
        if rung.spec.rung in queued:
            self._decide(rung, "promote", who, why)
            for job_id in queued[rung.spec.rung]:
                jobs.set_priority(connection, job_id, jobs.PREFERRED)
            return f"its job at {rung.spec.rung} goes to the front"
        earlier_jobs = jobs.of_candidate(connection, built.row.id, named.id, [rung.id])
        is_new = True  # whether the job counts towards the rung's limit, as an earlier job that was not cancelled does
        if earlier_jobs and rung.spec.tasks_per_candidate == 1:
            _, _, state, _ = earlier_jobs[0]
            is_new = state == JobState.CANCELLED
        declared_cost = rung.declared_cost(candidate)
        reservation = rung.reservation(declared_cost)
        numbers = replicates_to_make(connection, rung, named.id)
        budget = BudgetTracker(built, connection)
        needed = budget.needed_for(len(numbers), reservation)
        self._check_budget(budget, rung, needed, len(numbers) if is_new else 0)
        if rung.spec.is_world:
            reservation = budget.stocks_of(reservation)  # weekly amounts are booked when a person claims a task
        self._decide(rung, "promote", who, why)
        jobs.cancel_queued(connection, list(chain.from_iterable(queued.values())))  # queued jobs at other rungs
        message = f"it is the next at {rung.spec.rung}"
        if is_new:
            keys = {number: verifier.evidence_key(candidate, number).hash for number in numbers}
            new_jobs = [
                NewJob(built.row.id, rung.id, named.id, number, evidence_key=key, priority=jobs.PREFERRED)
                for number, key in keys.items()
            ]
            job_ids = jobs.create_many(connection, new_jobs)
        else:
            job_ids = [earlier_jobs[0][0]]
            jobs.retry(connection, job_ids[0], jobs.PREFERRED)
            message += ", once more"
        reservations_and_bookings.reserve_many(connection, built.row.id, dict.fromkeys(job_ids, reservation))
        set_pending(connection, built, named.id, rung)
        return message

    def _check_budget(self, budget: BudgetTracker, rung: BuiltRung, reservation: Cost, n_new: int) -> None:
        """Raises UsageError if the jobs exceed the budget. n_new: number of jobs that count towards the rung's
        limit."""
        label = rung.spec.rung
        position = rung.rules.position
        verifications = self.built.spec.budget.verifications if position == self.built.terminal else None
        n_left = budget.remaining_jobs(position)
        if n_left is not None and n_left < n_new:
            of_limit = f"{self.built.limit_by_rung[position]} places of {label}"
            limit = f"{n_left} of {of_limit} are left, and {n_new} are needed" if n_left else f"all {of_limit} are used"
            change = f"rungs.{label}=N"
        elif n_new and verifications is not None and verifications <= self._n_verified():
            limit = f"all {verifications} verifications by {label} are used"
            change = "verifications=N"
        elif not budget.fits(reservation):
            scarce = budget.scarce(reservation) or "wall_minutes"
            limit, change = self._shortage(budget, rung, reservation, scarce)
        else:
            return
        raise UsageError(
            f"the budget is in the way: {limit}",
            f"raise it first: sciagent amend {self.built.row.name} --budget {change}",
        )

    def _shortage(self, budget: BudgetTracker, rung: BuiltRung, reservation: Cost, scarce: str) -> tuple[str, str]:
        """Returns (what is used up, with what a person can do; how `amend` states more of it). scarce: the resource."""
        words = SCARCE_IN_WORDS.get(scarce, scarce.replace("_", " "))
        if budget.is_rate(scarce):
            used = budget.resumption_text([reservation]) or budget.shortfall(reservation)
            return (
                f"the {words} of the week are used ({used}); promote it when some are free, or let whoever runs the "
                "campaign raise the weekly limit. What is measured already can be entered on a task all the same",
                f"{scarce}=N/week",
            )
        left = budget.exhausted() or budget.shortfall(reservation)
        ask = "let whoever runs the campaign raise this limit, or hold other candidates"
        return f"the {words} left do not hold a job at {rung.spec.rung} ({left}); {ask}", f"{scarce}=N"

    def _n_verified(self) -> int:
        """Returns the number of candidates that the terminal rung was asked about."""
        return campaign_counts_and_remarks.verifications(self.connection, self.built.row.id, self.built.terminal)

    def _decide(self, rung: BuiltRung, action: str, who: str, why: str, evidence_id: int | None = None) -> None:
        decision = {
            "candidate_id": self.named.id,
            "rung_id": rung.id,
            "action": action,
            "chooser": f"person:{who}"[:MAX_CHOOSER],
            "why": why,
            "propensity": 1.0,
            "evidence_id": evidence_id,
        }
        candidate_standings.decide(self.connection, self.built.row.id, [decision])

    def result(self, verb: Verb, rung: str | None = None, **more: Any) -> SteeringResult:
        """Returns the result of the decision with the candidate's present standing. rung: label of its rung."""
        row = candidate_standings.get(self.connection, self.built.row.id, self.named.id)
        label = rung
        if label is None:
            position = min(int(row["position"]), len(self.built.rungs) - 1)
            label = self.built.rungs[position].spec.rung
        return SteeringResult(str(verb), self.named.key, self.named.text, str(row["standing"]), label, **more)
