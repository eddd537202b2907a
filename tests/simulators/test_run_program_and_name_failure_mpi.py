"""The command of Open MPI, and what its processes see."""

from __future__ import annotations

import os
import re

import pytest

from sciagent_simulators.programs.run_program_and_name_failure import SERIAL, mpi_launcher

pytestmark = pytest.mark.usefixtures("openmpi")


def test_processes_are_unbound_and_may_be_more_than_the_cores() -> None:
    launcher = mpi_launcher(3)
    assert launcher.command[1:] == ("-n", "3", "--bind-to", "none", "--oversubscribe")
    assert re.match(r"\d+\.\d", launcher.version)


def test_variables_of_a_cluster_job_do_not_reach_the_processes() -> None:
    job = {"SLURM_NTASKS": "1", "PMIX_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1", "PMI_RANK": "0"}
    chosen = {"OMPI_MCA_btl": "self,vader", "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "4"}
    given = mpi_launcher(2).environment(job | chosen)
    assert not set(job) & set(given)
    assert given["OMPI_MCA_btl"] == "self,vader" and given["OMP_NUM_THREADS"] == "1"
    assert given["OMPI_ALLOW_RUN_AS_ROOT"] == given["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"
    assert SERIAL.environment(job | chosen) == job | chosen
