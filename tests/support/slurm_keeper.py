"""Runs the daemons of a Slurm cluster below itself, until its standard input ends; then nothing of them is left.

Whoever started it holds the other end of that pipe, so it ends also when that process is killed. It is the subreaper
of what it starts: job steps, which Slurm detaches from slurmd on purpose, become its children and die with it.

    python -m tests.support.slurm_keeper FOLDER < PIPE

prints "ready", and again after each line "forget", on which the controller begins with nothing in its memory.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from sciagent.verification.sandbox.process_trees import become_subreaper, kill_descendants

START_SECONDS = 30.0


def daemon(folder: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.out").open("ab") as log:
        return subprocess.Popen(
            [name, *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def wait_for(folder: Path, what: subprocess.Popen[bytes], command: list[str], shows: str) -> None:
    """Until the command shows that. Ends the program if `what` has ended, or it takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while what.poll() is None and time.monotonic() < deadline:
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        if done.returncode == 0 and shows in done.stdout:
            return
        time.sleep(0.05)
    logs = "\n".join(one.read_text(errors="replace")[-800:] for one in sorted(folder.glob("*.out")))
    raise SystemExit(f"{command[0]} gets no answer\n{logs}")


def serve(folder: Path) -> None:
    socket = folder / "munge.socket"
    files = {"key-file": "munge.key", "socket": socket.name, "pid-file": "munge.pid", "seed-file": "munge.seed"}
    options = [f"--{name}={folder / file}" for name, file in files.items()]
    munge = daemon(folder, "munged", "--foreground", "--num-threads=2", *options)
    wait_for(folder, munge, ["munge", "--no-input", f"--socket={socket}"], "MUNGE")
    controller = daemon(folder, "slurmctld", "-D")
    node = daemon(folder, "slurmd", "-D")
    ready(folder, controller)
    for _ in sys.stdin:
        for one in (controller, node):  # a node that begins with its controller is idle sooner
            one.terminate()
            one.wait()
        controller, node = daemon(folder, "slurmctld", "-D", "-c"), daemon(folder, "slurmd", "-D")
        ready(folder, controller)


def ready(folder: Path, controller: subprocess.Popen[bytes]) -> None:
    wait_for(folder, controller, ["sinfo", "--noheader", "--format=%T"], "idle")
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def main() -> None:
    folder = Path(sys.argv[1])
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)  # the end of the pipe is the one way to end it
    become_subreaper()
    try:
        serve(folder)
    finally:
        kill_descendants()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
