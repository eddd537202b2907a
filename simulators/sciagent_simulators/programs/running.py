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
from typing import Any

from sciagent.domain.outcomes import Reason
from sciagent.errors import SimulatorError
from sciagent.programs import Program, find
from sciagent_simulators.geometry import failure

MPIEXEC = Program(
    "openmpi",
    "Open MPI",
    "SCIAGENT_MPIEXEC",
    ("mpiexec", "mpirun"),
    ("--version",),
    r"(?:OpenRTE|Open MPI)\) (\d\S*)",
    "Debian and Ubuntu: apt-get install openmpi-bin",
)
"""Starts a parallel program. It has to be the Open MPI with which that program was built."""
OF_A_PARENT = (
    "SLURM_",
    "PMI_",
    "PMIX_",
    "PRTE_",
    "OMPI_COMM_WORLD_",
    "OMPI_UNIVERSE_",
    "OMPI_MCA_orte_",
    "OMPI_MCA_ess",
)
"""Beginnings of variables that describe the cluster job or the MPI process to which the worker itself belongs. Open MPI
would read from them how many processes may be started, and where."""
VARIABLES = {
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
    """Environment variables that it gets besides."""
    version: str = ""
    """Version of Open MPI; empty without it."""

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Returns the environment of the program. variables: that of a program without MPI."""
        kept = {name: value for name, value in variables.items() if not name.startswith(self.dropped)}
        return kept | dict(self.added)


SERIAL = Launcher((), (), {})


def mpi(ranks: int) -> Launcher:
    """Returns the launcher for this number of processes, each with one thread.

    Processes are not bound to cores, since two jobs on a machine would otherwise share the first cores. There may be
    more of them than Open MPI counts cores. Raises SimulatorError bad_environment (program_missing).
    """
    found = find(MPIEXEC)
    command = (str(found.path), "-n", str(ranks), "--bind-to", "none", "--oversubscribe")
    return Launcher(command, OF_A_PARENT, VARIABLES, found.version)


MAX_OUTPUT = 64 << 20  # bytes
TAIL = 2000  # characters of the output that the diagnostics of a failure keep
OUTPUT = "output.txt"

Reasons = Mapping[str, Reason]
"""{regular expression for the output: reason}; the first match counts, and case does not matter."""

COMMON: Reasons = {
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
) -> ProgramOutput:
    """Runs the program in the new folder and returns its output, whatever its exit status.

    files: texts by file name, written before. stdin: name of the file that is its standard input; empty for none.
    ranks: number of processes that Open MPI starts; 1 starts the program without it.
    Raises SimulatorError bad_environment (program_missing), crashed (bad_result) for endless output.
    """
    found = find(program)
    launcher = mpi(ranks) if ranks > 1 else SERIAL
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    with (
        (folder / stdin if stdin else Path(os.devnull)).open("rb") as source,
        (folder / OUTPUT).open("wb") as output,
        subprocess.Popen(
            [*launcher.command, str(found.path), *arguments],
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
    return ProgramOutput(program, found.version, folder, process.returncode, text)


def failed(output: ProgramOutput, reasons: Reasons, missing: str) -> SimulatorError:
    """Returns the error of a program whose output lacks the result.

    reasons: those of this program; the COMMON ones are tried after them. missing: end of the message if none matches.
    """
    title = f"{output.program.title} {output.version}"
    for expression, reason in (*reasons.items(), *COMMON.items()):
        if match := re.search(expression, output.text, re.IGNORECASE):
            return _error(output, reason, f"{title}: {_line(output.text, match.start())}")
    status = output.status
    if status < 0 or status > 128:
        return _error(output, Reason.SIGNAL, f"{title} was killed by signal {-status if status < 0 else status - 128}")
    if status:
        lines = [line for line in output.text.splitlines()[-100:] if line.strip()] or ["it printed nothing"]
        last = next((line for line in lines if re.search("error", line, re.IGNORECASE)), lines[-1])
        return _error(output, Reason.EXCEPTION, f"{title} ended with exit status {status}: {' '.join(last.split())}")
    return _error(output, Reason.NO_RESULT, f"{title} ended without an error, and {missing}")


def _error(output: ProgramOutput, reason: Reason, detail: str) -> SimulatorError:
    return failure(reason, detail[:400], exit_status=output.status, output_tail=output.text[-TAIL:])


def _line(text: str, place: int) -> str:
    """Returns the line of the text around this position, with single blanks."""
    end = text.find("\n", place)
    return " ".join(text[text.rfind("\n", 0, place) + 1 : end if end >= 0 else len(text)].split())


def _environment(program: Program, folder: Path, threads: int) -> dict[str, str]:
    variables: dict[str, Any] = {
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads),
        "OMP_MAX_ACTIVE_LEVELS": 1,
        "OMP_STACKSIZE": "120M",
        "LC_ALL": "C.UTF-8",
    }
    return {**program.environment(folder), **{name: str(value) for name, value in variables.items()}}


def _unlimited_stack() -> None:
    """Raises the limit of the stack as far as is allowed, since xtb keeps its arrays there."""
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    resource.setrlimit(resource.RLIMIT_STACK, (hard, hard))
