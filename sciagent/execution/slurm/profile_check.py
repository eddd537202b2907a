"""Checks a profile against its cluster: commands exist, partitions match, an example job is accepted."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sciagent.errors import NoPartitionError, SlurmError
from sciagent.execution.slurm.array_folders_submission_and_polling import Slurm
from sciagent.execution.slurm.site_profile import Need, ResourceRequest, SiteProfile, choose_partition

COMMANDS = ("sbatch", "squeue", "scontrol", "sinfo")
_FORMAT = "%R|%a|%l|%c|%m|%G"  # partition, up or not, time limit, cores, MB and generic resources of a node
_GPUS = re.compile(r"(?:^|,)gpu(?::[^:,()]+)?:(\d+)")  # gpu:COUNT or gpu:TYPE:COUNT, in a list
_MAX_ARRAY_SIZE = re.compile(r"^MaxArraySize\s*=\s*(\d+)$", re.MULTILINE)
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")  # see `minutes`


@dataclass(frozen=True)
class PartitionStatus:
    """A partition as sinfo shows it."""

    name: str
    up: bool
    minutes: int | None
    """Time limit, in minutes; None if there is none."""
    memory_mb: int
    """Memory of the largest node, in MB."""
    cores: int
    """Cores of the largest node."""
    gpus: int = 0
    """GPUs of the largest node."""


@dataclass(frozen=True)
class ProfileCheck:
    """The result of checking a profile."""

    faults: list[str] = field(default_factory=list)
    """One line per mismatch."""
    partitions: list[PartitionStatus] = field(default_factory=list)
    request: ResourceRequest | None = None
    """The request for the example job, if a partition holds it."""
    rehearsal: str | None = None
    """Slurm's message on the example job; None if Slurm was not asked."""


def check(site: SiteProfile, need: Need) -> ProfileCheck:
    """Check the profile against Slurm. need: the example job. Nothing is submitted or written."""
    slurm = Slurm(site)
    faults = []
    partitions = []
    if not _is_writable(Path(site.spool)):
        faults.append(f"spool: {site.spool} cannot be written here")
    try:
        for name in COMMANDS:
            slurm.find(name)
        slurm.passed_variables()  # raises SlurmError if one is missing
        partitions = _partition_statuses(slurm.run("sinfo", "--noheader", f"--format={_FORMAT}").stdout)
        faults += _differences(site, {status.name: status for status in partitions})
        max_array_size = _MAX_ARRAY_SIZE.search(slurm.run("scontrol", "show", "config").stdout)
        if max_array_size and site.max_array > int(max_array_size[1]):
            faults.append(f"max_array is {site.max_array}, and the cluster's MaxArraySize is {max_array_size[1]}")
    except SlurmError as error:
        faults.append(str(error))
    request = None
    rehearsal = None
    try:
        request = choose_partition(site, need)
        rehearsal = slurm.rehearse(request) if partitions else None  # without partitions Slurm has not answered
    except NoPartitionError as error:
        faults.append(str(error))
    except SlurmError as error:
        faults.append(f"the example job: {error}")
    return ProfileCheck(faults, partitions, request, rehearsal)


def _partition_statuses(sinfo_output: str) -> list[PartitionStatus]:
    """One entry per partition, from sinfo's output, which has one line per kind of node."""
    largest: dict[str, PartitionStatus] = {}
    for line in sinfo_output.splitlines():
        parts = line.strip().split("|")
        if len(parts) != _FORMAT.count("|") + 1:  # a warning, not a line in our format
            continue
        name, state, limit, cores, memory, generic = parts
        old = largest.get(name)  # from an earlier line of the same partition
        n_gpus = sum(int(n) for n in _GPUS.findall(generic))
        largest[name] = PartitionStatus(
            name,
            up=state == "up",
            minutes=minutes(limit),
            memory_mb=max(_leading_number(memory), old.memory_mb if old else 0),
            cores=max(_leading_number(cores), old.cores if old else 0),
            gpus=max(n_gpus, old.gpus if old else 0),
        )
    return list(largest.values())


def minutes(limit: str) -> int | None:
    """Minutes of a time limit as sinfo shows it, [days-][hours:]minutes:seconds; None without a limit."""
    match = _TIME.fullmatch(limit)
    if match is None:
        return None
    days, hours, whole_minutes, _ = (int(group or 0) for group in match.groups())
    return (days * 24 + hours) * 60 + whole_minutes


def _leading_number(text: str) -> int:
    """The number at the beginning of a text such as `4000+`, which means 4000 or more; 0 without one."""
    digits = re.match(r"\d+", text)
    return int(digits[0]) if digits else 0


def _differences(site: SiteProfile, partitions: dict[str, PartitionStatus]) -> Iterator[str]:
    """Yields one line per value of the profile that the cluster's partition does not allow. partitions: by name."""
    for partition in site.partitions:
        name = f"partition {partition.name}"
        status = partitions.get(partition.name)
        if status is None:
            yield f"{name} does not exist; there are: {', '.join(partitions) or 'none'}"
            continue
        if not status.up:
            yield f"{name} is not up"
        if status.minutes is not None and partition.max_minutes > status.minutes:
            yield f"{name}: max_minutes is {partition.max_minutes}, and Slurm allows {status.minutes}"
        for amount in ("memory_mb", "cores", "gpus"):
            limit = getattr(partition, f"max_{amount}")
            largest = getattr(status, amount)
            if limit > largest:
                yield f"{name}: max_{amount} is {limit}, and its largest node has {largest}"


def _is_writable(folder: Path) -> bool:
    """Whether this process may write to the folder, or to its nearest existing parent."""
    while not folder.exists():
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
