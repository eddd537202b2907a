"""What the driver asks of the zygote, and under which limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Limits:
    """wall_seconds: for each candidate. memory_mb: of the whole process tree. threads: of the engine."""

    wall_seconds: float = 600
    memory_mb: int = 4000
    threads: int = 1

    def __post_init__(self) -> None:
        if not (math.isfinite(self.wall_seconds) and self.wall_seconds > 0 and self.memory_mb > 0 and self.threads > 0):
            raise ValueError(f"{self}: every limit is a finite number above 0")


@dataclass(frozen=True)
class StoredFile:
    """An artifact, copied out of the scratch folder to `path` in the worker's spool folder. size: in bytes."""

    name: str
    path: Path
    sha256: str
    size: int
    media_type: str


@dataclass(frozen=True)
class Sent:
    """A candidate on its way to the process that verifies it. record: as `chemistry.payload.record_of` writes it.
    checkpoint: a folder of its own that outlives the attempt."""

    key: str
    kind: str
    record: Mapping[str, Any]
    checkpoint: str | None = None


@dataclass(frozen=True)
class Job:
    """What the driver asks of the zygote: one child process for these candidates.

    together: the verifier computes all of them before its first finding, which therefore has the wall time of all.
    cuda: what its process finds as CUDA_VISIBLE_DEVICES; None leaves it as it is.
    """

    number: int
    verifier: str
    settings: Mapping[str, Any]
    candidates: tuple[Sent, ...]
    limits: Limits
    replicate: int = 0
    together: bool = False
    cuda: str | None = None

    def to_wire(self) -> Mapping[str, Any]:
        sent = [dict(vars(candidate)) for candidate in self.candidates]
        return {
            "number": self.number,
            "verifier": self.verifier,
            "settings": self.settings,
            "candidates": sent,
            "limits": asdict(self.limits),
            "replicate": self.replicate,
            "together": self.together,
            "cuda": self.cuda,
        }

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Job:
        sent = tuple(Sent(**candidate) for candidate in data["candidates"])
        return cls(**{**data, "candidates": sent, "limits": Limits(**data["limits"])})
