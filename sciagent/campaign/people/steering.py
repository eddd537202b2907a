"""People steer a campaign: they decide on a candidate, amend the campaign, and pause, stop or resume its driver.

A decision on a candidate is hold, release, veto or promote. A standing is the state of a candidate in its campaign,
such as open, pending or settled. The person's own process writes the decision under the lock of the campaign's row,
which a driver takes as well. The decision is in force at once, whether or not a driver runs. A running driver reads it
at its next step. A running job may finish: its evidence is kept, and the candidate's standing follows the decision.

An amendment changes budget, goal or workers in the YAML, and writes a directive to the driver. Only keys in
`campaign_spec.AMENDABLE` may change; any other change makes another campaign.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.built_campaign import Built, BuiltRung
from sciagent.campaign.core.create_and_open import as_begun, create_or_open
from sciagent.campaign.core.record_results_and_place import set_pending, settle_again
from sciagent.campaign.core.verdicts_and_places import Place
from sciagent.campaign.file.campaign_spec import CampaignSpec, parse_spec
from sciagent.campaign.file.objectives_and_budget import BudgetSpec
from sciagent.campaign.people.find_candidate import FoundCandidate
from sciagent.campaign.people.verify_and_calculate import complete_fast
from sciagent.domain.answers.status_and_comparison import DriverState
from sciagent.domain.cost import RESOURCE_UNITS, Cost
from sciagent.domain.directives import Verb
from sciagent.domain.outcomes_and_verdicts import Reason
from sciagent.domain.states_and_needs import AttemptState, CampaignState, JobState, Standing
from sciagent.errors import UsageError, did_you_mean
from sciagent.store.campaign_state import campaigns, directives, evidence_watermarks, standings
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs, spend
from sciagent.store.job_queue.jobs import NewJob
from sciagent.store.results import candidates, evidence
from sciagent.store.views import campaign_counts

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
        if case.standing is Standing.DROPPED:
            # some drops have no evidence from which a release could find the place again; see `settle_again`
            place = {name: case.row[name] for name in Place.__dataclass_fields__}
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
        columns = vetoes[-1].payload.get("before") if vetoes else None
        place_before = Place.from_columns(columns) if columns else None
        return case.settle_and_report(Verb.RELEASE, before=place_before)


def promote(built: Built, named: FoundCandidate, who: str, why: str, to: str | None = None) -> SteeringResult:
    """Queues the candidate's job at a rung before all other jobs, whatever lower gates have decided.

    to: label of the rung; None: the rung after the candidate's last one. Fast rungs without an answer run first, and a
    hazard blocks the promotion. Raises UsageError if the promotion is impossible or exceeds the budget.
    """
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


class _Case:
    """A candidate of a campaign within a transaction that locks the campaign's row."""

    def __init__(self, connection: Connection, built: Built, named: FoundCandidate) -> None:
        evidence_watermarks.lock(connection, built.row.id)
        self.connection = connection
        self.built = built
        self.named = named
        self.steering = directives.steering_of(connection, built.row.id, named.id)
        self.row = standings.get(connection, built.row.id, named.id)
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

    def jobs_by_rung(self, state: JobState) -> dict[str, int]:
        """Returns the ids of the candidate's jobs in this state, by rung label."""
        labels = {rung.id: rung.spec.rung for rung in self.built.bought}
        listed = jobs.of_candidate(self.connection, self.built.row.id, self.named.id, list(labels))
        return {labels[rung_id]: job_id for job_id, rung_id, job_state, _ in listed if job_state == state}

    def stop_work(self, verb: Verb) -> SteeringResult:
        """Cancels queued jobs. Running jobs may finish; the candidate's standing is settled after that."""
        queued = self.jobs_by_rung(JobState.QUEUED)
        cancelled_ids = jobs.cancel_queued(self.connection, list(queued.values()))
        cancelled = tuple(label for label, job_id in queued.items() if job_id in cancelled_ids)
        return self.settle_and_report(verb, cancelled=cancelled)

    def settle_and_report(self, verb: Verb, before: Place | None = None, **more: Any) -> SteeringResult:
        """Settles the candidate's standing again, unless a running job will do so at its end; returns the result.

        before: the place before a veto. more: fields of the result.
        """
        running = tuple(self.jobs_by_rung(JobState.RUNNING))
        if not running:
            settle_again(self.connection, self.built, self.named.id, before)
        return self.result(verb, running=running, **more)

    def rung_to_promote_to(self, to: str | None) -> BuiltRung:
        """Returns the rung of a promotion. Raises UsageError if there is none."""
        built = self.built
        position = int(self.row["position"])
        if not built.paid:
            raise UsageError(f'campaign "{built.row.name}" has no rung beyond those that run at once')
        if self.standing is Standing.SETTLED:
            raise UsageError(f"{self.named} is settled: the terminal rung has answered; sciagent explain says what")
        if self.row["reason"] == Reason.SAME_STRUCTURE and position == built.terminal:
            detail = self.row["detail"]
            raise UsageError(f"{self.named} {detail}, by the terminal rung: no rung is left to which it could go on")
        if to is None:
            # a dropped candidate has been answered at its position; another one waits for the rung there
            wanted = position + 1 if self.standing is Standing.DROPPED else position
            at_least_paid = max(wanted, built.paid[0].rules.position)
            return built.rungs[min(at_least_paid, built.terminal)]
        # nobody is promoted beyond the terminal rung
        rungs = {rung.spec.rung: rung for rung in built.paid if rung.rules.position <= built.terminal}
        if to not in rungs:
            raise UsageError(f'--to "{to}": a candidate can be promoted to {", ".join(rungs)}')
        return rungs[to]

    def start(self, rung: BuiltRung, who: str, why: str) -> str:
        """Writes a decision, and puts a job at the front of the queue or reuses evidence; returns a message."""
        connection = self.connection
        built = self.built
        named = self.named
        verifier = rung.verifier
        reusable = evidence.find_reusable(connection, [named.id], verifier.computation)
        if named.id in reusable:
            self._decide(rung, "reuse", who, why, reusable[named.id].id)
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
            jobs.set_priority(connection, queued[rung.spec.rung], jobs.PREFERRED)
            return f"its job at {rung.spec.rung} goes to the front"
        earlier_jobs = jobs.of_candidate(connection, built.row.id, named.id, [rung.id])
        is_new = True  # whether the job counts towards the rung's limit, as an earlier job that was not cancelled does
        if earlier_jobs:
            _, _, state, _ = earlier_jobs[0]
            is_new = state == JobState.CANCELLED
        declared_cost = rung.declared_cost(candidate)
        reservation = rung.reservation(declared_cost)
        self._check_budget(rung, reservation, is_new)
        self._decide(rung, "promote", who, why)
        jobs.cancel_queued(connection, list(queued.values()))  # queued jobs at other rungs
        message = f"it is the next at {rung.spec.rung}"
        if is_new:
            key = verifier.evidence_key(candidate).hash
            new_job = NewJob(built.row.id, rung.id, named.id, replicate=0, evidence_key=key, priority=jobs.PREFERRED)
            [job_id] = jobs.create_many(connection, [new_job])
        else:
            job_id = earlier_jobs[0][0]
            jobs.retry(connection, job_id, jobs.PREFERRED)
            message += ", once more"
        spend.reserve_many(connection, built.row.id, {job_id: reservation})
        set_pending(connection, built, named.id, rung)
        return message

    def _check_budget(self, rung: BuiltRung, reservation: Cost, new: bool) -> None:
        """Raises UsageError if the job exceeds the budget. new: whether the job counts towards the rung's limit."""
        budget = BudgetTracker(self.built, self.connection)
        label = rung.spec.rung
        position = rung.rules.position
        if new and budget.remaining_jobs(position) == 0:
            limit = f"all {self.built.limit_by_rung[position]} places of {label} are used"
            change = f"rungs.{label}=N"
        elif not budget.fits(reservation):
            limit = budget.exhausted() or f"what is left does not hold a job at {label}"
            change = "core_seconds=N, or wall_minutes=N"
        else:
            return
        raise UsageError(
            f"the budget is in the way: {limit}; raise it first: sciagent amend {self.built.row.name} --budget {change}"
        )

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
        standings.decide(self.connection, self.built.row.id, [decision])

    def result(self, verb: Verb, rung: str | None = None, **more: Any) -> SteeringResult:
        """Returns the result of the decision with the candidate's present standing. rung: label of its rung."""
        row = standings.get(self.connection, self.built.row.id, self.named.id)
        label = rung
        if label is None:
            position = min(int(row["position"]), len(self.built.rungs) - 1)
            label = self.built.rungs[position].spec.rung
        return SteeringResult(str(verb), self.named.key, self.named.text, str(row["standing"]), label, **more)


