"""The job that a driver sends to a zygote, with its limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Limits:
    """The limits of a job."""

    wall_seconds: float = 600
    """Wall time per candidate."""
    memory_mb: int = 4000
    """Memory of the whole process tree, MB."""
    threads: int = 1
    """Number of threads of the engine."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.wall_seconds) and self.wall_seconds > 0 and self.memory_mb > 0 and self.threads > 0):
            raise ValueError(f"{self}: every limit is a finite number above 0")


@dataclass(frozen=True)
class StoredFile:
    """An artifact copied out of the scratch folder."""

    name: str
    path: Path
    """Path in the worker's spool folder."""
    sha256: str
    size: int
    """Bytes."""
    media_type: str


@dataclass(frozen=True)
class Sent:
    """A candidate as it is sent to the process that verifies it."""

    key: str
    kind: str
    record: Mapping[str, Any]
    """The result of `chemistry.payload.record_of`."""
    checkpoint: str | None = None
    """The candidate's checkpoint folder, which is kept after the attempt."""


@dataclass(frozen=True)
class Job:
    """A request to the zygote: one child process for these candidates."""

    number: int
    verifier: str
    settings: Mapping[str, Any]
    candidates: tuple[Sent, ...]
    limits: Limits
    replicate: int = 0
    together: bool = False
    """Whether one call verifies all candidates; the first finding may then take the wall time of all."""
    cuda: str | None = None
    """The value of CUDA_VISIBLE_DEVICES in the child process; None leaves it unchanged."""

    def to_wire(self) -> Mapping[str, Any]:
        """Returns the fields as a JSON object."""
        return {**vars(self), "candidates": list(map(vars, self.candidates)), "limits": vars(self.limits)}

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Job:
        """Returns the job from its fields as a JSON object."""
        sent = tuple(Sent(**candidate) for candidate in data["candidates"])
        return cls(**{**data, "candidates": sent, "limits": Limits(**data["limits"])})
