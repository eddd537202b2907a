"""Runs an external program in a folder of its own, limits its output, and names the reason of every failure.

The host limits time and memory, and kills processes that are left; this module limits only the output.
A normal end is no proof of a result: xtb ends normally after a relaxation that did not converge. The modules of the
programs therefore read the result itself, and `failed` returns the reason where there is none.

A program with several processes is started by Open MPI. Source of the options: the manual page of mpirun, Open MPI 4.1.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import SimulatorError
from sciagent.programs import Program, find
from sciagent_simulators.geometry_and_its_checks import failure

MPIEXEC = Program(
    name="openmpi",
    title="Open MPI",
    variable="SCIAGENT_MPIEXEC",
    commands=("mpiexec", "mpirun"),
    question=("--version",),
    answer=r"(?:OpenRTE|Open MPI)\) (\d\S*)",
    source="Debian and Ubuntu: apt-get install openmpi-bin",
)
"""Starts a parallel program. It has to be the Open MPI with which that program was built."""
PARENT_VARIABLES = (
    "SLURM_",
    "PMI_",
    "PMIX_",
    "PRTE_",
    "OMPI_COMM_WORLD_",
    "OMPI_UNIVERSE_",
    "OMPI_MCA_orte_",
    "OMPI_MCA_ess",
)
"""Beginnings of variables that describe the cluster job or the MPI process to which the worker itself belongs.

Open MPI would read from these variables how many processes may be started, and where."""
MPI_VARIABLES = {
    "OMP_NUM_THREADS": "1",  # n processes with n threads each would take n x n cores
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",  # containers run as root; otherwise Open MPI refuses that
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


@dataclass(frozen=True)
class Launcher:
    """The command that starts a program."""

    command: tuple[str, ...]
    """Words before the command of the program."""
    dropped: tuple[str, ...]
    """Beginnings of environment variables that the program does not get."""
    added: Mapping[str, str]
    """Environment variables that the program gets in addition."""
    version: str = ""
    """Version of Open MPI; empty without Open MPI."""

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Returns the environment of the program. variables: the environment of a program without MPI."""
        passed_on = {name: value for name, value in variables.items() if not name.startswith(self.dropped)}
        return {**passed_on, **self.added}


SERIAL = Launcher(command=(), dropped=(), added={})  # starts one process, without Open MPI


def mpi_launcher(ranks: int) -> Launcher:
    """Returns the launcher for this number of processes, each with one thread.

    Processes are not bound to cores, since two jobs on a machine would otherwise share the first cores. There may be
    more processes than Open MPI counts cores. Raises SimulatorError bad_environment (program_missing).
    """
    mpiexec = find(MPIEXEC)
    command = (str(mpiexec.path), "-n", str(ranks), "--bind-to", "none", "--oversubscribe")
    return Launcher(command, dropped=PARENT_VARIABLES, added=MPI_VARIABLES, version=mpiexec.version)


MAX_OUTPUT = 64 << 20  # bytes
TAIL = 2000  # characters of the output that the diagnostics of a failure keep
OUTPUT = "output.txt"

Reasons = Mapping[str, Reason]
"""{regular expression for the output: reason}; the first match counts, and case does not matter."""

COMMON_REASONS: Reasons = {  # of all programs
    r"no space left on device|disk quota exceeded|erroneous write|error writing to (disk|file)": Reason.DISK_FULL,
    r"out of memory|out-of-memory|not enough memory|cannot allocate|could not allocate|bad_alloc|increase maxcore"
    r"|allocation would exceed|insufficient virtual memory": Reason.MEMORY_LIMIT,
    r"licen[sc]e.{0,60}(expired|invalid|denied|missing|not (found|valid|available))"
    r"|(invalid|no valid|expired|missing) licen[sc]e|directory are world accessible": Reason.LICENCE,
}


@dataclass(frozen=True)
class ProgramOutput:
    """The output of a program that has ended."""

    program: Program
    """The program."""
    version: str
    """The version that it stated."""
    folder: Path
    """Its working folder, with its files and `output.txt`."""
    status: int
    """Exit status; negative for the signal that ended it."""
    text: str
    """Standard output and standard error."""