YAML_WIDTH = 4096  # so that no line of the stored text is broken
_BUDGET_KEYS = [key for key in BudgetSpec.model_fields if key != "rungs"]


def amended_source(
    row: CampaignRow, *, budget: Sequence[str] = (), goal_count: int | None = None, workers: int | None = None
) -> str:
    """Returns the stored YAML with the changes; comments and order are kept. Raises UsageError.

    budget: `key=number`, `rungs.LABEL=number`, `key=number/week` or `/campaign`, or `key=none` to lift a limit.
    """
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = YAML_WIDTH
    data = yaml.load(row.source)
    labels = [rung["rung"] for rung in row.spec["ladder"]]
    for text in budget:
        key, _, given = text.partition("=")
        path = key.strip().removeprefix("budget.").split(".")
        where = _place(data["budget"], path, labels, text)
        if not given.strip():
            raise UsageError(f'--budget "{text}": write KEY=NUMBER, or KEY=none to lift the limit')
        if given.strip().lower() in ("none", "null"):
            where.pop(path[-1], None)
        else:
            where[path[-1]] = _amount(given.strip(), text, path[-1], where.get(path[-1]))
    # `rungs` may be empty now, since a limit was lifted or only looked up
    if not data["budget"].get("rungs", True):
        data["budget"].pop("rungs")
    if goal_count is not None:
        data["goal"]["count"] = goal_count
    if workers is not None:
        data["workers"] = workers
    out = io.StringIO()
    yaml.dump(data, out)
    return out.getvalue()


