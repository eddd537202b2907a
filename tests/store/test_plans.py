"""The questions asked at every step stand on an index, however large the campaign."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from sciagent.domain.evidence_keys_and_pooled_replicates import Computation
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.states_and_needs import JobState
from sciagent.report import candidate_history
from sciagent.store.campaign_state import campaigns, candidate_standings, directives, same_structures
from sciagent.store.campaign_state.same_structures import RelaxedStructure, ValueWindow
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import (
    job_lists,
    jobs,
    leases,
    offers_claims_and_ended_jobs,
    reservations_and_bookings,
    workers_and_capacity,
)
from sciagent.store.job_queue.workers_and_capacity import NewWorker
from sciagent.store.lab import tasks
from sciagent.store.people import wrong_passwords
from sciagent.store.results import candidates, evidence
from sciagent.store.views import campaign_counts_and_remarks, queues_campaigns_and_recent_failures
from sciagent.store.views.report_candidates import best_candidates, imported_answers, imported_for_same_compound
from tests.support import rows
from tests.support.query_plans import plan_of, scans
from tests.support.worths import worth

WORKER = NewWorker("w", "host", 1, "ledger", ("simulation",), slots=2, cores=1)
RELAXED = Position(1), Computation("toy", "1", rows.SETTINGS), "chemical/x-cif"
HOT: dict[str, Callable[[Any, int], object]] = {
    "waiting, best first": lambda c, i: candidate_standings.waiting_candidates(c, i, 1, 10),
    "waiting with an answer": lambda c, i: candidate_standings.waiting_with_answer(
        c, i, 1, 1, Computation("toy", "1", rows.SETTINGS), 10
    ),
    "proposals": lambda c, i: campaign_counts_and_remarks.proposals(c, i),
    "top": lambda c, i: candidate_standings.best_with_worth(c, i, 10),
    "count_at": lambda c, i: candidate_standings.count_at(c, i, [1, 2], 10),
    "reuses_by_rung": lambda c, i: campaign_counts_and_remarks.reuses_by_rung(c, i),
    "members": lambda c, i: candidate_standings.members(c, i, [1, 2]),
    "dropped with an error": lambda c, i: candidate_standings.dropped_with_error(c, i, 1, 10),
    "find_reusable": lambda c, i: evidence.find_reusable(c, [1, 2], Computation("toy", "1", rows.SETTINGS)),
    "answered by others": lambda c, i: evidence.answered_by_others(c, i, [Computation("toy", "1", rows.SETTINGS)], 0),
    "imported values of tautomers": lambda c, i: imported_for_same_compound(
        c, best_candidates(c, campaigns.get(c, "toys"), 10)
    ),
    "by_key": lambda c, i: evidence.by_key(c, "e" * 64),
    "what relaxed to the structure of another": lambda c, i: same_structures.likenesses_of(c, i, [1, 2]),
    "relaxed structures of some": lambda c, i: same_structures.relaxed_structures(c, i, [1, 2], *RELAXED),
    "other forms of a formula by energy": lambda c, i: same_structures.of_formula_by_energy(
        c, i, RelaxedStructure(1, "NaCl", 1, "e" * 64), *RELAXED, window=ValueWindow(1, 1, 0.0, 1.0), most=1
    ),
    "relaxed structures that are near": lambda c, i: same_structures.similar_structures(
        c,
        i,
        RelaxedStructure(1, "NaCl", 1, "e" * 64),
        *RELAXED,
        windows=[ValueWindow(1, 1, 0.0, 1.0)],
        without=[2],
        most=8,
    ),
    "measured_of": lambda c, i: evidence.measured_of(c, [1, 2]),
    "queued": lambda c, i: jobs.queued(c, i),
    "reserved": lambda c, i: reservations_and_bookings.reserved(c, i),
    "orphans": lambda c, i: leases.orphans(c, i, "me"),
    "cost_ratios": lambda c, i: reservations_and_bookings.cost_ratios(c, "toy", "1", rows.SETTINGS),
    "best": lambda c, i: best_candidates(c, campaigns.get(c, "toys"), 10),
    "hits": lambda c, i: campaign_counts_and_remarks.hits(c, i),
    "spent": lambda c, i: campaign_counts_and_remarks.spent(c, i),
    "spent lately": lambda c, i: campaign_counts_and_remarks.spent_since(c, i, ["core_seconds", "money"], 0.0),
    "held": lambda c, i: reservations_and_bookings.reserved_by_job(c, i),
    "find a candidate": lambda c, i: candidates.find(c, "abcdef12"),
    "scaffolds that are known": lambda c, i: candidates.known_families(c, ["a" * 64]),
    "candidates without a scaffold": lambda c, i: candidates.candidates_without_family(c, 10),
    "what became of each scaffold": lambda c, i: candidates.results_by_family(c, i, 100, 8),
    "load": lambda c, i: candidates.load(c, [1, 2]),
    "words": lambda c, i: directives.steering_of_many(c, i, [1, 2]),
    "attempts whose lease ran out": lambda c, i: leases.expired(c, 10),
    "what workers hold": lambda c, i: leases.held_by_workers(c, i),
    "any_in_state": lambda c, i: jobs.any_in_state(c, JobState.QUEUED, rung_id=1),
    "any in queues": lambda c, i: jobs.any_in_state(c, JobState.RUNNING, queues=["simulation"]),
    "what people said since": lambda c, i: directives.directives_since(c, i, 0),
    "what people said last": lambda c, i: directives.last_id(c, i),
    "what people said of one": lambda c, i: directives.steering_of(c, i, 1),
    "jobs of one": lambda c, i: jobs.of_candidate(c, i, 1, [1, 2]),
    "what waits before one": lambda c, i: candidate_history.count_ahead(c, campaigns.get(c, "toys"), 1, worth(0.5), 1),
    "proposals of one": lambda c, i: candidate_history.proposals(c, campaigns.get(c, "toys"), 1),
    "decisions on one": lambda c, i: candidate_history.decisions(c, campaigns.get(c, "toys"), 1),
    "evidence of one": lambda c, i: candidate_history.evidence(c, 1),
    "imported values": lambda c, i: imported_answers(c, [1, 2]),
    "a page of jobs": lambda c, i: job_lists.page(c, [i], 10, after=1),
    "a page of jobs of a rung": lambda c, i: job_lists.page(c, [i], 10, rung_ids=[1]),
    "jobs in full": lambda c, i: job_lists.job_rows(c, [1, 2]),
    "jobs by state": lambda c, i: job_lists.counts(c, [i]),
    "jobs of a rung by state": lambda c, i: job_lists.counts(c, [i], [1]),
    "jobs in a state": lambda c, i: job_lists.in_states(c, i, [JobState.FAILED], 10),
    "jobs as they stand": lambda c, i: job_lists.job_standings(c, [1, 2]),
    "jobs that are not over": lambda c, i: jobs.keys_of_unfinished_jobs(c, {"a" * 64}),
    "queues": lambda c, i: queues_campaigns_and_recent_failures.queues(c),
    "workers of late": lambda c, i: workers_and_capacity.reported_since(c, db_now(c) - timedelta(days=1)),
    "what came of the newest attempts": lambda c, i: queues_campaigns_and_recent_failures.latest_results(c),
    "campaigns that run": lambda c, i: queues_campaigns_and_recent_failures.driven_campaigns(c),
    "what a campaign has come to": lambda c, i: queues_campaigns_and_recent_failures.totals(c, i),
    "what workers run": lambda c, i: workers_and_capacity.running_jobs(c),
    "free resources of a worker": lambda c, i: workers_and_capacity.free_resources(c, WORKER),
    "needs of unfinished jobs": lambda c, i: workers_and_capacity.distinct_needs(c, ["simulation"], jobs.UNFINISHED),
    "the next job of a worker": lambda c, i: offers_claims_and_ended_jobs.claim_next(
        c, ["simulation"], "w/0", worker=WORKER
    ),
    "answered tasks by number": lambda c, i: tasks.listed(c, after=1, states=[JobState.DONE], among=[i], limit=10),
    "open tasks of a candidate": lambda c, i: tasks.listed(c, after=0, candidate_id=1, limit=10),
    "tasks in review by number": lambda c, i: tasks.listed(c, after=0, in_review=True, limit=10),
    "wrong passwords": lambda c, i: wrong_passwords.of_subjects(c, ["a" * 64]),
    "old wrong passwords": lambda c, i: wrong_passwords.old_rows(c),
    "ids of keys": lambda c, i: candidates.ids_of(c, ["a" * 64]),
}
IN_ORDER = {"waiting, first come first", "waiting, best first", "top", "best"}  # and nothing is left to sort


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", HOT)
def test_nothing_is_scanned(ledger: Ledger, name: str) -> None:
    with ledger.begin() as connection:
        rows.campaign(connection)
    plan = plan_of(ledger, lambda connection: HOT[name](connection, 1))
    assert scans(plan) == [], plan
    if name in IN_ORDER:
        assert not any("TEMP B-TREE" in line for line in plan), plan


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_hits_are_counted_from_an_index_of_hits_alone(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        rows.campaign(connection)
    plan = plan_of(ledger, lambda connection: campaign_counts_and_remarks.hits(connection, 1))
    assert any("ix_campaign_candidate_hit" in line for line in plan), plan


CLAIM = leases.Claim(1, 1, 1)
WRITES: dict[str, Callable[[Any, int], object]] = {
    "cancelled_before": lambda c, i: jobs.cancelled_places(c, [jobs.NewJob(i, 1, 1, 0, "k", 1.0)]),
    "claim_many": lambda c, i: leases.claim_many(c, [1, 2], "me"),
    "heartbeat": lambda c, i: leases.heartbeat(c, [CLAIM]),
    "finish_many": lambda c, i: rows.finish_many(c, [leases.JobEnd(CLAIM, JobState.DONE, "ok")]),
    "release_many": lambda c, i: reservations_and_bookings.release_many(c, [1, 2]),
    "update_many": lambda c, i: candidate_standings.update_many(
        c, i, {1: {"standing": "open"}, 2: {"standing": "open"}}
    ),
    "update_alike": lambda c, i: candidate_standings.update_alike(c, i, [1, 2], standing="open"),
}


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", WRITES)
def test_no_write_of_a_step_scans(ledger: Ledger, name: str) -> None:
    with ledger.begin() as connection:
        rows.campaign(connection)
    plan = plan_of(ledger, lambda connection: WRITES[name](connection, 1), kinds=("SELECT", "UPDATE"), writes=True)
    read = [line for line in plan if line.startswith("SCAN") and " VIRTUAL TABLE " not in line]
    assert plan and not read, plan
