"""The job arrays of one Slurm site: they are submitted, and read back without accounting (sacct).

Commands get lists of arguments, never a shell's line, and an environment of a few known variables. Variables such as
SBATCH_PARTITION or SQUEUE_FORMAT are not passed on, since they would change requests and output.

The batch script's text is fixed, except for the site's modules and variables, which are checked when read. It gets the
command as arguments, and each element finds its task in a file, by the element's number. It does not run in a login
shell: a user's profile may take long, and Slurm's warning kills a script whose traps are not set yet. Modules need the
system's profile, which is read after the traps are set. Before the end of the wall time Slurm sends USR1 to the script.
The script sends TERM to the command, waits for it and ends with 124, whatever the command's exit code. Otherwise a job
stopped at its time limit would count as COMPLETED.

Each array has a folder, shared with the nodes, with the elements' tasks, the script, and the files that elements leave.
The states of the elements follow from these files and from squeue.

SPOOL/3f2a9c0d1b4e5f67/     the token of the array, which is also in the name of its Slurm job
    elements.json           the task of each element, by its number
    script.sh
    out.0                   output of element 0
    warned.0                exists if the time of element 0 was nearly up
    exit.0                  how element 0 ended
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from sciagent.errors import SlurmError
from sciagent.execution.slurm.site_profile import ResourceRequest, SiteProfile

MAX_ELEMENTS_BYTES = 64_000_000
_TOKEN = re.compile(r"[0-9a-f]{16}")
# as `finish` in the batch script writes it
_EXIT_FILE = re.compile(r'\{"code": (\d{1,3}), "warned": (?:true|false), "stopped": (true|false)\}\n')
_TAIL_BYTES = 4096


class ExitMark(NamedTuple):
    """The content of the file `exit.N`: how an element's script ended."""

    code: int
    """Exit code of the command."""
    stopped: bool
    """Whether it received TERM."""


