"""A nursery imports once, forks the zygotes of many workers, and leaves nothing of one that is killed."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import psutil
import pytest

from sciagent.verification.sandbox.host import Worker
from sciagent.verification.sandbox.nursery_pool_and_links import nurseries
from tests.verification.sandbox.nursing import fresh, verify, within

__all__ = ["fresh"]


def test_workers_of_the_same_or_fewer_verifiers_share_a_nursery_that_imports_once(tmp_path: Path) -> None:
    with Worker(tmp_path, preload=["bad.noop", "bad.forks"]) as one, Worker(tmp_path, preload=["bad.noop"]) as other:
        warmed = {verify(worker).finding.diagnostics["warmed_in"] for worker in (one, other)}
        assert warmed == set(nurseries.pids()) and len(warmed) == 1
        assert one.pid != other.pid
        with Worker(tmp_path, preload=["bad.files"]) as third:
            assert verify(third).finding.outcome == "ok"
        assert len(nurseries.pids()) == 2


def test_a_zygote_has_the_environment_and_the_folder_of_its_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Worker(tmp_path, preload=["bad.noop"]) as before:
        verify(before)
        monkeypatch.setenv("SCIAGENT_TEST_VARIABLE", "late")
        monkeypatch.chdir(tmp_path)
        with Worker(tmp_path, preload=["bad.noop"]) as worker:
            verify(worker)
            assert Path(f"/proc/{worker.pid}/cwd").readlink() == tmp_path
            assert len(nurseries.pids()) == 1
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}")
        with Worker(tmp_path, preload=["bad.noop"]):
            assert len(nurseries.pids()) == 2, "what can be imported has changed"


def test_what_a_killed_zygote_had_started_is_killed_and_the_other_workers_go_on(tmp_path: Path) -> None:
    with Worker(tmp_path, preload=["bad.noop"]) as worker, Worker(tmp_path, preload=["bad.noop"]) as other:
        verify(other)
        zygote = psutil.Process(worker.pid)
        killed = list[int]()

        def kill() -> None:
            within(10, lambda: len(zygote.children(recursive=True)) >= 7)
            killed.extend(one.pid for one in zygote.children(recursive=True))
            zygote.kill()

        thread = threading.Thread(target=kill)
        thread.start()
        result = verify(worker, "bad.forks", then_hang=True)
        thread.join()
        assert result.finding.outcome == "lost"
        assert len(killed) >= 7 and not any(map(psutil.pid_exists, killed))
        assert verify(other).finding.diagnostics["warmed_in"] == nurseries.pids()[0]
