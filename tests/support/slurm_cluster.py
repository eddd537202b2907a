"""A real Slurm of one node for the tests: Debian's own daemons, with ports, key and folder of their own."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
BINARIES = ("munged", "munge", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "sinfo")
MISSING = "these tests need a Slurm: apt-get install -y slurm-wlm munge (not found: {})"
CORES, MEMORY_MB = 4, 4000  # what the node claims to have, whatever the machine has
_TRIES = 5

CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller}
SlurmdPort={node}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/node
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
MaxArraySize=1001
MpiDefault=none
KillWait=2
ReturnToService=2
GresTypes=gpu
Licenses=gaussian:2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory={memory} Gres=gpu:2
PartitionName=short Nodes=ALL Default=YES MaxTime=60
PartitionName=long Nodes=ALL MaxTime=600
"""


GPUS = "Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n"  # what a node shows of a GPU is a file


class NoSlurmError(Exception):
    """No Slurm could be started; says why, and the line to run."""


class SlurmCluster:
    """Partitions `short` (60 minutes) and `long` (600). folder: state, logs. conf: what SLURM_CONF names."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.conf = folder, folder / "slurm.conf"
        self.keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.support.slurm_keeper", str(folder)],
            cwd=ROOT,
            env=_environment(),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._await()

    def run(self, *words: str) -> str:
        """What a command of Slurm prints. Raises CalledProcessError."""
        environment = _environment() | {"SLURM_CONF": str(self.conf)}
        return subprocess.run(words, env=environment, check=True, capture_output=True, text=True, timeout=60).stdout

    def lose_node(self) -> None:
        """The node counts as down, and with it whatever ran there; then it is back."""
        node = f"nodename={_host()}"
        self.run("scontrol", "update", node, "state=down", "reason=test")
        deadline = time.monotonic() + 30
        while "idle" not in self.run("sinfo", "--noheader", "--format=%T"):
            assert time.monotonic() < deadline, self.run("sinfo")
            with contextlib.suppress(subprocess.CalledProcessError):  # it may have come back by itself
                self.run("scontrol", "update", node, "state=resume")

    def forget(self) -> None:
        """The controller starts anew with nothing in its memory: no job is known, and numbers begin at 1 again."""
        _pipe(self.keeper.stdin).write("forget\n")
        _pipe(self.keeper.stdin).flush()
        self._await()

    def stop(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            _pipe(self.keeper.stdin).close()
        self.keeper.wait(60)
        _pipe(self.keeper.stdout).close()

    def _await(self) -> None:
        said = _pipe(self.keeper.stdout).readline()
        if said != "ready\n":
            said += _pipe(self.keeper.stdout).read()
            self.stop()
            raise NoSlurmError(f"no Slurm could be started: {said.strip()}")


def _environment() -> dict[str, str]:
    """Debian puts the daemons where an ordinary user's PATH does not look."""
    return dict(os.environ, PATH=os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin")


def _pipe(one: IO[str] | None) -> IO[str]:
    assert one is not None
    return one


@contextlib.contextmanager
def running_slurm(memory_mb: int = MEMORY_MB) -> Iterator[SlurmCluster]:
    """A cluster that is idle; gone at the end, with all its jobs. memory_mb: what its node claims. Raises
    NoSlurmError."""
    if missing := [name for name in BINARIES if shutil.which(name, path=_environment()["PATH"]) is None]:
        raise NoSlurmError(MISSING.format(", ".join(missing)))
    for last in range(_TRIES - 1, -1, -1):
        try:
            cluster = SlurmCluster(_make_folder(memory_mb))
            break
        except NoSlurmError:  # somebody took a port between its choice and its use
            if not last:
                raise
    try:
        yield cluster
    finally:
        cluster.stop()


def _host() -> str:
    return socket.gethostname().partition(".")[0]


def _make_folder(memory_mb: int) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="sci-slurm-", dir="/tmp"))  # short: socket paths end at 107 bytes
    folder.chmod(0o711)  # munged wants its socket to be reached by all
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    (folder / "gres.conf").write_text(GPUS)
    controller, node = _free_ports(2)
    (folder / "slurm.conf").write_text(
        CONFIGURATION.format(
            host=_host(),
            user=pwd.getpwuid(os.geteuid()).pw_name,
            folder=folder,
            controller=controller,
            node=node,
            cores=CORES,
            memory=memory_mb,
        )
    )
    return folder


def _free_ports(n: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(n)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in found]