def run(
    program: Program,
    arguments: Sequence[str],
    folder: Path,
    threads: int,
    files: Mapping[str, str],
    stdin: str = "",
    ranks: int = 1,
    command: str = "",
) -> ProgramOutput:
    """Runs the program in the new folder and returns its output, whatever its exit status.

    files: texts by file name, which are written into the folder first. stdin: name of the file that is its standard
    input; empty for none.
    ranks: number of processes that Open MPI starts; 1 starts the program without it. command: the file beside the
    program's that is started instead of it, if the program is a set of commands; empty for the program itself.
    Raises SimulatorError bad_environment (program_missing), crashed (bad_result) for endless output.
    """
    installed = find(program)
    executable = installed.path.with_name(command) if command else installed.path
    if not os.access(executable, os.X_OK):
        raise failure(Reason.PROGRAM_MISSING, f"{program.title} at {installed.path.parent} lacks {executable.name}")
    launcher = mpi_launcher(ranks) if ranks > 1 else SERIAL
    source_file = folder / stdin if stdin else Path(os.devnull)
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    with (
        source_file.open("rb") as source,
        (folder / OUTPUT).open("wb") as output,
        subprocess.Popen(
            [*launcher.command, str(executable), *arguments],
            cwd=folder,
            env=launcher.environment(_environment(program, folder, threads)),
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=_unlimited_stack,
        ) as process,
    ):
        assert process.stdout is not None
        size = 0
        while chunk := process.stdout.read(1 << 16):
            size += len(chunk)
            output.write(chunk)
            if size > MAX_OUTPUT:
                process.kill()
                raise failure(Reason.BAD_RESULT, f"{program.title} wrote more than {MAX_OUTPUT >> 20} MB of output")
    text = (folder / OUTPUT).read_text(encoding="utf-8", errors="replace")
    return ProgramOutput(program, installed.version, folder, process.returncode, text)


def failed(output: ProgramOutput, reasons: Reasons, missing: str) -> SimulatorError:
    """Returns the error of a program whose output lacks the result.

    reasons: the reasons of this program's failures; COMMON_REASONS are tried after them. missing: end of the message
    for exit status 0, if no reason matches.
    """
    title = f"{output.program.title} {output.version}"
    for expression, reason in (*reasons.items(), *COMMON_REASONS.items()):
        match = re.search(expression, output.text, re.IGNORECASE)
        if match:
            return _error(output, reason, f"{title}: {_line(output.text, match.start())}")
    status = output.status
    if status < 0:
        return _error(output, Reason.SIGNAL, f"{title} was killed by signal {-status}")
    if status > 128:  # as a shell reports a signal
        return _error(output, Reason.SIGNAL, f"{title} was killed by signal {status - 128}")
    if status:
        line = _line_of_error(output.text)
        return _error(output, Reason.EXCEPTION, f"{title} ended with exit status {status}: {line}")
    return _error(output, Reason.NO_RESULT, f"{title} ended without an error, and {missing}")


def _line_of_error(text: str) -> str:
    """Returns the first of the last 100 lines that says "error", else the last line, with single blanks."""
    lines = [line for line in text.splitlines()[-100:] if line.strip()]
    if not lines:
        return "it printed nothing"
    for line in lines:
        if re.search("error", line, re.IGNORECASE):
            return " ".join(line.split())
    return " ".join(lines[-1].split())


def _error(output: ProgramOutput, reason: Reason, detail: str) -> SimulatorError:
    """Returns the error with exit status and the end of the output as diagnostics."""
    return failure(reason, detail[:400], exit_status=output.status, output_tail=output.text[-TAIL:])


def _line(text: str, place: int) -> str:
    """Returns the line of the text around this position, with single blanks."""
    before = text[:place].rpartition("\n")[2]
    after = text[place:].partition("\n")[0]
    return " ".join((before + after).split())


def _environment(program: Program, folder: Path, threads: int) -> dict[str, str]:
    """Returns the environment of a program that is started without MPI."""
    return {
        **program.environment(folder),
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "OMP_MAX_ACTIVE_LEVELS": "1",  # parallel parts inside of parallel parts start no more threads
        "OMP_STACKSIZE": "120M",  # of each thread
        "LC_ALL": "C.UTF-8",
    }


def _unlimited_stack() -> None:
    """Raises the limit of the stack as far as is allowed, since xtb keeps its arrays there."""
    _, highest_limit = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (highest_limit, highest_limit))
