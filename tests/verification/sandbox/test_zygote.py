"""A zygote that is killed or stopped is replaced; nobody waits for one that has nothing to do."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import psutil

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.states_and_needs import MAX_LOSSES
from sciagent.verification.sandbox.host import Limits, Request, Worker
from tests.verification.sandbox.working import ABC, carrying, run, said, wait_until


def test_a_killed_zygote_loses_what_ran_and_is_replaced(misbehaving: Path, mark: str, tmp_path: Path) -> None:
    with Worker(tmp_path) as worker:
        assert said(run(worker, "bad.noop")) == ["ok"]
        first = worker.pid
        before = carrying(mark)
        killer = threading.Timer(0.7, os.kill, (first, signal.SIGKILL))
        killer.start()
        begun = time.monotonic()
        results = worker.run(Request("bad.forks", {"then_hang": True}, ABC[:1], Limits(100)))
        assert time.monotonic() - begun < 6
        assert said(results) == ["lost/worker_died"]
        assert wait_until(lambda: carrying(mark) <= before - {first}, 3)
        assert not list(worker.folder.glob("job-*"))
        assert said(run(worker, "bad.noop")) == ["ok"]
        assert worker.pid != first
        begun = time.monotonic()
        [stopped] = run(worker, "bad.silent", how="stop_parent")
        assert (
            stopped.finding.detail == "the zygote, which forks the processes of jobs, died: a signal stopped it"
            and time.monotonic() - begun < 5
        )
        assert said(run(worker, "bad.noop")) == ["ok"]
        os.kill(worker.pid, signal.SIGKILL)
        assert wait_until(lambda: not psutil.pid_exists(worker.pid) or _is_zombie(worker.pid), 3)
        assert said(run(worker, "bad.noop")) == ["ok"]


def test_the_error_that_ends_a_zygote_is_told(misbehaving: Path, tmp_path: Path) -> None:
    with Worker(tmp_path) as worker:
        assert said(run(worker, "bad.noop")) == ["ok"]
        threading.Timer(0.7, worker._link.send, ({"nonsense": 1},)).start()  # no job
        [lost] = worker.run(Request("bad.forks", {"then_hang": True}, ABC[:1], Limits(100)))
        assert said([lost]) == ["lost/worker_died"]
        assert "exit status 1" in lost.finding.detail and "KeyError" in lost.finding.detail
        assert said(run(worker, "bad.noop")) == ["ok"], "its folder is still there"


def test_the_folder_for_temporary_files_is_there_for_each_job(tmp_path: Path) -> None:
    """Each job removes it at its end. The first one's library has looked for it; the second one's program is asked for
    its version there."""
    water = Molecule.from_payload({"smiles": "O", "multiplicity": 1})
    charged = Molecule.from_payload({"smiles": "CC(=O)[O-]", "multiplicity": 1})
    with Worker(tmp_path) as worker:
        for verifier, candidate in (("mlff.molecule", charged), ("md.liquid", water)):
            [refused] = worker.run(Request(verifier, {}, (candidate,)))
            assert refused.finding.outcome == "refused", refused.finding.detail


def test_only_the_candidate_at_work_is_lost_with_a_zygote(misbehaving: Path, tmp_path: Path) -> None:
    with Worker(tmp_path) as worker:
        results = run(worker, "bad.remote", *ABC, seconds=0.5, steps=1, kill_at="CCN")
        assert said(results) == ["ok", "lost/worker_died", "ok", "ok"]
        assert [result.finding.candidate_key for result in results] == [candidate.key for candidate in ABC]


def test_after_five_zygotes_that_died_at_once_no_sixth_one_is_tried(misbehaving: Path, tmp_path: Path) -> None:
    first, killer, *_ = ABC
    with Worker(tmp_path) as worker:
        batch = (first, *[killer] * MAX_LOSSES, first)
        results = run(worker, "bad.remote", *batch, seconds=0.2, steps=1, kill_at="CCN")
        assert said(results) == ["ok", *["lost/worker_died"] * (MAX_LOSSES + 1)]
        assert said(run(worker, "bad.noop")) == ["ok"]


def test_nothing_is_lost_with_a_zygote_that_dies_after_the_last_finding(misbehaving: Path, tmp_path: Path) -> None:
    with Worker(tmp_path) as worker:
        assert said(run(worker, "bad.together", how="afterwards")) == ["ok"]
        together = Request("bad.together", {"how": "afterwards"}, ABC, Limits(20), together=True)
        assert said(worker.run(together)) == ["ok"] * 4


def test_a_worker_that_was_asked_nothing_is_not_waited_for(mark: str, tmp_path: Path) -> None:
    with Worker(tmp_path, preload=["pyscf.scf"]) as worker:
        begun = time.monotonic()
    assert time.monotonic() - begun < 1, "it was closed while the nursery imported"
    assert not worker.folder.exists()


def _is_zombie(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
