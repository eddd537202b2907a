"""A snapshot of campaigns, queues, workers and failures."""

from __future__ import annotations

from sciagent.report.campaigns_at_work import CachedQueries, read_snapshot
from sciagent.store.database.ledger import Ledger
from tests.support.busy import busy


def test_a_snapshot_counts_campaigns_queues_workers_and_failures(ledger: Ledger) -> None:
    busy(ledger)
    with ledger.read() as connection:
        frame = read_snapshot(connection, CachedQueries())
    campaign = next(watched for watched in frame.campaigns if watched.name == "redox-anolytes")
    assert (campaign.hits, campaign.jobs["queued"], campaign.jobs["running"]) == (0, 19, 2)
    assert campaign.used is not None and campaign.used[0] == "core_seconds" and round(campaign.used[1], 2) == 0.21
    assert {queue.queue: (queue.depth, queue.slots) for queue in frame.queues}["high_fidelity"] == (4, 0)
    assert {job.worker for job in frame.running} == set(frame.busy) and frame.failures[0].outcome is not None


def test_a_dear_query_is_repeated_only_when_it_takes_little_of_the_time() -> None:
    asked: list[int] = []
    sparing = CachedQueries(share=1e-9)
    assert [sparing("hits", lambda: asked.append(1) or len(asked)) for _ in range(3)] == [1, 1, 1]
