"""The site profile: a cluster's partitions, and how sciagent submits jobs there. A user of the cluster writes it.

No text in it comes from a model or a candidate. Every text is checked all the same, since it becomes an argument of
sbatch or a line of the batch script.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sciagent.domain.jobs.resource_requests import MOST_OTHERS
from sciagent.execution.slurm.argument_types import AbsolutePath, Licence, Module, Name, Option, Value, Variable, key_of
from sciagent.yaml.document import read, text_of
from sciagent.yaml.validation import Faults, validated

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
                if partition.max_minutes < self.wall.minimum_minutes:
                    faults.add(
                        ("partitions", place, "max_minutes"),
                        f"is below wall.minimum_minutes ({self.wall.minimum_minutes}); no job could go there",
                    )
                if partition.max_memory_mb < self.memory.minimum_mb:
                    faults.add(
                        ("partitions", place, "max_memory_mb"),
                        f"is below memory.minimum_mb ({self.memory.minimum_mb}); no job could go there",
                    )
            ours = {"gres": any(partition.max_gpus for partition in self.partitions), "licenses": bool(self.licences)}
            for place, option in enumerate(self.options):
                if taken := [name for name, used in ours.items() if used and name.startswith(key_of(option))]:
                    faults.add(("options", place), f"--{taken[0]} is said by what jobs need: max_gpus, licences")
            for place, variable in enumerate(self.pass_environment):
                if variable in self.environment:
                    faults.add(("pass_environment", place), f"{variable} is set under `environment` already")
        return self


def load_site(path: Path) -> SiteProfile:
    """Read the profile in a YAML file. Raises SpecError, which lists all mistakes, each with line and column."""
    return parse_site(text_of(path), str(path))


def parse_site(text: str, name: str = "site.yaml") -> SiteProfile:
    """Read the profile in a YAML text. name: the file name used in messages. Raises SpecError."""
    return validated(read(text, "a site profile", "site: name"), name, SiteProfile)