class Spool:
    """The folder of one array below the site's spool.

    token: 16 hexadecimal digits; empty for a new random token. Raises ValueError for any other token.
    """

    def __init__(self, site_spool: str, token: str = "") -> None:
        self.token = token or secrets.token_hex(8)
        if not _TOKEN.fullmatch(self.token):
            raise ValueError(f"{token!r} is no token of an array")
        self.name = f"sciagent-{self.token}"
        """Name of the array's Slurm job. It identifies the job, since Slurm may reuse the job's id."""
        self.folder = Path(site_spool) / self.token
        self.elements = self.folder / "elements.json"
        self.script = self.folder / "script.sh"

    def write(self, elements: Sequence[Any], script: str) -> None:
        """Create the folder with tasks and script. Raises SlurmError."""
        try:
            self.folder.mkdir(mode=0o700, parents=True)
            self._put(self.script, script)
            self._put(self.elements, json.dumps(list(elements)))
        except OSError as error:
            raise SlurmError(f"the spool folder cannot be written: {error}") from None

    def tasks(self) -> list[Any]:
        """The tasks of the elements. Raises SlurmError."""
        return read_elements(self.elements)

    def age(self) -> float:
        """Seconds since the tasks were written."""
        return time.time() - self.elements.stat().st_mtime

    def exit_mark(self, element: int) -> ExitMark | None:
        """Returns how the element ended; None if it left no mark."""
        match = _EXIT_FILE.fullmatch(self._read(f"exit.{element}"))
        return ExitMark(int(match[1]), match[2] == "true") if match else None

    def failure_text(self, element: int) -> str:
        """Returns why an element failed: the printable characters of its last line of output, or its exit code."""
        lines = [line.strip() for line in self._read(f"out.{element}").splitlines() if line.strip()]
        last_line = lines[-1][:300] if lines else ""
        printed = "".join(character for character in last_line if character.isprintable())
        if printed:
            return printed
        mark = self.exit_mark(element)
        code = mark.code if mark else "unknown"
        return f"exit code {code}, and it printed nothing"

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self, name: str) -> str:
        """The last `_TAIL_BYTES` bytes of a file; empty if it cannot be read."""
        try:
            with (self.folder / name).open("rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                stream.seek(max(0, size - _TAIL_BYTES))
                return stream.read(_TAIL_BYTES).decode(errors="replace")
        except OSError:
            return ""

    def _put(self, path: Path, text: str) -> None:
        """Write a file atomically, readable only by the user."""
        part = path.with_name(f"{path.name}.part")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as stream:
            stream.write(text)
        part.replace(path)


def spools(site_spool: str) -> list[Spool]:
    """The completely written array folders of the site, sorted by token."""
    try:
        names = sorted(path.name for path in Path(site_spool).iterdir())
    except OSError:
        return []
    arrays = (Spool(site_spool, name) for name in names if _TOKEN.fullmatch(name))
    return [array for array in arrays if array.elements.exists()]


def read_elements(path: Path) -> list[Any]:
    """The tasks of an array's elements. Raises SlurmError."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_ELEMENTS_BYTES + 1)
        elements = json.loads(raw) if len(raw) <= MAX_ELEMENTS_BYTES else None
    except (OSError, ValueError) as error:
        raise SlurmError(f"{path} cannot be read: {error}") from None
    if not isinstance(elements, list):
        raise SlurmError(f"{path} holds no list of elements")
    return elements


def own_element(path: Path) -> Any:
    """The task of this process: the entry at SLURM_ARRAY_TASK_ID. Raises SlurmError."""
    number = os.environ.get("SLURM_ARRAY_TASK_ID", "")
    elements = read_elements(path)
    if not number.isdecimal() or int(number) >= len(elements):
        raise SlurmError(f"{path} has {len(elements)} elements, and SLURM_ARRAY_TASK_ID is {number or 'not set'}")
    return elements[int(number)]


class ElementState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"  # ended with a non-zero exit code, or was killed by a signal
    TIMED_OUT = "timed_out"  # killed by Slurm at its wall time, or stopped itself after the warning
    CANCELLED = "cancelled"
    LOST = "lost"  # the node or Slurm ended it (also for memory), or Slurm has no record of it and it left no file
    UNKNOWN = "unknown"  # Slurm reports a state that is not listed here; ask again later

    @property
    def ended(self) -> bool:
        return self not in (ElementState.PENDING, ElementState.RUNNING, ElementState.UNKNOWN)


class ElementStatus(NamedTuple):
    """The state of one element of an array."""

    number: int
    state: ElementState
    code: int | None = None
    """Exit code of the element's command, if the command ended."""


_SLURM_STATES = {
    ElementState.PENDING: "PENDING CONFIGURING REQUEUED REQUEUE_HOLD REQUEUE_FED RESV_DEL_HOLD SPECIAL_EXIT",
    ElementState.RUNNING: "RUNNING COMPLETING SUSPENDED STOPPED SIGNALING STAGE_OUT RESIZING UPDATE_DB POWER_UP_NODE",
    ElementState.COMPLETED: "COMPLETED",
    ElementState.FAILED: "FAILED",
    ElementState.TIMED_OUT: "TIMEOUT DEADLINE",
    ElementState.CANCELLED: "CANCELLED REVOKED",
    ElementState.LOST: "NODE_FAIL BOOT_FAIL PREEMPTED LAUNCH_FAILED RECONFIG_FAIL OUT_OF_MEMORY",
}
_STATE_BY_WORD = {word: state for state, words in _SLURM_STATES.items() for word in words.split()}


def element_status(number: int, word: str | None, spool: Spool) -> ElementStatus:
    """The state of an element. word: Slurm's name of its state; None if Slurm has no record of it any more.

    Slurm reports COMPLETED or FAILED for an element that was stopped at its time limit. The element's own files show
    the difference, and the exit code of its command.
    """
    mark = spool.exit_mark(number)
    if word is None:
        state = _state_by_mark(mark)
    else:
        state = _STATE_BY_WORD.get(word, ElementState.UNKNOWN)
    may_be_stopped = state.ended and word in (None, "COMPLETED", "FAILED")
    if may_be_stopped and (spool.folder / f"warned.{number}").exists():
        state = ElementState.TIMED_OUT
    code = mark.code if mark is not None and state.ended else None
    return ElementStatus(number, state, code)


def _state_by_mark(mark: ExitMark | None) -> ElementState:
    """The state of an element of which Slurm has no record any more, from the file that it left."""
    if mark is None:
        return ElementState.LOST
    if mark.stopped:
        return ElementState.CANCELLED
    return ElementState.FAILED if mark.code else ElementState.COMPLETED


QUEUE_FORMAT = "%K|%T|%j"  # number of the element, state, name


def queue_lines(lines: Iterable[str]) -> Iterator[tuple[str, int | None, str]]:
    """Name, element number and state from each complete line of squeue in QUEUE_FORMAT.

    The number is None in the joint record of elements that never started and were cancelled together.
    """
    for line in lines:
        parts = line.strip().split("|", 2)
        if len(parts) < 3:
            continue
        element, word, name = parts
        if name and element == "N/A":
            yield name, None, word
        elif name and element.isdecimal():
            yield name, int(element), word


COMMAND = ("-m", "sciagent", "worker", "--from")  # arguments of the site's python in each element
COMMAND_TIMEOUT_SECONDS = 60.0
_PASSED_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "TZ", "SLURM_CONF", "SLURM_CONF_SERVER", "LD_LIBRARY_PATH")

