"""The site profile: a cluster's partitions, and what is requested there for a job. A user of the cluster writes it.

No text in it comes from a model or a candidate. Each text has a type that allows only a few characters all the same,
since it becomes an argument of sbatch or a line of the batch script.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from sciagent.domain.states_and_needs import CORES, GPU, MOST_OTHERS, NAME
from sciagent.errors import NoPartitionError
from sciagent.inputs.yaml_document import read, read_text
from sciagent.inputs.yaml_validation import Faults, fault, validated

RESERVED = (
    "account", "array", "bb", "bbf", "chdir", "clusters", "cluster", "cpus-per-task", "dependency", "error", "export",
    "export-file", "get-user-env", "help", "hold", "ignore-pbs", "input", "job-name", "kill-on-invalid-dep", "mem",
    "mem-per-cpu", "mem-per-gpu", "no-requeue", "nodes", "ntasks", "ntasks-per-core", "ntasks-per-gpu",
    "ntasks-per-node", "ntasks-per-socket", "open-mode", "output", "parsable", "partition", "qos", "quiet", "requeue",
    "signal", "test-only", "time", "time-min", "uid", "gid", "usage", "verbose", "version", "wait", "wrap",
)  # fmt: skip
"""Options of sbatch that sciagent sets itself, or that would change its input or its user."""


def _checked(pattern: str, takes: str, limit: int) -> AfterValidator:
    """Returns a check of a text. takes: description of the pattern, for messages. limit: most characters."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if len(value) > limit:
            raise fault(f"{len(value)} characters; the limit is {limit}")
        if not compiled.fullmatch(value):
            shown = value if len(value) <= 60 else value[:57] + "..."
            raise fault(f"{shown!r} is not taken here", f"takes {takes}")
        return value

    return AfterValidator(check)


Name = Annotated[str, _checked(r"[A-Za-z0-9][A-Za-z0-9_.-]*", 'letters, digits, "_", "." and "-"', 64)]
"""Name of a partition, an account or a QOS."""

Licence = Annotated[str, _checked(NAME, 'a lower-case letter, then letters, digits and "_"', 31)]
"""Name of a licence, as in a rung's `resources`."""

Module = Annotated[
    str, _checked(r"[A-Za-z0-9][A-Za-z0-9_.+/-]*", 'the name of a module: letters, digits and "_.+-/"', 128)
]
Variable = Annotated[
    str,
    _checked(
        r"(?!SLURM_|SBATCH_)[A-Za-z_][A-Za-z0-9_]*",
        'the name of an environment variable: letters, digits and "_"; not SLURM_ or SBATCH_, which Slurm sets',
        100,
    ),
]
Value = Annotated[
    str, _checked(r"[A-Za-z0-9_@%+=:,./ -]*", 'letters, digits, spaces and "_@%+=:,./-"; no quotes, no $', 1000)
]
"""Value of an environment variable."""

AbsolutePath = Annotated[
    str,
    _checked(
        r"(?!.*/\.\.?(?:/|$))(?:/[A-Za-z0-9_@+=:,.-]+)+",
        'a path from "/" on: letters, digits and "_@+=:,.-"; no folder "." or "..", no "/" at its end',
        400,
    ),
]


def key_of(option: str) -> str:
    """The key in --key or --key=value."""
    return option.removeprefix("--").partition("=")[0]


def _not_reserved(value: str) -> str:
    """Refuse reserved options and their prefixes, since sbatch accepts a prefix as the whole option."""
    key = key_of(value)
    taken = [name for name in RESERVED if name.startswith(key)]
    if taken:
        short = "" if key in taken else f", for it is short for --{taken[0]}"
        raise fault(f"--{key} cannot be given here{short}", "sciagent sets it, or relies on how it stands")
    return value


Option = Annotated[
    str,
    _checked(r"--[a-z]+(?:-[a-z]+)*(?:=[A-Za-z0-9_@%+:.,/*-]+)?", "--key or --key=value, as --constraint=skylake", 200),
    AfterValidator(_not_reserved),
]
"""An additional option of sbatch."""

