"""Lists of jobs: page after page in the order of their states, each with the result of its last attempt."""

from __future__ import annotations

from sciagent.domain.states_and_needs import AttemptState, JobState
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts, job_lists, jobs, leases
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.job_queue.jobs import NewJob
from sciagent.store.job_queue.leases import JobEnd
from tests.support import rows


def test_pages_follow_each_other_by_state_and_urgency(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        campaign = rows.campaign(connection)
        rung = campaigns.rungs(connection, campaign.id)[1]
        new = [
            NewJob(campaign.id, rung.id, candidate_id, 0, f"{i:064d}", float(i))
            for i, candidate_id in enumerate(rows.entered(connection, campaign, 4))
        ]
        low, middle, high, failed = jobs.create_many(connection, new)
        claims = leases.claim_many(connection, [middle, failed], "w/0")
        rows.finish_many(connection, [JobEnd(claims[failed], JobState.FAILED, "timeout")])
        end = AttemptEnd(claims[failed].attempt_id, AttemptState.FAILED, {}, 9.0, "timeout", "wall_limit", "9 s")
        attempts.end_many(connection, [end])
        first = job_lists.page(connection, [campaign.id], 3)
        assert [job.id for job in first] == [middle, high, low] and first[0].worker == "w/0"
        [last] = job_lists.page(connection, [campaign.id], 3, after=low)
        assert (last.id, last.outcome, last.reason, last.detail) == (failed, "timeout", "wall_limit", "9 s")
        assert job_lists.counts(connection, [campaign.id]) == {"running": 1, "queued": 2, "failed": 1}
        [standing] = job_lists.in_states(connection, campaign.id, [JobState.FAILED], 10)
        assert (standing.id, standing.state) == (failed, JobState.FAILED)
