"""What the driver asks of the zygote, and under which limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Limits:
    """What a job may use."""

    wall_seconds: float = 600
    """For each candidate."""
    memory_mb: int = 4000
    """Of the whole process tree."""
    threads: int = 1
    """Of the engine."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.wall_seconds) and self.wall_seconds > 0 and self.memory_mb > 0 and self.threads > 0):
            raise ValueError(f"{self}: every limit is a finite number above 0")


@dataclass(frozen=True)
class StoredFile:
    """An artifact, copied out of the scratch folder."""

    name: str
    path: Path
    """In the worker's spool folder."""
    sha256: str
    size: int
    """Bytes."""
    media_type: str


@dataclass(frozen=True)
class Sent:
    """A candidate on its way to the process that verifies it."""

    key: str
    kind: str
    record: Mapping[str, Any]
    """As `chemistry.payload.record_of` writes it."""
    checkpoint: str | None = None
    """A folder of its own that outlives the attempt."""


@dataclass(frozen=True)
class Job:
    """What the driver asks of the zygote: a child process for these candidates."""

    number: int
    verifier: str
    settings: Mapping[str, Any]
    candidates: tuple[Sent, ...]
    limits: Limits
    replicate: int = 0
    together: bool = False
    """The verifier computes all before its first finding, which therefore has the wall time of all."""
    cuda: str | None = None
    """What its process sees as CUDA_VISIBLE_DEVICES; None leaves it as it is."""

    def to_wire(self) -> Mapping[str, Any]:
        """Its fields as JSON."""
        return {**vars(self), "candidates": list(map(vars, self.candidates)), "limits": vars(self.limits)}

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Job:
        """The job, from its fields as JSON."""
        sent = tuple(Sent(**candidate) for candidate in data["candidates"])
        return cls(**{**data, "candidates": sent, "limits": Limits(**data["limits"])})
