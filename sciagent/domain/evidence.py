"""The evidence key and the finding: what a verification of a candidate says, before the host adds its cost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar

from sciagent.domain.cost import Cost
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.domain.properties import Level
from sciagent.domain.quantities import Quantity

NO_INPUTS = ""
_ENCODE = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical_json(value: Any) -> str:
    """The canonical text of a JSON value: sorted keys, no spaces, no NaN. Raises ValueError for NaN or infinity."""
    return _ENCODE(value)


def content_hash(value: Any) -> str:
    return text_hash(canonical_json(value))


def text_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class EvidenceKey:
    """What makes two results the same result. `subject`: a candidate key, or `proposal:<id>` for what depends on
    the proposal. `settings_hash`: of the settings after defaults were filled in, without limits, gates and costs."""

    subject: str
    verifier: str
    verifier_version: str
    settings_hash: str
    inputs_hash: str = NO_INPUTS
    replicate: int = 0
    revision: int = 0

    @cached_property
    def hash(self) -> str:
        """SHA-256 over the fields in their order."""
        return content_hash([getattr(self, name) for name in self.__dataclass_fields__])

    @property
    def seed(self) -> int:
        """A 31-bit seed for what is random in the verification: the same everywhere, whatever the campaign."""
        return int(self.hash[:8], 16) & 0x7FFFFFFF


@dataclass(frozen=True)
class Measured:
    """A property at a level, in the property's canonical unit."""

    property: str
    level: Level
    quantity: Quantity


class HasMeasured(Protocol):
    """An answer of a rung, with the values in it."""

    @property
    def measured(self) -> tuple[Measured, ...]: ...


A = TypeVar("A", bound=HasMeasured)


def at_highest_rung(answers: Iterable[A]) -> dict[str, tuple[A, Measured]]:
    """Each property's value at the highest rung that measured it, and the answer that holds it.

    answers: of a candidate, in ladder order; of several answers of a rung the last counts.
    """
    return {measured.property: (answer, measured) for answer in answers for measured in answer.measured}


@dataclass(frozen=True)
class ArtifactFile:
    """A file the verification leaves in its scratch folder; the host stores it under its SHA-256."""

    name: str
    path: str
    media_type: str = "application/octet-stream"


@dataclass(frozen=True)
class Finding:
    """What a verifier knows of a candidate. The host adds cost, provenance and attempt.

    spent: what the host cannot measure and the verifier has counted, such as tokens of a language model; None where it
    counts nothing itself, and what it declared is booked.

    Raises ValueError when an outcome other than ok has no reason, or ok has one.
    """

    candidate_key: str
    outcome: Outcome
    measured: tuple[Measured, ...] = ()
    reason: Reason | None = None
    detail: str = ""
    diagnostics: dict[str, Any] = field(default_factory=dict)
    artifacts: tuple[ArtifactFile, ...] = ()
    spent: Cost | None = None
    share: float = 1.0
    """Weight of this candidate in the cost and wall time of a call that it shared with others; above 0."""

    def __post_init__(self) -> None:
        if (self.outcome is Outcome.OK) == (self.reason is not None):
            raise ValueError(f"outcome {self.outcome} with reason {self.reason}: every outcome but ok names its reason")
