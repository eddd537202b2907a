"""Whether a profile fits its cluster: commands are there, partitions are as it says, an example job is taken."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sciagent.errors import NoPartitionError, SlurmError
from sciagent.execution.slurm.client import Slurm
from sciagent.execution.slurm.partition_choice import Need, Request, fit
from sciagent.execution.slurm.site import Site

COMMANDS = ("sbatch", "squeue", "scontrol", "scancel", "sinfo")
_FORMAT = "%R|%a|%l|%c|%m|%G"  # partition, up or not, time limit, cores, MB and generic resources of a node
_GPUS = re.compile(r"(?:^|,)gpu(?::[^:,()]+)?:(\d+)")
_LARGEST = re.compile(r"^MaxArraySize\s*=\s*(\d+)$", re.MULTILINE)
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")


@dataclass(frozen=True)
class Offer:
    """A partition as sinfo shows it. minutes: None without a limit. memory_mb, cores, gpus: of its largest node."""

    name: str
    up: bool
    minutes: int | None
    memory_mb: int
    cores: int
    gpus: int = 0


@dataclass(frozen=True)
class Checked:
    """faults: what does not fit, each a line. rehearsal: Slurm's own words on the example job, if it was asked."""

    faults: list[str] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)
    request: Request | None = None
    rehearsal: str | None = None


def check(site: Site, need: Need) -> Checked:
    """Asks Slurm; submits nothing and writes nothing."""
    slurm = Slurm(site)
    faults, offers = [], []
    if not _writable(Path(site.spool)):
        faults.append(f"spool: {site.spool} cannot be written here")
    try:
        for name in COMMANDS:
            slurm.commands.find(name)
        slurm.commands.passed()
        offers = _offers(slurm.commands.run("sinfo", "--noheader", f"--format={_FORMAT}"))
        faults += _differences(site, {one.name: one for one in offers})
        largest = _LARGEST.search(slurm.commands.run("scontrol", "show", "config"))
        if largest and site.max_array > int(largest[1]):
            faults.append(f"max_array is {site.max_array}, and the cluster's MaxArraySize is {largest[1]}")
    except SlurmError as error:
        faults.append(str(error))
    request = rehearsal = None
    try:
        request = fit(site, need)
        rehearsal = slurm.rehearse(request) if offers else None
    except NoPartitionError as error:
        faults.append(str(error))
    except SlurmError as error:
        faults.append(f"the example job: {error}")
    return Checked(faults, offers, request, rehearsal)


def _offers(said: str) -> list[Offer]:
    """One a partition; sinfo gives a line to each kind of node."""
    found: dict[str, Offer] = {}
    for line in said.splitlines():
        parts = line.strip().split("|")
        if len(parts) != 6:
            continue
        name, state, limit, cores, memory, generic = parts
        old = found.get(name)
        found[name] = Offer(
            name,
            state == "up",
            minutes(limit),
            max(_leading(memory), old.memory_mb if old else 0),
            max(_leading(cores), old.cores if old else 0),
            max(sum(int(n) for n in _GPUS.findall(generic)), old.gpus if old else 0),
        )
    return list(found.values())


def minutes(limit: str) -> int | None:
    """Of a time limit as sinfo shows it, [days-][hours:]minutes:seconds; None without a limit."""
    if not (parts := _TIME.fullmatch(limit)):
        return None
    days, hours, whole, _ = (int(one or 0) for one in parts.groups())
    return (days * 24 + hours) * 60 + whole


def _leading(text: str) -> int:
    """`4000+` is 4000 and more."""
    found = re.match(r"\d+", text)
    return int(found[0]) if found else 0


def _differences(site: Site, offers: dict[str, Offer]) -> Iterator[str]:
    for one in site.partitions:
        offer = offers.get(one.name)
        if offer is None:
            yield f"partition {one.name} does not exist; there are: {', '.join(offers) or 'none'}"
            continue
        if not offer.up:
            yield f"partition {one.name} is not up"
        if offer.minutes is not None and one.max_minutes > offer.minutes:
            yield f"partition {one.name}: max_minutes is {one.max_minutes}, and Slurm allows {offer.minutes}"
        if one.max_memory_mb > offer.memory_mb:
            more = f"{one.max_memory_mb}, and its largest node has {offer.memory_mb}"
            yield f"partition {one.name}: max_memory_mb is {more}"
        if one.max_cores > offer.cores:
            yield f"partition {one.name}: max_cores is {one.max_cores}, and its largest node has {offer.cores}"
        if one.max_gpus > offer.gpus:
            yield f"partition {one.name}: max_gpus is {one.max_gpus}, and its largest node has {offer.gpus}"


def _writable(folder: Path) -> bool:
    """Whether the folder, or the nearest one above it that exists, may be written by us."""
    while not folder.exists():
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