Whole = Annotated[int, Field(strict=True)]
Real = Annotated[float, Field(strict=True)]
Amount = Annotated[int, Field(strict=True, ge=1, le=MOST_OTHERS)]

MAX_MINUTES = 525_600  # a year
MAX_MEMORY_MB = 100_000_000


class Profile(BaseModel):
    """Base class of a profile's parts: unknown keys are refused, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Partition(Profile):
    """One partition, and the largest requests of a job there."""

    name: Name = Field(description="As `sinfo` shows it.")
    max_minutes: Whole = Field(ge=1, le=MAX_MINUTES, description="Longest wall time of a job, in minutes.")
    max_memory_mb: Whole = Field(ge=1, le=MAX_MEMORY_MB, description="Most memory of a job on one node, in MB.")
    max_cores: Whole = Field(ge=1, le=100_000, description="Most cores of a job on one node.")
    max_gpus: Whole = Field(
        0, ge=0, le=64, description="Most GPUs of a job on one node, as --gres=gpu:N asks for them."
    )
    account: Name | None = Field(None, description="What the time is booked to; default: the user's own.")
    qos: Name | None = Field(None, description="Quality of service; default: the partition's.")


class Wall(Profile):
    """The rule by which the requested wall time is computed from a job's expected seconds."""

    margin: Real = Field(default=2.0, ge=1, le=100, description="Times the expected seconds.")
    minimum_minutes: Whole = Field(default=5, ge=1, le=MAX_MINUTES, description="No job asks for less.")
    warning_seconds: Whole = Field(
        default=120, ge=1, le=3600, description="So long before its end a job is told to stop; added to its time."
    )


class Memory(Profile):
    """The rule by which the requested memory is computed from a job's expected MB."""

    margin: Real = Field(default=1.2, ge=1, le=100, description="Times the expected MB.")
    minimum_mb: Whole = Field(default=500, ge=1, le=MAX_MEMORY_MB, description="No job asks for less.")


_MINIMUM_OF_LIMIT = {"max_minutes": "wall.minimum_minutes", "max_memory_mb": "memory.minimum_mb"}
"""For each limit of a partition, the key of the least amount that sciagent requests."""


class SiteProfile(Profile):
    """The profile of a cluster, for one user."""

    site: Name = Field(description="What to call it.")
    partitions: tuple[Partition, ...] = Field(
        min_length=1, max_length=64, description="In the order they are tried: a job goes to the first that holds it."
    )
    python: AbsolutePath = Field(description="The interpreter that has sciagent, as the nodes see it.")
    spool: AbsolutePath = Field(description="Folder that this machine and the nodes share, for scripts and marks.")
    modules: tuple[Module, ...] = Field((), max_length=64, description="Loaded in this order before a job.")
    environment: dict[Variable, Value] = Field(
        default_factory=dict, max_length=200, description="Variables of a job. No secrets: the script shows them."
    )
    pass_environment: tuple[Variable, ...] = Field(
        (), max_length=64, description="Names of variables handed on as they are here, such as SCIAGENT_LEDGER."
    )
    wall: Wall = Field(default=Wall(), description="From expected seconds to wall time.")
    memory: Memory = Field(default=Memory(), description="From expected MB to memory.")
    licences: dict[Licence, Amount] = Field(
        default_factory=dict, max_length=64, description="What the cluster counts (--licenses): most of each for a job."
    )
    max_array: Whole = Field(
        1000, ge=1, le=4_000_000, description="Most elements of one array; below the cluster's MaxArraySize."
    )
    max_running: Whole | None = Field(
        None, ge=1, le=1_000_000, description="Most elements of one array that run at a time; default: Slurm's choice."
    )
    poll_seconds: Real = Field(30.0, ge=0.1, le=3600, description="How often Slurm is asked for states.")
    options: tuple[Option, ...] = Field((), max_length=32, description="More options of sbatch, each --key=value.")
    slurm_bin: AbsolutePath | None = Field(None, description="Folder of sbatch and squeue; default: found on PATH.")
    slurm_conf: AbsolutePath | None = Field(None, description="SLURM_CONF for these commands; default: as it is here.")

    @model_validator(mode="after")
    def _check_parts(self) -> SiteProfile:
        names = [partition.name for partition in self.partitions]
        with Faults() as faults:
            for place, partition in enumerate(self.partitions):
                if partition.name in names[:place]:
                    faults.add(("partitions", place, "name"), f'"{partition.name}" is listed twice')
                for limit, minimum_key in _MINIMUM_OF_LIMIT.items():
                    minimum = attrgetter(minimum_key)(self)
                    if getattr(partition, limit) < minimum:
                        message = f"is below {minimum_key} ({minimum}); no job could go there"
                        faults.add(("partitions", place, limit), message)
            sbatch_options = []  # options of sbatch that a job's needs set
            if any(partition.max_gpus for partition in self.partitions):
                sbatch_options.append("gres")
            if self.licences:
                sbatch_options.append("licenses")
            for place, option in enumerate(self.options):
                taken = [name for name in sbatch_options if name.startswith(key_of(option))]
                if taken:
                    faults.add(("options", place), f"--{taken[0]} is said by what jobs need: max_gpus, licences")
            for place, variable in enumerate(self.pass_environment):
                if variable in self.environment:
                    faults.add(("pass_environment", place), f"{variable} is set under `environment` already")
        return self


