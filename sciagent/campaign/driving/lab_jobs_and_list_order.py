"""The crew of people: puts jobs on the lab's list, limits how many are on it, and settles what was answered.

Nobody waits for people: a driver with nothing else to do ends, and its campaign is `waiting`.

The order of the list is made again at most once a day. Tasks that nobody has begun get a new priority, and tasks
that others have overtaken are withdrawn.

Only the scheduler `priced` learns what changes the order. A task stays as it is once a person has acted on it: the task
was promoted or approved, has a vial, or another measurement of its candidate is claimed or answered. A task that the
audit has drawn stays as well, since a draw is not taken back; the audit is a random sample of the candidates that the
scheduler passes over.

A crew is the part of a driver that has jobs run. Where computers run the other rungs, their crew and the crew of people
work as one, `JointCrew`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from datetime import timedelta

from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.record_results_and_place import settle_again
from sciagent.campaign.driving.driver_state_and_heartbeat import Crew, DriverSession, Ending
from sciagent.campaign.driving.job_slots import JobSlots, Pace, PlannedJob, Quota
from sciagent.campaign.driving.remote_jobs import OfferedJob, offered_jobs, settle_ended
from sciagent.domain.lab_messages_and_codes import QUEUE
from sciagent.domain.proposer_interfaces import Choice
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.states_and_needs import CampaignState
from sciagent.scheduling.candidate_pool import RECENT, tasks_for_missing_hits
from sciagent.store.campaign_state import campaigns, candidate_standings
from sciagent.store.database.engine import db_now
from sciagent.store.job_queue import jobs, offers_claims_and_ended_jobs, reservations_and_bookings
from sciagent.store.job_queue.jobs import Offer
from sciagent.store.lab import tasks
from sciagent.store.lab.tasks import UntouchedTask
from sciagent.store.views import campaign_counts_and_remarks

REORDER_INTERVAL = timedelta(days=1)
REPRICED_EVENT = "repriced"
WHY_OVERTAKEN = "others promise more by what was answered since"
WHY_SPARE = "the others that are out are likely to bring the hits that are still asked for"


def reorder_list(connection: Connection, session: DriverSession) -> None:
    """Orders the campaign's list again if the last time is a day ago. Call it with the driver's lease, when the
    scheduler is open."""
    built = session.built
    if not built.asked or not _is_due(connection, built.row.id):
        return
    position_of_rung = {rung.id: rung.rules.position for rung in built.asked}
    untouched = [task for task in tasks.untouched_tasks(connection, built.row.id) if task.rung_id in position_of_rung]
    listed = {task.candidate_id: position_of_rung[task.rung_id] for task in untouched}
    if not listed:
        return
    remaining_choices = session.purchasing.reorder(connection, listed)
    if remaining_choices is None:  # the tasks keep their order
        return
    spare = _spare(connection, session, listed, remaining_choices)
    remaining_choices = {id_: choice for id_, choice in remaining_choices.items() if id_ not in spare}
    for task in untouched:
        if task.candidate_id in remaining_choices:
            jobs.set_priority(connection, task.id, remaining_choices[task.candidate_id].index)
    _decide(connection, session, untouched, remaining_choices, spare)
    withdrawn = _withdraw(connection, session, untouched, remaining_choices)
    session.log(connection, REPRICED_EVENT, tasks=len(listed), withdrawn=withdrawn)


def _withdraw(
    connection: Connection,
    session: DriverSession,
    untouched: Sequence[UntouchedTask],
    remaining_choices: Mapping[int, Choice],
) -> int:
    """Takes the tasks without a remaining choice off the list; returns the number of their candidates."""
    withdrawn_tasks = [task for task in untouched if task.candidate_id not in remaining_choices]
    jobs.cancel_queued(connection, [task.id for task in withdrawn_tasks])
    withdrawn = sorted({task.candidate_id for task in withdrawn_tasks})
    for candidate_id in withdrawn:
        settle_again(connection, session.built, candidate_id)
    session.purchasing.note_withdrawn(connection, withdrawn)
    session.budget.refresh(session.built, connection)
    return len(withdrawn)


def n_tasks_needed(connection: Connection, session: DriverSession, out: int) -> float:
    """Returns how many more tasks of the terminal rung are likely to bring the hits that the goal lacks.

    out: number of candidates with such a task. Each candidate counts with the share of hits among the latest answers.
    Returns infinity for a goal without a number of hits.
    """
    built = session.built
    goal = session.built.spec.goal
    if goal.kind != "hits" or not goal.count:
        return math.inf
    latest = campaign_counts_and_remarks.latest_hits(connection, built.row.id, built.terminal, RECENT)
    return max(0, tasks_for_missing_hits(goal.count, session.hits.distinct, latest) - out)


def _spare(
    connection: Connection,
    session: DriverSession,
    listed: Mapping[int, Position],
    remaining_choices: Mapping[int, Choice],
) -> set[int]:
    """Returns the candidates of the least urgent tasks of the terminal rung that the goal is not likely to need."""
    terminal = session.built.terminal
    terminal_ids = [id_ for id_ in remaining_choices if listed[id_] == terminal]
    terminal_ids.sort(key=lambda id_: -remaining_choices[id_].index)  # most urgent first
    if not terminal_ids:
        return set()
    open_ids = tasks.open_candidates(connection, session.built.rungs[terminal].id)
    begun_ids = [id_ for id_ in open_ids if listed.get(id_) != terminal]  # a person has acted on their tasks
    n_begun = len(begun_ids)
    n_needed = n_tasks_needed(connection, session, out=n_begun)
    n_stay = int(min(n_needed, len(terminal_ids)))  # `n_needed` may be infinite
    return set(terminal_ids[n_stay:])


def _is_due(connection: Connection, campaign_id: int) -> bool:
    last = campaigns.last_event(connection, campaign_id, REPRICED_EVENT)
    return last is None or db_now(connection) - last >= REORDER_INTERVAL


def _decide(
    connection: Connection,
    session: DriverSession,
    untouched: list[UntouchedTask],
    remaining_choices: Mapping[int, Choice],
    spare: Set[int],
) -> None:
    """Records a decision for each candidate, so that its page and the list say why its task stays or was withdrawn."""
    kind = session.built.spec.scheduler.kind
    rung_of_candidate = {task.candidate_id: task.rung_id for task in untouched}
    decisions = []
    for candidate_id, rung_id in rung_of_candidate.items():
        choice = remaining_choices.get(candidate_id)
        decision: dict[str, object] = {
            "candidate_id": candidate_id,
            "rung_id": rung_id,
            "chooser": kind,
            "propensity": 1.0,
        }
        if choice is None:
            reason = WHY_SPARE if candidate_id in spare else WHY_OVERTAKEN
            decision.update(action="withdraw", why=f"{kind}: {reason}")
            decision.update(index=None, law_version=None, price=None)
        else:
            decision.update(action="reprice", why=choice.why)
            decision.update(index=choice.index, law_version=choice.law, price=choice.price)
        decisions.append(decision)
    candidate_standings.decide(connection, session.built.row.id, decisions)


def wake_for_reordering(connection: Connection, session: DriverSession, state: CampaignState) -> None:
    """Lets a dispatcher look at a campaign that waits for people after a day, if its list may then change."""
    built = session.built
    if state is not CampaignState.WAITING or not session.purchasing.reorders:
        return
    if tasks.untouched_tasks(connection, built.row.id):
        campaigns.wake(connection, built.row.id, db_now(connection) + REORDER_INTERVAL)


def ending_with_people(connection: Connection, session: DriverSession, ending: Ending) -> Ending:
    """Returns the ending, or `waiting` in its place while people have tasks.

    A reached goal ends the campaign; tasks that nobody has claimed are then taken off the list. A proposer's model that
    failed is asked again after the next answer of people.
    """
    built = session.built
    state, why = ending
    if not built.asked or state not in (CampaignState.FINISHED, CampaignState.BUDGET_SPENT, CampaignState.FAILED):
        return ending
    if session.is_goal_reached:
        withdraw_unclaimed(connection, built)
        return ending
    if not tasks.open_by_rung(connection, built.row.id):
        return ending
    if state is CampaignState.FAILED:
        return CampaignState.WAITING, f"for people; {why}"
    return CampaignState.WAITING, "for people"


def withdraw_unclaimed(connection: Connection, built: Built) -> None:
    """Cancels all tasks that nobody has claimed."""
    waiting = tasks.unclaimed(connection, built.row.id)
    jobs.cancel_queued(connection, list(waiting))
    for candidate_id in sorted(set(waiting.values())):
        settle_again(connection, built, candidate_id)


OFFER = Offer(QUEUE, seconds=None, memory_mb=None)
"""The offer of every task, on the queue of people."""


class WorldJobs(Crew):
    """The crew of people. Tasks that are out do not count as running."""

    running = 0

    def __init__(self, session: DriverSession, pace: Pace, connection: Connection) -> None:
        super().__init__(session, pace)
        self._jobs_out: dict[int, OfferedJob] = {}
        self._n_new = 0  # number of tasks put on the list since the last launch
        self.amend(connection)

    def amend(self, connection: Connection) -> None:
        """Loads the tasks that are out."""
        self._jobs_out = offered_jobs(connection, self.session.built, self.session.built.asked)

    def slots(self, connection: Connection) -> Quota:
        """Returns how many more tasks of each rung may be put on the list."""
        built = self.session.built
        out = tasks.open_by_rung(connection, built.row.id)
        weekly = built.spec.budget.rates().get("lab_slots")
        quota = {}
        for rung in built.asked:
            n_unclaimed_tasks, _n_claimed_tasks = out.get(rung.id, (0, 0))
            n_listed_candidates = math.ceil(n_unclaimed_tasks / rung.spec.tasks_per_candidate)
            room = rung.spec.most_listed_candidates(weekly) - n_listed_candidates
            if rung.rules.is_terminal and room > 0:
                n_out = len(tasks.open_candidates(connection, rung.id))
                room = int(min(room, n_tasks_needed(connection, self.session, out=n_out)))
            quota[rung.rules.position] = max(0, room)
        return Quota(quota)

    def start(self, connection: Connection, planned: Sequence[PlannedJob]) -> list[int]:
        ids = jobs.create_many(connection, [job.row(self.session.built.row.id, OFFER) for job in planned])
        self._add(connection, dict(zip(ids, planned, strict=True)))
        self._replicate(connection, planned)
        return ids

    def _replicate(self, connection: Connection, planned: Sequence[PlannedJob]) -> None:
        """Puts the further measurements of each candidate on the list."""
        campaign_id = self.session.built.row.id
        further = []
        for job in planned:
            for replicate in job.replicates[1:]:
                key = replace(job.key, replicate=replicate).hash
                row = replace(job.row(campaign_id, OFFER), replicate=replicate, evidence_key=key)
                further.append((job, row))
        if further:
            ids = jobs.create_many(connection, [row for _, row in further])
            job_of_id = {id_: job for id_, (job, _) in zip(ids, further, strict=True)}
            reservations_and_bookings.reserve_many(
                connection, campaign_id, {id_: job.reservation for id_, job in job_of_id.items()}
            )
            self._add(connection, job_of_id)

    def resume(self, connection: Connection, planned: Mapping[int, PlannedJob]) -> None:
        offers_claims_and_ended_jobs.offer_many(connection, dict.fromkeys(planned, OFFER))
        self._add(connection, planned)

    def _add(self, connection: Connection, planned: Mapping[int, PlannedJob]) -> None:
        due_days = {}
        for id_, job in planned.items():
            if job.rung.spec.lab is not None:
                due_days[id_] = job.rung.spec.lab.due_days
        tasks.enter(connection, list(due_days), due_days)
        self._n_new += len(planned)
        for id_, job in planned.items():
            out = offers_claims_and_ended_jobs.OutstandingJob(id_, job.candidate_id, job.rung.id)
            self._jobs_out[id_] = OfferedJob(out, job.position, job.declared, job.reservation)

    def launch(self) -> int:
        """Returns the number of tasks that are new on the list; there may be more to come."""
        new = self._n_new
        self._n_new = 0
        return new

    def settle(self) -> set[Position]:
        """Places the candidates of answered tasks. The cost of a task was booked when it was claimed."""
        ended = settle_ended(self.session, self._jobs_out)
        if not ended:
            return set()
        done = [self._jobs_out.pop(end.job_id) for end in ended]
        with self.session.built.ledger.read() as connection:
            self.session.recount(connection)
        # the scheduler reads these candidates again
        self.session.purchasing.pool.mark_changed(job.out.candidate_id for job in done)
        return {job.position for job in done}

    def recall(self) -> None:
        """Does nothing: tasks stay on the list, which shows the tasks of a resting campaign to nobody."""

    def abort(self) -> None:
        """Does nothing: no process waits for people."""

    def close(self) -> None:
        return None


class JointSlots:
    """The slots of one dispatch, of computers and of people. Neither takes slots of the other."""

    def __init__(self, computers: JobSlots, people: Quota, of_people: frozenset[Position]) -> None:
        self._computers = computers
        self._people = people
        self._of_people = of_people
        self._is_closed = False  # whether no less urgent job may overtake one that the computers had no slot for

    @property
    def open(self) -> frozenset[Position]:
        return self._computers.open | self._people.open

    @property
    def wanted(self) -> int:
        return self._computers.wanted + self._people.wanted

    @property
    def has_free(self) -> bool:
        return self._computers.has_free or self._people.has_free

    @property
    def is_full(self) -> bool:
        return self._is_closed and self._people.is_full

    def take(self, position: Position, ample: bool) -> int | None:
        if position in self._of_people:
            return self._people.take(position, ample)
        if self._is_closed:
            return None
        call = self._computers.take(position, ample)
        if call is None and self._computers.is_full:
            self._is_closed = True
        return call


class JointCrew(Crew):
    """The crew of computers and the crew of people, as one."""

    def __init__(self, computers: Crew, people: WorldJobs) -> None:
        super().__init__(computers.session, computers.pace)
        self._computers = computers
        self._people = people

    @property
    def fault(self) -> str | None:  # type: ignore[override]
        return self._computers.fault

    @property
    def running(self) -> int:
        return self._computers.running

    def slots(self, connection: Connection) -> JobSlots:
        of_people = frozenset(rung.rules.position for rung in self.session.built.asked)
        return JointSlots(self._computers.slots(connection), self._people.slots(connection), of_people)

    def start(self, connection: Connection, planned: Sequence[PlannedJob]) -> list[int]:
        jobs_of_people = [job for job in planned if job.rung.spec.is_world]
        jobs_of_computers = [job for job in planned if not job.rung.spec.is_world]
        ids_of_people = self._people.start(connection, jobs_of_people) if jobs_of_people else []
        ids_of_computers = self._computers.start(connection, jobs_of_computers) if jobs_of_computers else []
        next_of_people = iter(ids_of_people)
        next_of_computers = iter(ids_of_computers)
        ids = []
        for job in planned:
            is_for_people = job.rung.spec.is_world
            ids.append(next(next_of_people) if is_for_people else next(next_of_computers))
        return ids

    def resume(self, connection: Connection, planned: Mapping[int, PlannedJob]) -> None:
        jobs_of_people = {id_: job for id_, job in planned.items() if job.rung.spec.is_world}
        jobs_of_computers = {id_: job for id_, job in planned.items() if not job.rung.spec.is_world}
        if jobs_of_people:
            self._people.resume(connection, jobs_of_people)
        if jobs_of_computers:
            self._computers.resume(connection, jobs_of_computers)

    def launch(self) -> int:
        return self._computers.launch() + self._people.launch()

    def settle(self) -> set[Position]:
        return {*self._computers.settle(), *self._people.settle()}

    def recall(self) -> None:
        self._computers.recall()

    def abort(self) -> None:
        self._computers.abort()

    def recount(self, connection: Connection) -> None:
        self._computers.recount(connection)

    def amend(self, connection: Connection) -> None:
        self._computers.amend(connection)
        self._people.amend(connection)

    def close(self) -> None:
        self._computers.close()
