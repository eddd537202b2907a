"""The cluster of the tests itself: alone with its ports and its folder, gone with whoever started it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.slurm_cluster import ROOT, NoSlurmError, SlurmCluster, running_slurm

STARTER = """
import time
from tests.support.slurm_cluster import running_slurm
with running_slurm() as cluster:
    cluster.run("sbatch", "--output=/dev/null", "--wrap=exec sleep 987")
    while "RUNNING" not in cluster.run("squeue", "--noheader", "--format=%T"):
        time.sleep(0.05)
    print(cluster.folder, flush=True)
    time.sleep(600)
"""


def naming(folder: str) -> Iterator[int]:
    """Processes with that folder in their arguments or their environment."""
    for one in Path("/proc").iterdir():
        if one.name.isdigit() and int(one.name) != os.getpid():
            with contextlib.suppress(OSError):
                if folder.encode() in (one / "cmdline").read_bytes() + (one / "environ").read_bytes():
                    yield int(one.name)


@pytest.mark.slow
def test_two_run_side_by_side_and_a_kill_of_the_tests_leaves_nothing_of_theirs(cluster: SlurmCluster) -> None:
    with subprocess.Popen([sys.executable, "-c", STARTER], cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        folder = starter.stdout.readline().strip()
        assert folder and folder != str(cluster.folder)
        assert len(list(naming(folder))) >= 5, "keeper, munged, slurmctld, slurmd, the job and its step"
        assert "idle" in cluster.run("sinfo", "--noheader", "--format=%T")
        starter.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while list(naming(folder)) or Path(folder).exists():
        assert time.monotonic() < deadline, list(naming(folder))
        time.sleep(0.05)
    assert "idle" in cluster.run("sinfo", "--noheader", "--format=%T")


def test_without_slurm_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tests.support.slurm_cluster.BINARIES", ("no-such-slurmctld",))
    with pytest.raises(NoSlurmError, match=r"apt-get install -y slurm-wlm munge .*no-such-slurmctld"), running_slurm():
        pass