def load_site(path: Path) -> SiteProfile:
    """Read the profile in a YAML file. Raises SpecError, which lists all mistakes, each with line and column."""
    return parse_site(read_text(path), str(path))


def parse_site(text: str, name: str = "site.yaml") -> SiteProfile:
    """Read the profile in a YAML text. name: the file name used in messages. Raises SpecError."""
    return validated(read(text, kind="a site profile", opens="site: name"), name, SiteProfile)


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
    licences = sorted((name, n) for name, n in needs.items() if name not in (CORES, GPU))
    return Need(seconds, memory_mb, cores=needs.get(CORES, 1), gpus=needs.get(GPU, 0), licences=tuple(licences))


@dataclass(frozen=True)
class ResourceRequest:
    """The resources requested for each array element, on one node."""

    partition: Partition
    minutes: int
    memory_mb: int
    cores: int
    gpus: int = 0
    licences: tuple[tuple[str, int], ...] = ()
    """(name, count), sorted by name."""


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
    minutes = wall_minutes(site, need.seconds)
    memory = memory_mb(site, need.memory_mb)
    for name, n in need.licences:
        most = site.licences.get(name, 0)
        if n > most:
            raise NoPartitionError(
                f"{site.site} has {most or 'no'} {name}, and a job needs {n}; name it among the licences of the "
                "profile, if the cluster counts it"
            )
    for partition in site.partitions:
        has_time_and_memory = minutes <= partition.max_minutes and memory <= partition.max_memory_mb
        has_processors = need.cores <= partition.max_cores and need.gpus <= partition.max_gpus
        if has_time_and_memory and has_processors:
            return ResourceRequest(partition, minutes, memory, need.cores, need.gpus, need.licences)
    asked = f"{minutes} minutes, {memory} MB and {need.cores} cores"
    if need.gpus:
        asked += f" and {need.gpus} GPUs"
    raise NoPartitionError(
        f"no partition of {site.site} holds {asked} ({_listed_limits(site, need)}); "
        "lower the job's limits, or add a larger partition to the profile"
    )


def _listed_limits(site: SiteProfile, need: Need) -> str:
    """The limits of all partitions, for a message. GPUs are listed if the job or a partition has some."""
    shows_gpus = need.gpus or any(partition.max_gpus for partition in site.partitions)
    limits = []
    for partition in site.partitions:
        time_and_memory = f"{partition.max_minutes} minutes, {partition.max_memory_mb} MB"
        gpus = f", {partition.max_gpus} GPUs" if shows_gpus else ""
        limits.append(f"{partition.name}: {time_and_memory}, {partition.max_cores} cores{gpus}")
    return "; ".join(limits)
