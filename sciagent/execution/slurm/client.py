"""Runs Slurm's commands at one site: submits job arrays, and reads their states without accounting (sacct).

Commands get lists of arguments, never a shell's line, and an environment of a few known variables. Variables such as
SBATCH_PARTITION or SQUEUE_FORMAT are not passed on, since they would change requests and output.

The batch script's text is fixed, except for the site's modules and variables, which are checked when read. It gets the
command as arguments, and each element finds its task in a file, by the element's number. It does not run in a login
shell: a user's profile may take long, and Slurm's warning kills a script whose traps are not set yet. Modules need the
system's profile, which is read after the traps are set. Before the end of the wall time Slurm sends USR1 to the script.
The script sends TERM to the command, waits for it and ends with 124, whatever the command's exit code. Otherwise a job
stopped at its time limit would count as COMPLETED.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from sciagent.errors import SlurmError
from sciagent.execution.slurm.site import ResourceRequest, SiteProfile
from sciagent.execution.slurm.spool import QUEUE_FORMAT, ElementStatus, Spool, element_status, queue_lines

COMMAND = ("-m", "sciagent", "worker", "--from")  # arguments of the site's python in each element
TIMEOUT_SECONDS = 60.0
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "TZ", "SLURM_CONF", "SLURM_CONF_SERVER", "LD_LIBRARY_PATH")

_HEAD = """\
#!/bin/bash
# One element of an array of sciagent: FOLDER COMMAND...
folder=$1
shift
element=$SLURM_ARRAY_TASK_ID
umask 077
export SLURM_EXPORT_ENV=ALL
warned=false stopped=false heard=yes child=

tell() { [ -z "$child" ] || kill -TERM "$child" 2> /dev/null; }
trap 'heard=yes warned=true; : > "$folder/warned.$element"; tell' USR1
trap 'heard=yes stopped=true; tell' TERM

finish() {
  printf '{"code": %d, "warned": %s, "stopped": %s}\\n' "$1" "$warned" "$stopped" > "$folder/exit.$element.part"
  mv -f "$folder/exit.$element.part" "$folder/exit.$element"
  [ "$warned" = false ] || exit 124  # as timeout(1)
  exit "$1"
}
"""

_TAIL = """
"$@" &
child=$!
[ "$warned$stopped" = falsefalse ] || tell
while [ "$heard" = yes ]; do  # a signal ends `wait` early
  heard=no
  wait "$child"
  code=$?