def _place(budget: Any, path: Sequence[str], labels: Sequence[str], text: str) -> Any:
    """Returns the mapping that contains the last key of the path; adds the mapping `rungs` if it is needed.

    path: `[key]` or `["rungs", label]`. text: the option as given, for messages. Raises UsageError for an unknown key.
    """
    key = ".".join(path)
    known = [*_BUDGET_KEYS, *(f"rungs.{label}" for label in labels)]
    if key not in known:
        near = did_you_mean(key, known)
        raise UsageError(f'--budget "{text}": unknown key "{key}"{near}; it takes: {", ".join(known)}')
    if len(path) == 2 and budget.get("rungs") is None:
        budget["rungs"] = {}
    return budget["rungs"] if len(path) == 2 else budget


def _amount(given: str, text: str, key: str, old: Any) -> Any:
    """Returns the amount for the YAML: a number or a rate. Raises UsageError.

    given: `NUMBER`, `NUMBER/week` or `NUMBER/campaign`. text: the option as given, for messages. old: the amount in the
    YAML; if it is a mapping with a rate, `given` must name the period.
    """
    before, slash, after = given.partition("/")
    number = before.strip()
    period = after.strip()
    if slash and (key not in RESOURCE_UNITS or period not in ("week", "campaign")):
        takes = "take KEY=NUMBER/week or KEY=NUMBER/campaign, everything else KEY=NUMBER"
        raise UsageError(f'--budget "{text}": "/{period}" is not known here; {", ".join(RESOURCE_UNITS)} {takes}')
    amount = _number(number, text)
    if not isinstance(old, dict):
        return {"amount": amount, "per": period} if period == "week" else amount
    if not period:
        so_far = f"{old.get('amount')} per {old.get('per')}"
        ways = f"{key}={number}/week or {key}={number}/campaign"
        raise UsageError(f'--budget "{text}": {key} is {so_far} so far; write {ways}')
    old.update(amount=amount, per=period)
    return old


def _number(given: str, text: str) -> int | float:
    """Parses a number. text: the option as given, for the message. Raises UsageError."""
    try:
        return int(given) if given.isdecimal() else float(given)
    except ValueError:
        raise UsageError(f'--budget "{text}": "{given}" is no number') from None