# `heard` is yes if a signal came since the last `wait`; it is yes at first, so that the loop of `_SCRIPT_TAIL` is
# entered. SLURM_EXPORT_ENV=ALL: an srun of the command passes its whole environment on, whatever was set at submission.
_SCRIPT_HEAD = """\
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

# the command is told of a signal that came before the command had started; "falsefalse" means that none came. The loop
# waits again after each signal, since a signal ends `wait` before the command has ended.
_SCRIPT_TAIL = """
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
        self.site = site
        self._variables = dict(variables or {})
        self._environment = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
        self._environment["LC_ALL"] = "C"
        if site.slurm_conf is not None:
            self._environment["SLURM_CONF"] = site.slurm_conf

    def find(self, name: str) -> Path:
        """Path of a command. Raises SlurmError if it is missing."""
        folder = self.site.slurm_bin
        path = shutil.which(name, path=folder or self._environment.get("PATH"))
        if path is None:
            searched = f"in {folder}" if folder else "on PATH"
            raise SlurmError(f"{name} is not {searched}; name its folder as slurm_bin")
        return Path(path)

    def passed_variables(self) -> dict[str, str]:
        """The environment variables that are passed on to jobs. Raises SlurmError if one of them is not set here."""
        missing = [name for name in self.site.pass_environment if name not in os.environ]
        if missing:
            raise SlurmError(f"pass_environment names {', '.join(missing)}, and that is not set here")
        return {name: os.environ[name] for name in self.site.pass_environment}

    def run(self, name: str, *words: str, extra: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command.

        extra: additional environment variables. Raises SlurmError with Slurm's message if the command refuses, cannot
        run, or hangs.
        """
        try:
            done = subprocess.run(
                [self.find(name), *words],
                env={**self._environment, **(extra or {})},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=COMMAND_TIMEOUT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise SlurmError(f"{name} did not answer in {COMMAND_TIMEOUT_SECONDS:.0f} s") from None
        except OSError as error:
            raise SlurmError(f"{name} cannot be run: {error.strerror or error}") from None
        if done.returncode:
            raise SlurmError(f"{name}: {_error_text(name, done)}")
        return done

    def submit(
        self, array: Spool, request: ResourceRequest, elements: Sequence[Any], command: Sequence[str] = COMMAND
    ) -> None:
        """Submit an array. elements: the task of each element, a JSON value.

        Each element runs the command with the path of a file, from which `own_element` reads its task.
        """
        extra = self._variables | self.passed_variables()
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
        """The status of every element of each array, from one squeue call and the files in the spool folders.

        A new array that squeue does not show is left out, since sbatch may not have finished.
        """
        # {array's name: {number of the element: word}}; number None: elements that never started
        words_by_array: dict[str, dict[int | None, str]] = {}
        if arrays:
            names = ",".join(array.name for array in arrays)
            shown = self.run(
                "squeue", "--noheader", "--array", "--states=all", f"--name={names}", f"--format={QUEUE_FORMAT}"
            )
            for name, number, word in queue_lines(shown.stdout.splitlines()):
                words_by_array.setdefault(name, {})[number] = word
        states = {}
        for array in arrays:
            words = words_by_array.get(array.name, {})
            if not words and array.age() <= 2 * COMMAND_TIMEOUT_SECONDS:
                continue
            word_of_never_started = words.get(None)
            states[array] = [
                element_status(number, words.get(number, word_of_never_started), array)
                for number in range(len(array.tasks()))
            ]
        return states

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
        if request.gpus:
            words.append(f"--gres=gpu:{request.gpus}")
        if request.licences:
            licences = ",".join(f"{name}:{n}" for name, n in request.licences)
            words.append(f"--licenses={licences}")
        if partition.account:
            words.append(f"--account={partition.account}")
        if partition.qos:
            words.append(f"--qos={partition.qos}")
        return [*words, *self.site.options]


def _error_text(name: str, done: subprocess.CompletedProcess[str]) -> str:
    """The command's error lines, without the command's name, which the caller adds."""
    output = done.stderr or done.stdout
    printed_lines = [line.strip() for line in output.splitlines() if line.strip()]
    lines = [line.removeprefix(f"{name}: ").removeprefix("error: ") for line in printed_lines]
    return "; ".join(lines)[:1000] or f"exit code {done.returncode}"


def render(site: SiteProfile) -> str:
    """Returns the batch script of a site."""
    profile = [". /etc/profile", "umask 077"] if site.modules else []
    modules = [f"module load {shlex.quote(name)} || finish 69" for name in site.modules]  # EX_UNAVAILABLE
    variables = [f"export {name}={shlex.quote(value)}" for name, value in site.environment.items()]
    lines_of_site = [f"{line}\n" for line in (*profile, *modules, *variables)]
    return _SCRIPT_HEAD + "".join(lines_of_site) + _SCRIPT_TAIL