done
finish "$code"
"""


class Slurm:
    """Slurm at one site. All methods raise SlurmError when Slurm refuses or does not answer.

    variables: environment of the jobs, in addition to the profile's.
    """

    def __init__(self, site: SiteProfile, variables: Mapping[str, str] | None = None) -> None:
        self.site, self._variables = site, dict(variables or {})
        self._environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | {"LC_ALL": "C"}
        if site.slurm_conf is not None:
            self._environment["SLURM_CONF"] = site.slurm_conf

    def find(self, name: str) -> Path:
        """Path of a command. Raises SlurmError."""
        folder = self.site.slurm_bin
        if (path := shutil.which(name, path=folder or self._environment.get("PATH"))) is None:
            raise SlurmError(f"{name} is not {f'in {folder}' if folder else 'on PATH'}; name its folder as slurm_bin")
        return Path(path)

    def passed(self) -> dict[str, str]:
        """The environment variables that are passed on to jobs. Raises SlurmError if one of them is not set here."""
        if missing := [name for name in self.site.pass_environment if name not in os.environ]:
            raise SlurmError(f"pass_environment names {', '.join(missing)}, and that is not set here")
        return {name: os.environ[name] for name in self.site.pass_environment}

    def run(self, name: str, *words: str, extra: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command. extra: additional environment variables. Raises SlurmError with Slurm's message if the command
        refuses, cannot run, or hangs."""
        try:
            done = subprocess.run(
                [self.find(name), *words],
                env={**self._environment, **(extra or {})},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=TIMEOUT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise SlurmError(f"{name} did not answer in {TIMEOUT_SECONDS:.0f} s") from None
        except OSError as error:
            raise SlurmError(f"{name} cannot be run: {error.strerror or error}") from None
        if done.returncode:
            raise SlurmError(f"{name}: {_error_text(name, done)}")
        return done

    def submit(
        self, array: Spool, request: ResourceRequest, elements: Sequence[Any], command: Sequence[str] = COMMAND
    ) -> None:
        """Submit an array. elements: one JSON value per element. Each element runs the command with the path of a file,
        from which `spool.own_element` reads its value."""
        extra = self._variables | self.passed()
        array.write(elements, render(self.site))
        limit = f"%{self.site.max_running}" if self.site.max_running else ""
        try:
            self.run(
                "sbatch",
                f"--array=0-{len(elements) - 1}{limit}",
                f"--job-name={array.name}",
                f"--chdir={array.folder}",
                f"--output={array.folder}/out.%a",
                *self._sbatch_options(request),
                str(array.script),
                str(array.folder),
                self.site.python,
                *command,
                str(array.elements),
                extra=extra,
            )
        except SlurmError:
            array.remove()  # if Slurm accepted the array after all, its elements find no task
            raise

    def rehearse(self, request: ResourceRequest) -> str:
        """Slurm's forecast of where and when such a job would start. Nothing is submitted."""
        done = self.run("sbatch", "--test-only", *self._sbatch_options(request), "--wrap=true")
        return " ".join(line.removeprefix("sbatch: ") for line in done.stderr.splitlines())[:1000]

    def states(self, arrays: Collection[Spool]) -> dict[Spool, list[ElementStatus]]:
        """The status of every element of each array, from one squeue call and the files in the spool folders. A new
        array that squeue does not show is left out, since sbatch may not have finished."""
        words: dict[str, dict[int | None, str]] = {}  # by array and element; None: elements that never started
        if arrays:
            names = ",".join(array.name for array in arrays)
            shown = self.run(
                "squeue", "--noheader", "--array", "--states=all", f"--name={names}", f"--format={QUEUE_FORMAT}"
            )
            for name, number, word in queue_lines(shown.stdout.splitlines()):
                words.setdefault(name, {})[number] = word
        return {
            array: [element_status(n, known.get(n, known.get(None)), array) for n in range(len(array.tasks()))]
            for array in arrays
            if (known := words.get(array.name, {})) or array.age() > 2 * TIMEOUT_SECONDS
        }

    def _sbatch_options(self, request: ResourceRequest) -> list[str]:
        partition = request.partition
        words = [
            f"--partition={partition.name}",
            f"--time={request.minutes}",
            f"--mem={request.memory_mb}M",
            "--nodes=1",
            "--ntasks=1",
            f"--cpus-per-task={request.cores}",
            "--no-requeue",
            "--export=ALL",
            f"--signal=B:USR1@{self.site.wall.warning_seconds}",
        ]
        words += [f"--gres=gpu:{request.gpus}"] if request.gpus else []
        words += [f"--licenses={','.join(f'{name}:{n}' for name, n in request.licences)}"] if request.licences else []
        words += [f"--{key}={name}" for key in ("account", "qos") if (name := getattr(partition, key))]
        return [*words, *self.site.options]


def _error_text(name: str, done: subprocess.CompletedProcess[str]) -> str:
    """The command's error lines, without the command's name, which the caller adds."""
    lines_ = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    lines = [line.removeprefix(f"{name}: ").removeprefix("error: ") for line in lines_]
    return "; ".join(lines)[:1000] or f"exit code {done.returncode}"


def render(site: SiteProfile) -> str:
    """Returns the batch script of a site."""
    profile = [". /etc/profile", "umask 077"] if site.modules else []
    modules = [f"module load {shlex.quote(name)} || finish 69" for name in site.modules]  # EX_UNAVAILABLE
    variables = [f"export {name}={shlex.quote(value)}" for name, value in site.environment.items()]
    return _HEAD + "".join(f"{line}\n" for line in [*profile, *modules, *variables]) + _TAIL
