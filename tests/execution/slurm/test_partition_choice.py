"""What is asked for a job, and where: whole minutes, margins, the first partition that holds it."""

from __future__ import annotations

import math

import pytest

from sciagent.errors import NoPartitionError, UsageError
from sciagent.execution.slurm.partition_choice import Need, choose_partition, memory_mb, need_of, wall_minutes
from sciagent.execution.slurm.site import parse_site

SITE = parse_site("""\
site: hpc
partitions:
  - {name: short, max_minutes: 60, max_memory_mb: 8000, max_cores: 4}
  - {name: fat, max_minutes: 60, max_memory_mb: 64000, max_cores: 4}
  - {name: long, max_minutes: 1440, max_memory_mb: 8000, max_cores: 16}
python: /usr/bin/python3
spool: /tmp/spool
wall: {margin: 2, minimum_minutes: 5, warning_seconds: 60}
memory: {margin: 1.5, minimum_mb: 1000}
""")


@pytest.mark.parametrize(
    ("seconds", "minutes"), [(0, 5), (120, 5), (120.5, 6), (150, 6), (1770, 60), (1770.1, 61), (1e6, 33335)]
)
def test_wall_time_is_the_margin_and_the_warning_in_whole_minutes(seconds: float, minutes: int) -> None:
    assert wall_minutes(SITE, seconds) == minutes
    assert minutes * 60 >= 2 * seconds + 60


@pytest.mark.parametrize(("expected", "asked"), [(None, 1000), (0, 1000), (700, 1050), (701, 1052)])
def test_memory_is_the_margin_in_whole_megabytes(expected: int | None, asked: int) -> None:
    assert memory_mb(SITE, expected) == asked


@pytest.mark.parametrize(
    ("need", "partition"),
    [
        (Need(1770, 5000, 4), "short"),
        (Need(1770, 5400, 4), "fat"),
        (Need(1771, 5000, 4), "long"),
        (Need(60, None, 5), "long"),
    ],
)
def test_a_job_goes_to_the_first_partition_that_holds_it(need: Need, partition: str) -> None:
    assert choose_partition(SITE, need).partition.name == partition


def test_gpus_and_licences_are_asked_for_where_the_profile_has_them() -> None:
    site = parse_site("""\
site: hpc
partitions:
  - {name: short, max_minutes: 60, max_memory_mb: 8000, max_cores: 4}
  - {name: gpus, max_minutes: 60, max_memory_mb: 8000, max_cores: 8, max_gpus: 2}
python: /usr/bin/python3
spool: /tmp/spool
licences: {gaussian: 2}
""")
    found = choose_partition(site, need_of(60, 100, {"cores": 2, "gpu": 1, "gaussian": 2}))
    assert (found.partition.name, found.cores, found.gpus, found.licences) == ("gpus", 2, 1, (("gaussian", 2),))
    assert choose_partition(site, need_of(60, 100, {"cores": 1})).partition.name == "short"
    with pytest.raises(NoPartitionError, match=r"and 3 GPUs .*short: .*, 0 GPUs; gpus: .*, 2 GPUs"):
        choose_partition(site, need_of(60, 100, {"gpu": 3}))
    with pytest.raises(NoPartitionError, match="hpc has 2 gaussian, and a job needs 3"):
        choose_partition(site, need_of(60, 100, {"gaussian": 3}))
    with pytest.raises(NoPartitionError, match="hpc has no orca, and a job needs 1; name it among the licences"):
        choose_partition(site, need_of(60, 100, {"orca": 1}))


@pytest.mark.parametrize("need", [Need(1771, 5400), Need(1e6), Need(1, 50_000), Need(1, 1, 17), Need(60, 6000, 16)])
def test_what_no_partition_holds_is_refused_with_the_limits_of_each(need: Need) -> None:
    with pytest.raises(NoPartitionError, match="no partition of hpc holds") as caught:
        choose_partition(SITE, need)
    assert "short: 60 minutes, 8000 MB, 4 cores; fat: 60 minutes, 64000 MB, 4 cores; long:" in str(caught.value)
    assert isinstance(caught.value, UsageError)


@pytest.mark.parametrize("need", [Need(math.nan), Need(math.inf), Need(-1)])
def test_what_is_no_amount_is_a_mistake(need: Need) -> None:
    with pytest.raises(ValueError):
        choose_partition(SITE, need)
