"""A real cluster of one node, and a profile of it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sciagent.execution.slurm.array_folders_submission_and_polling import ElementStatus, Slurm, Spool, spools
from sciagent.execution.slurm.site_profile import SiteProfile
from tests.support.slurm_cluster import NoSlurmError, SlurmCluster, running_slurm

PATIENCE_SECONDS = 120.0


@pytest.fixture(scope="session")
def cluster() -> Iterator[SlurmCluster]:
    """Without Slurm the test fails: what was not tested there does not work there."""
    try:
        with running_slurm() as found:
            yield found
    except NoSlurmError as error:
        pytest.fail(str(error), pytrace=False)


def profile(cluster: SlurmCluster, spool: Path, **more: object) -> SiteProfile:
    partitions = [
        {"name": "short", "max_minutes": 60, "max_memory_mb": 4000, "max_cores": 4},
        {"name": "long", "max_minutes": 600, "max_memory_mb": 4000, "max_cores": 4},
    ]
    return SiteProfile.model_validate(
        {
            "site": "tests",
            "partitions": partitions,
            "python": sys.executable,
            "spool": str(spool),
            "slurm_conf": str(cluster.conf),
            "wall": {"minimum_minutes": 1, "warning_seconds": 10},
            "memory": {"minimum_mb": 50},
            "pass_environment": [name for name in ("PYTHONPATH",) if name in os.environ],
            **more,
        }
    )


@pytest.fixture
def slurm(cluster: SlurmCluster, tmp_path: Path) -> Iterator[Slurm]:
    """A site whose spool is empty; what was submitted there is cancelled in the end."""
    found = Slurm(profile(cluster, tmp_path / "spool"))
    yield found
    for array in spools(found.site.spool):
        cluster.run("scancel", f"--name={array.name}")


def states(slurm: Slurm, array: Spool) -> list[ElementStatus]:
    return slurm.states([array])[array]


def wait(slurm: Slurm, array: Spool, until: Callable[[list[ElementStatus]], bool]) -> list[ElementStatus]:
    """The states of the elements as soon as that is true of them."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not until(found := states(slurm, array)):
        assert time.monotonic() < deadline and not all_ended(found), found
        time.sleep(0.1)
    return found


def all_ended(elements: list[ElementStatus]) -> bool:
    return all(one.state.ended for one in elements)