def differences(row: CampaignRow, source: str, name: str, base: Path) -> tuple[CampaignSpec, list[str]]:
    """Returns the amended spec and one line `path: old -> new` per change. Raises SpecError, or UsageError for a change
    that is not allowed."""
    spec = parse_spec(source, name, base)
    if spec.campaign != row.name:
        raise UsageError(f'{name} is the campaign "{spec.campaign}", not "{row.name}"')
    spec = as_begun(spec, source, row)
    if spec.identity_hash != row.identity_hash:
        raise UsageError(
            f'this would be another campaign than "{row.name}":\n  {spec.identity_diff(row.spec)}\n'
            "Budget, goal.count, limits, resources, workers and description may be amended; for anything else start a "
            "campaign of a new name (evidence is reused)."
        )
    return spec, spec.diff(row.spec)


def amend(ledger: Ledger, spec: CampaignSpec, source: str, who: str, why: str, changes: Sequence[str]) -> None:
    """Stores the amended campaign and writes a directive; a running driver adopts it at its next step."""
    create_or_open(ledger, spec, source, who, why)
    with ledger.begin() as connection:
        row = campaigns.get(connection, spec.campaign)
        directives.write(connection, row.id, Verb.AMEND, who, why, payload={"changes": list(changes)})


def instruct(
    store: Ledger, name: str, verb: Verb, who: str, reason: str, now: bool = False
) -> tuple[DriverState | None, int]:
    """Instructs the driver of a campaign to pause or stop. now: kill running jobs.

    Returns the driver and the number of the campaign's running attempts. Without a driver, the campaign is withdrawn
    from the dispatcher if one would start it, or if the campaign waits for people and is to pause; the answer is then
    (None, 0). Raises UsageError if the campaign has no driver, or is already paused.
    """
    why = directives.checked_reason(reason) if reason else ""
    with store.begin() as connection:
        row = campaigns.get(connection, name)
        driver = campaigns.driver_of(connection, row.id)
        if verb is Verb.PAUSE and row.state is CampaignState.PAUSED:
            raise UsageError(f'campaign "{name}" is paused already; go on with: sciagent resume {name}')
        if driver is None or not driver.alive:
            # `set_hosted` with False withdraws the campaign from the dispatcher; True means that this changed anything
            if verb is Verb.PAUSE and row.state is CampaignState.WAITING:
                directives.write(connection, row.id, verb, who, why)
                campaigns.set_hosted(connection, row.id, False)
                shown = f"paused {directives.author_and_reason(who, why)}"
                campaigns.set_state(connection, row.id, CampaignState.PAUSED, shown)
                campaigns.log_event(connection, row.id, CampaignState.PAUSED, {"who": who, "why": why})
                return None, 0
            if verb is Verb.STOP and campaigns.set_hosted(connection, row.id, False):
                return None, 0
            gone = f"; its driver on {driver.host} is gone" if driver is not None else ""
            raise UsageError(f'campaign "{name}" is not running ({row.state}{gone}): there is nothing to {verb}')
        directives.write(connection, row.id, verb, who, why, payload={"now": True} if now else None)
        a = t.attempt.c
        running = (a.campaign_id == row.id, a.state == AttemptState.RUNNING)
        return driver, campaign_counts.count(connection, t.attempt, *running)


def wake(store: Ledger, name: str, who: str) -> str | None:
    """Instructs a paused driver to continue. Returns its host and process, or None if no driver is paused."""
    with store.begin() as connection:
        row = campaigns.get(connection, name)
        driver = campaigns.driver_of(connection, row.id) if row.state is CampaignState.PAUSED else None
        if driver is None or not driver.alive:
            return None
        directives.write(connection, row.id, Verb.RESUME, who, "")
    return f"{driver.host} (process {driver.pid})"


def hand_in(store: Ledger, name: str, who: str) -> None:
    """Hands a campaign to the dispatcher, which drives it when one is at work."""
    with store.begin() as connection:
        row = campaigns.get(connection, name)
        campaigns.set_hosted(connection, row.id, True)
        campaigns.log_event(connection, row.id, "submitted", {"who": str(who)})


def driver_line(store: Ledger, name: str) -> str:
    """Returns a sentence on the driver that will act on a person's decision, and when."""
    with store.read() as connection:
        row = campaigns.get(connection, name)
        driver = campaigns.driver_of(connection, row.id)
    if driver is not None and driver.alive:
        return f"the driver at {driver.host} (process {driver.pid}) takes it up at its next step"
    return f'campaign "{name}" is not running ({row.state}); it counts from the next: sciagent resume {name}'
