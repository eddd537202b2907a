"""The limits of a job, and what it may leave behind."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from sciagent.domain.states_and_needs import ReportedProgress
from sciagent.verification.sandbox.host import Limits, Request, Worker
from tests.verification.sandbox.working import ABC, AMPLE, ETHANOL, run, said


def test_in_a_batch_the_wall_limit_is_each_candidates_own(worker: Worker) -> None:
    results = run(worker, "bad.hang", *ABC, at="CCN", limits=Limits(1.5, 300))
    assert said(results) == ["ok", "timeout/wall_limit", "ok", "ok"]
    assert 1.4 < results[1].wall_seconds < 4
    burnt = run(worker, "bad.noop", *ABC[:3], burn=0.35, limits=Limits(wall_seconds=2))
    assert said(burnt) == ["ok"] * 3
    assert all(0.3 < r.cost["core_seconds"] < 0.6 for r in burnt)


@pytest.mark.parametrize(
    "settings",
    [
        {"path": "/etc/hostname"},
        {"path": "../output"},
        {"link_to": "/etc/passwd"},
        {"path": "pipe"},
        {"path": "checkpoint/../../../zygote.log"},
        {"name": "../../evil"},
        {"path": "."},
        {"path": "never/../written"},
        {"path": "loop"},
        {"path": "/dev/zero"},
        {"link_to": "/dev/zero"},
    ],
)
def test_no_artifact_comes_from_outside_the_scratch_folder(worker: Worker, settings: dict[str, Any]) -> None:
    assert said(run(worker, "bad.files", **settings)) == ["crashed/bad_result"]
    assert not list((worker.folder / "spool").rglob("evil"))


def test_a_file_waits_for_room_on_a_full_disk_and_the_wait_is_not_the_jobs(worker: Worker) -> None:
    [first] = run(worker, "bad.files")
    number = int(first.files[0].path.parent.parent.name)
    target = worker.folder / "spool" / str(number + 1) / "0" / first.files[0].name
    target.parent.mkdir(parents=True)
    target.symlink_to("/dev/full")
    freed = threading.Timer(1.5, target.unlink)
    freed.start()
    [result] = run(worker, "bad.files", limits=Limits(wall_seconds=1, memory_mb=300))
    assert said([result]) == ["ok"] and result.files[0].path.read_text() == "CCO"
    assert not freed.is_alive() and result.wall_seconds < 1


def test_progress_is_heard_while_the_job_runs(worker: Worker) -> None:
    heard: list[tuple[str, ReportedProgress, float]] = []
    request = Request("bad.remote", {"steps": 8, "seconds": 0.4}, (ETHANOL,), AMPLE)
    [result] = worker.run(request, lambda key, progress: heard.append((key, progress, time.monotonic())))
    ended_at = time.monotonic()
    assert said([result]) == ["ok"] and len(heard) >= 3
    assert {key for key, _, _ in heard} == {ETHANOL.key}
    assert heard[0][1] == ReportedProgress(0, 8, "step 1")
    done = [progress.done for _, progress, _ in heard]
    assert done == sorted(set(done)) and ended_at - heard[1][2] > 0.5, "not only at the end"


def test_a_job_that_falls_silent_ends_as_stalled_and_one_that_reports_does_not(worker: Worker) -> None:
    limits = Limits(wall_seconds=60, memory_mb=300, stall_seconds=2.5)
    settings = {"steps": 6, "seconds": 0.7}
    silent, alive = (
        worker.run(Request("bad.remote", {**settings, **more}, (ETHANOL,), limits))[0]
        for more in ({"silent_from": 2}, {})
    )
    assert said([silent, alive]) == ["timeout/stalled", "ok"]
    assert silent.finding.detail == "no progress was reported for 2.5 s"
    assert silent.wall_seconds < 10 and alive.wall_seconds > 2.5


@pytest.mark.parametrize("of", [-1.0, 1e301])
def test_progress_of_an_impossible_whole_is_the_engines_fault(worker: Worker, of: float) -> None:
    [result] = worker.run(Request("bad.remote", {"steps": 3, "seconds": 1.1, "of": of}, (ETHANOL,), AMPLE))
    assert result.finding.outcome == "crashed" and "progress" in result.finding.detail


def test_the_first_of_a_group_has_the_wall_time_of_all(worker: Worker) -> None:
    results = worker.run(Request("bad.together", {"sleep": 1.5}, ABC, Limits(1.0, 300), together=True))
    assert said(results) == ["ok"] * 4


def test_the_memory_of_a_job_with_a_gpu_is_watched_though_its_addresses_are_free(worker: Worker) -> None:
    [result] = worker.run(Request("bad.memory", {}, (ETHANOL,), AMPLE, cuda="0"))
    assert said([result]) == ["out_of_memory/memory_limit"]
    assert "MB" in result.finding.detail, "seen by who watches, not met as a MemoryError"
