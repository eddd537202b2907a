"""`sciagent doctor --site` against a real cluster: what fits, and each thing that does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from sciagent.execution.slurm.profile_check import minutes
from tests.execution.slurm.conftest import profile
from tests.support.slurm_cluster import SlurmCluster
from tests.support.typed import invoked


def written(cluster: SlurmCluster, folder: Path, **more: object) -> str:
    """A profile of the cluster as a file."""
    data = profile(cluster, folder / "spool", pass_environment=[], **more).model_dump(mode="json", exclude_none=True)
    with (folder / "site.yaml").open("w") as stream:
        YAML().dump(data, stream)
    return str(folder / "site.yaml")


def checked(path: str, *options: str) -> tuple[int, dict[str, Any]]:
    done = invoked(["doctor", "--site", path, "--json", *options])
    return done.exit_code, json.loads(done.stdout)


def test_a_profile_that_fits_is_compared_and_slurm_would_take_the_job(cluster: SlurmCluster, tmp_path: Path) -> None:
    code, found = checked(written(cluster, tmp_path), "--seconds", "3000", "--memory", "1000", "--cores", "2")
    assert (code, found["ok"], found["faults"]) == (0, True, [])
    assert [
        (one["name"], one["up"], one["minutes"], one["memory_mb"], one["cores"]) for one in found["partitions"]
    ] == [("short", True, 60, 4000, 4), ("long", True, 600, 4000, 4)]
    assert found["request"] == {
        "partition": "long",
        "minutes": 101,
        "memory_mb": 1200,
        "cores": 2,
        "gpus": 0,
        "licences": [],
    }
    assert [one["gpus"] for one in found["partitions"]] == [2, 2]
    assert "in partition long" in found["slurm"]
    assert cluster.run("squeue", "--noheader", "--name=wrap") == ""
    assert not (tmp_path / "spool").exists()


def test_the_same_in_words(cluster: SlurmCluster, tmp_path: Path) -> None:
    done = invoked(["doctor", "--site", written(cluster, tmp_path), "--seconds", "60"])
    assert done.exit_code == 0
    assert "short: up, 60 minutes, 4000 MB, 4 cores" in done.stdout
    assert "a job of 60 s and 2000 MB: short, 3 minutes, 2400 MB, 1 cores" in done.stdout


def test_each_thing_that_does_not_fit_is_named(cluster: SlurmCluster, tmp_path: Path) -> None:
    partitions = [
        {"name": "short", "max_minutes": 90, "max_memory_mb": 9000, "max_cores": 8},
        {"name": "nowhere", "max_minutes": 90, "max_memory_mb": 9000, "max_cores": 8},
    ]
    code, found = checked(written(cluster, tmp_path, partitions=partitions, max_array=5000), "--seconds", "2500")
    assert code == 1
    assert found["faults"][:5] == [
        "partition short: max_minutes is 90, and Slurm allows 60",
        "partition short: max_memory_mb is 9000, and its largest node has 4000",
        "partition short: max_cores is 8, and its largest node has 4",
        "partition nowhere does not exist; there are: short, long",
        "max_array is 5000, and the cluster's MaxArraySize is 1001",
    ]


def test_a_job_that_nothing_holds_and_a_job_that_slurm_refuses(cluster: SlurmCluster, tmp_path: Path) -> None:
    code, found = checked(written(cluster, tmp_path), "--seconds", "1e6")
    assert code == 1 and "no partition of tests holds 33334 minutes" in found["faults"][0]
    code, found = checked(written(cluster, tmp_path, options=["--constraint=gold"]), "--seconds", "1")
    assert code == 1 and "the example job: sbatch: " in found["faults"][0]


def test_a_machine_without_slurm_says_so(cluster: SlurmCluster, tmp_path: Path) -> None:
    code, found = checked(written(cluster, tmp_path, slurm_bin=str(tmp_path)))
    assert code == 1 and f"sbatch is not in {tmp_path}" in found["faults"][0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1:00:00", 60), ("10:00", 10), ("2-00:00:00", 2880), ("1-01:30:00", 1530), ("infinite", None), ("n/a", None)],
)
def test_a_limit_of_time_is_read_in_minutes(text: str, expected: int | None) -> None:
    assert minutes(text) == expected
