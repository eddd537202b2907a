"""The command and the environment with which Open MPI starts a program in several processes on this machine.

Source of the options: the manual page of mpirun, Open MPI 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sciagent.programs import MPIEXEC, find

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
