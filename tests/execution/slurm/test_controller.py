"""Campaigns on a cluster: a real Slurm of one node runs their jobs, and the ledger hears what became of them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.driving.driver import Driver
from sciagent.errors import CampaignError
from sciagent.execution.slurm.array_element import ElementTask
from sciagent.execution.slurm.array_folders_submission_and_polling import spools
from sciagent.execution.slurm.controller import SlurmController, expected_seconds, fits_element, grouped
from sciagent.execution.slurm.site_profile import SiteProfile
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import cluster_reservations, offers_claims_and_ended_jobs
from sciagent.store.job_queue.cluster_reservations import WaitingExternalJob
from sciagent.store.views import campaign_counts_and_remarks
from tests.execution.slurm.conftest import profile
from tests.support.elsewhere import again, counts, driver, molecules, until, whole, written
from tests.support.slurm_cluster import SlurmCluster

QUEUES = ("simulation", "high_fidelity")
SMALL = "{wall_seconds: 60, memory_mb: 1000}"


@pytest.fixture
def site(cluster: SlurmCluster, ledger: Ledger, tmp_path: Path) -> SiteProfile:
    here = {"SCIAGENT_LEDGER": str(ledger.url.database), "SCIAGENT_ARTIFACTS": str(ledger.artifacts.root)}
    return profile(cluster, tmp_path / "spool", environment=here, poll_seconds=0.5, max_running=2)


def driven(ledger: Ledger, site: SiteProfile, seconds: float = 120.0) -> str:
    end = time.monotonic() + seconds
    with Driver(again(ledger), executor=SlurmController(ledger, site, QUEUES)) as one:

        def step() -> None:
            if time.monotonic() > end:
                one.abort()

        return str(one.run(step))


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_campaign_runs_on_a_cluster(ledger: Ledger, site: SiteProfile, tmp_path: Path) -> None:
    written(ledger, tmp_path, molecules(6), settings="{seconds: 0.2, declared: 5}", limits=SMALL)
    assert driven(ledger, site) == "finished"
    whole(ledger, 6)
    owners = counts(ledger, t.attempt.c.owner, t.attempt.c.job_id.is_not(None))
    assert all(one.startswith("slurm ") for one in owners)
    assert len(owners) < 6, "short jobs share an element"
    until(lambda: list((tmp_path / "spool").iterdir()) == [] or SlurmController(ledger, site, QUEUES).step(), 30)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_what_no_partition_holds_is_refused_with_its_limits(ledger: Ledger, site: SiteProfile, tmp_path: Path) -> None:
    written(ledger, tmp_path, molecules(1), limits="{wall_seconds: 60, memory_mb: 99999}")
    assert driven(ledger, site) == "finished"
    assert counts(ledger, t.job.c.state) == {"failed": 1}
    with ledger.read() as connection:
        attempt = connection.execute(sa.select(t.attempt).where(t.attempt.c.job_id.is_not(None))).mappings().one()
        assert (attempt["reason"], attempt["outcome"]) == ("no_partition", "bad_environment")
        assert "short: 60 minutes, 4000 MB, 4 cores" in attempt["detail"]
        place = connection.execute(sa.select(t.campaign_candidate.c.reason)).scalar_one()
        assert place == "no_partition"


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_what_slurm_refuses_for_ever_ends_the_driver_with_its_words_and_goes_on_when_mended(
    ledger: Ledger, site: SiteProfile, tmp_path: Path
) -> None:
    built = written(ledger, tmp_path, molecules(3), settings="{declared: 5}", limits=SMALL)
    wrong = site.model_copy(update={"partitions": (site.partitions[0].model_copy(update={"name": "nosuch"}),)})
    with pytest.raises(CampaignError, match=r"refused 5 times .* partition nosuch .*invalid partition"):
        driven(ledger, wrong)
    with ledger.read() as connection:
        found = campaign_counts_and_remarks.counts(connection, campaigns.get(connection, built.row.name))
        job_states = connection.execute(sa.select(t.job.c.state, t.job.c.attempts, t.job.c.losses, t.job.c.queue)).all()
    assert found.state == "failed" and "nosuch" in str(found.stop_reason) and "nosuch" in str(found.trouble)
    assert {tuple(one) for one in job_states} == {("queued", 0, 0, None)}, "nobody judges a candidate by it"
    assert driven(ledger, site) == "finished"
    whole(ledger, 3)
    with ledger.read() as connection:
        assert campaigns.slurm_warning(connection, built.row.id) is None


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_elements_that_fail_before_they_take_a_job_end_the_driver_and_cost_no_candidate(
    ledger: Ledger, site: SiteProfile, tmp_path: Path
) -> None:
    written(ledger, tmp_path, molecules(3), settings="{declared: 5}", limits=SMALL)
    wrong = site.model_copy(update={"environment": {**site.environment, "SCIAGENT_LEDGER": "nowhere.db"}})
    with pytest.raises(CampaignError, match="before they took a job: no ledger at"):
        driven(ledger, wrong)
    until(lambda: counts(ledger, t.job.c.state).keys() == {"queued"}, 60)  # the other element ends by itself
    assert counts(ledger, t.job.c.losses).keys() == {"0"}
    unnamed = site.model_copy(update={"environment": {}})  # which ledger it is, who submits says by itself
    assert driven(ledger, unnamed) == "finished"
    whole(ledger, 3)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_what_was_reserved_by_who_died_before_submitting_is_taken_back(
    ledger: Ledger, site: SiteProfile, tmp_path: Path
) -> None:
    built = written(ledger, tmp_path, molecules(1), settings="{declared: 5}", limits=SMALL)
    controller, name = SlurmController(ledger, site, QUEUES), f"slurm {'0' * 16}_0"
    with driver(built) as one:
        until(lambda: one.step() or counts(ledger, t.job.c.state).get("queued") == 1)
        with ledger.begin() as connection:
            (waiting,) = cluster_reservations.waiting_jobs(connection, QUEUES, 10)
            cluster_reservations.reserve_for(connection, {waiting.job_id: name})
            assert offers_claims_and_ended_jobs.claim_next(connection, QUEUES, "w/0") == []
            assert cluster_reservations.claim_reserved(connection, [waiting.job_id], f"{name}1", "other") == []
        controller.step()
        assert reserved(ledger) == {waiting.job_id: name}, "it may be being submitted"
        with ledger.begin() as connection:
            long_ago = datetime.now(UTC) - timedelta(minutes=2)
            connection.execute(sa.update(t.job).values(updated_at=long_ago))
        controller.step()
        assert reserved(ledger) != {waiting.job_id: name}
        until(lambda: one.step() is not None or controller.step(), 60)
    whole(ledger, 1)
    assert counts(ledger, t.job.c.losses) == {"1": 1}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_job_whose_element_was_cancelled_is_submitted_again(
    ledger: Ledger, site: SiteProfile, tmp_path: Path, cluster: SlurmCluster
) -> None:
    written(ledger, tmp_path, molecules(2), settings="{seconds: 2, declared: 100}", limits=SMALL)
    one_by_one = site.model_copy(update={"max_running": 1})
    with Driver(again(ledger), executor=SlurmController(ledger, one_by_one, QUEUES)) as one:
        (array,) = until(lambda: one.step() or spools(site.spool))
        cluster.run("scancel", f"--name={array.name}")
        until(lambda: one.step() is not None, 90)
    whole(ledger, 2)
    assert counts(ledger, t.job.c.losses) == {"0": 2}


def test_more_time_is_asked_for_after_a_try_that_did_not_end() -> None:
    assert [expected_seconds(WaitingExternalJob(1, 1, 100.0, 1000.0, None, tries)) for tries in range(5)] == [
        100,
        200,
        400,
        800,
        1000,
    ]
    assert expected_seconds(WaitingExternalJob(1, 1, None, 7200.0, None, 0)) == 600.0


def reserved(ledger: Ledger) -> dict[int, str]:
    with ledger.read() as connection:
        return {job_id: name for job_id, (name, _) in cluster_reservations.reserved_jobs(connection, QUEUES).items()}


def test_what_holds_more_than_a_core_is_left_to_no_element_that_is_there() -> None:
    there = ElementTask(name="slurm x_0", jobs=[1], queues=["simulation"], seconds=600.0, margin=2.0, memory_mb=1000)
    small = WaitingExternalJob(1, 1, 10.0, 60.0, 500, 0)
    assert fits_element([small], there) and not fits_element([small._replace(needs="gpu=1")], there)
    assert fits_element([small] * 30, there) and not fits_element([small] * 31, there)


def test_jobs_that_a_call_takes_together_get_one_element() -> None:
    alone = WaitingExternalJob(1, 1, 10.0, 60.0, 500, 0)
    of_two = [WaitingExternalJob(id_, 2, 10.0, 60.0, 500, 0, together=3) for id_ in range(2, 9)]
    died = of_two[0]._replace(job_id=9, tries=1, together=1)
    waiting = [of_two[0], alone, *of_two[1:], alone._replace(job_id=10), died]
    assert [[job.job_id for job in group] for group in grouped(waiting)] == [[2, 3, 4], [1], [5, 6, 7], [8], [10], [9]]


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_group_is_reserved_and_claimed_whole_and_halved_until_a_partition_holds_it(
    ledger: Ledger, site: SiteProfile, tmp_path: Path
) -> None:
    long = "{wall_seconds: 7200, memory_mb: 500}"
    built = written(ledger, tmp_path, molecules(7), limits=long, verifier="bad.together")
    controller = SlurmController(ledger, site, QUEUES)
    with driver(built) as one:
        until(lambda: one.step() or counts(ledger, t.job.c.state).get("queued") == 7)
        with ledger.begin() as connection:
            connection.execute(sa.update(t.job).values(seconds=7000.0))
            arrays = controller._reserve_arrays(connection, []).values()
        groups = [group for _, some in arrays for group in some]
        assert [len(group) for group in groups] == [1, 2, 2, 2], "the longest partition has 600 minutes"
        names = reserved(ledger)
        with ledger.begin() as connection:
            claims = cluster_reservations.claim_reserved(connection, groups[-1], names[groups[-1][0]], "element")
        assert tuple(claim.job_id for claim in claims) == groups[-1]
        assert sorted(reserved(ledger)) == sorted({*names} - {*groups[-1]})


@pytest.mark.long
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_nodes_without_the_engine_end_the_driver_with_what_is_missing_and_cost_no_candidate(
    ledger: Ledger, site: SiteProfile, tmp_path: Path
) -> None:
    written(ledger, tmp_path, molecules(2), limits=SMALL, verifier="bad.absent")
    with pytest.raises(CampaignError, match=r"cannot run its jobs on .*pip install no-such-engine"):
        driven(ledger, site)
    until(lambda: counts(ledger, t.job.c.state).keys() == {"queued"}, 60)  # the other element ends by itself
    assert counts(ledger, t.job.c.losses).keys() == {"0"}
