"""Computes what to request from Slurm for a job, and chooses the partition."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sciagent.domain.jobs.resource_requests import CORES, GPU
from sciagent.errors import NoPartitionError
from sciagent.execution.slurm.site import Partition, SiteProfile


@dataclass(frozen=True)
class Need:
    """The resources that a job is expected to need."""

    seconds: float
    """Expected wall time, in seconds."""
    memory_mb: int | None = None
    """Expected memory, in MB; None if unknown."""
    cores: int = 1
    gpus: int = 0
    licences: tuple[tuple[str, int], ...] = ()
    """(name, count), sorted by name."""


def need_of(seconds: float, memory_mb: int | None, needs: Mapping[str, int]) -> Need:
    """The need of a job. needs: amounts by resource name; a name other than cores and GPUs is a licence."""
    others = tuple(sorted((name, n) for name, n in needs.items() if name not in (CORES, GPU)))
    return Need(seconds, memory_mb, needs.get(CORES, 1), needs.get(GPU, 0), others)


@dataclass(frozen=True)
class ResourceRequest:
    """The resources requested for each array element, on one node."""

    partition: Partition
    minutes: int
    memory_mb: int
    cores: int
    gpus: int = 0
    licences: tuple[tuple[str, int], ...] = ()


def wall_minutes(site: SiteProfile, seconds: float) -> int:
    """Wall time to request: margin * seconds + warning, rounded up to whole minutes, at least the minimum.

    Raises ValueError if seconds is negative or not finite.
    """
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"{seconds} is no number of seconds")
    wanted = site.wall.margin * seconds + site.wall.warning_seconds
    return max(site.wall.minimum_minutes, math.ceil(wanted / 60))


def memory_mb(site: SiteProfile, expected: int | None) -> int:
    """Memory to request: margin * expected, rounded up to whole MB, at least the minimum."""
    return max(site.memory.minimum_mb, math.ceil(site.memory.margin * (expected or 0)))


def choose_partition(site: SiteProfile, need: Need) -> ResourceRequest:
    """The request for the first partition that can hold the job. Raises NoPartitionError, which lists the limits."""
    minutes, memory = wall_minutes(site, need.seconds), memory_mb(site, need.memory_mb)
    for name, n in need.licences:
        if n > (most := site.licences.get(name, 0)):
            raise NoPartitionError(
                f"{site.site} has {most or 'no'} {name}, and a job needs {n}; name it among the licences of the "
                "profile, if the cluster counts it"
            )
    for partition in site.partitions:
        small = (
            minutes <= partition.max_minutes and memory <= partition.max_memory_mb and need.cores <= partition.max_cores
        )
        if small and need.gpus <= partition.max_gpus:
            return ResourceRequest(partition, minutes, memory, need.cores, need.gpus, need.licences)
    gpus = any(partition.max_gpus for partition in site.partitions) or need.gpus
    limits = "; ".join(
        f"{partition.name}: {partition.max_minutes} minutes, {partition.max_memory_mb} MB, {partition.max_cores} cores"
        + (f", {partition.max_gpus} GPUs" if gpus else "")
        for partition in site.partitions
    )
    asked = f"{minutes} minutes, {memory} MB and {need.cores} cores" + (f" and {need.gpus} GPUs" if need.gpus else "")
    raise NoPartitionError(
        f"no partition of {site.site} holds {asked} ({limits}); "
        "lower the job's limits, or add a larger partition to the profile"
    )
