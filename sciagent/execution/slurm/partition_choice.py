"""What is asked of Slurm for a job, and which partition holds it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sciagent.domain.needs import CORES, GPU
from sciagent.errors import NoPartitionError
from sciagent.execution.slurm.site import Partition, Site


@dataclass(frozen=True)
class Need:
    """What a job is expected to take: wall seconds, memory in MB (None: nobody knows), cores, GPUs, and licences as
    (name, how many), by name."""

    seconds: float
    memory_mb: int | None = None
    cores: int = 1
    gpus: int = 0
    licences: tuple[tuple[str, int], ...] = ()


def need_of(seconds: float, memory_mb: int | None, needs: Mapping[str, int]) -> Need:
    """needs: what the job holds, by name; what is neither cores nor GPUs is a licence."""
    others = tuple(sorted((name, n) for name, n in needs.items() if name not in (CORES, GPU)))
    return Need(seconds, memory_mb, needs.get(CORES, 1), needs.get(GPU, 0), others)


@dataclass(frozen=True)
class Request:
    """What is asked for each element of an array, on one node."""

    partition: Partition
    minutes: int
    memory_mb: int
    cores: int
    gpus: int = 0
    licences: tuple[tuple[str, int], ...] = ()


def wall_minutes(site: Site, seconds: float) -> int:
    """Slurm counts whole minutes, and rounds up: margin * seconds + warning, at least the minimum.

    Raises ValueError for what is no duration.
    """
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"{seconds} is no number of seconds")
    wanted = site.wall.margin * seconds + site.wall.warning_seconds
    return max(site.wall.minimum_minutes, math.ceil(wanted / 60))


def memory_mb(site: Site, expected: int | None) -> int:
    """margin * expected, rounded up to whole MB, at least the minimum. Raises ValueError below 0."""
    if expected is not None and expected < 0:
        raise ValueError(f"{expected} is no amount of memory")
    return max(site.memory.minimum_mb, math.ceil(site.memory.margin * (expected or 0)))


def fit(site: Site, need: Need) -> Request:
    """The first partition of the profile that holds the job. Raises NoPartitionError, which says what each holds."""
    if need.cores < 1:
        raise ValueError(f"{need.cores} cores; a job needs one")
    minutes, memory = wall_minutes(site, need.seconds), memory_mb(site, need.memory_mb)
    for name, n in need.licences:
        if n > (most := site.licences.get(name, 0)):
            raise NoPartitionError(
                f"{site.site} has {most or 'no'} {name}, and a job needs {n}; name it among the licences of the "
                "profile, if the cluster counts it"
            )
    for one in site.partitions:
        small = minutes <= one.max_minutes and memory <= one.max_memory_mb and need.cores <= one.max_cores
        if small and need.gpus <= one.max_gpus:
            return Request(one, minutes, memory, need.cores, need.gpus, need.licences)
    gpus = any(one.max_gpus for one in site.partitions) or need.gpus
    limits = "; ".join(
        f"{one.name}: {one.max_minutes} minutes, {one.max_memory_mb} MB, {one.max_cores} cores"
        + (f", {one.max_gpus} GPUs" if gpus else "")
        for one in site.partitions
    )
    asked = f"{minutes} minutes, {memory} MB and {need.cores} cores" + (f" and {need.gpus} GPUs" if need.gpus else "")
    raise NoPartitionError(
        f"no partition of {site.site} holds {asked} ({limits}); "
        "lower the job's limits, or add a larger partition to the profile"
    )
