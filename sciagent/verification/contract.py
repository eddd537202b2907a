"""The contract of verifiers: what it measures, what it refuses, what it costs, how sure it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from sciagent.domain.candidates import Candidate, CandidateKind
from sciagent.domain.cost import Cost
from sciagent.domain.evidence import ArtifactFile, EvidenceKey, Finding, Measured, content_hash
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.domain.properties import Level, Property, PropertyAtLevel, at
from sciagent.domain.quantities import Quantity
from sciagent.domain.tiers import Tier
from sciagent.errors import SimulatorError
from sciagent.verification.files import WITH_PATHS, ReferenceFile, StructureFile

__all__ = [
    "ArtifactFile", "Context", "Cost", "Finding", "Level", "Measured", "Outcome", "Prior", "Property",
    "PropertyAtLevel", "Quantity", "Reason", "ReferenceFile", "Refusal", "Settings", "SimulatorError", "StructureFile",
    "Tier", "Verifier", "at",
]  # fmt: skip

C = TypeVar("C", bound=Candidate)


class Settings(BaseModel):
    """Base of a verifier's settings: unknown keys are refused, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Refusal:
    """The rung does not apply to the candidate."""

    reason: Reason
    detail: str


@dataclass(frozen=True)
class Context:
    """What the host gives a verification. scratch: a clean folder, the working directory, removed afterwards.

    checkpoint: a folder that outlives the attempt, for long verifications to resume from.
    """

    scratch: Path
    checkpoint: Path
    replicate: int = 0
    settings_hash: str = ""
    threads: int = 1


@dataclass(frozen=True)
class Prior:
    """What a rung is expected to tell about a named level before any data.

    spearman: rank correlation with `level`. residual: standard deviation after a linear fit, in the property's unit.
    n: how many molecules this was measured on. source: where. slope, intercept: of that fit, the level's value over the
    rung's: with them a scheduler knows where on the rung's own scale a limit lies before it has seen any answer.
    method: of the rung's own level, where settings change it.
    """

    property: str
    level: str
    spearman: float
    residual: float | None
    n: int
    source: str
    slope: float | None = None
    intercept: float | None = None
    method: str | None = None


class Verifier(ABC, Generic[C]):
    """One calculation or measurement; an instance is configured by its settings and otherwise stateless.

    Raise `version` whenever the numbers change for the same settings: old evidence is then not reused.
    `reusable`: whether the answer holds whenever and for whomever it is asked; else it belongs to its campaign. An
    `opinion` is of the simulation tier at best, is not reusable, and no campaign lets it outrank a calculation.
    `preload` names the modules the host imports once before it forks a process per job, and `warm` builds tables that
    every job would otherwise build anew. `engines` names the distributions whose versions belong to the provenance.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    tier: ClassVar[Tier]
    kind: ClassVar[CandidateKind] = "molecule"
    Settings: ClassVar[type[Settings]] = Settings
    reusable: ClassVar[bool] = True
    together: ClassVar[int] = 1
    """How many candidates a call of `verify` takes at most; above 1, that many jobs are claimed and run together."""
    opinion: ClassVar[bool] = False  # somebody was asked; nothing was computed or measured
    preload: ClassVar[tuple[str, ...]] = ()
    engines: ClassVar[tuple[str, ...]] = ()
    priors: ClassVar[tuple[Prior, ...]] = ()

    def __init__(self, settings: Any = None, base: Path | None = None) -> None:
        """base: the folder that relative paths among the settings start from; default: the working directory."""
        context = None if base is None else {"base": base}
        self.settings = self.Settings.model_validate({} if settings is None else settings, context=context)
        self.scope = ""

    @classmethod
    def warm(cls) -> None:
        """Called once in the process that forks the jobs; nothing by default."""
        return None

    def prepare(self) -> None:
        """Called by whoever drives, before the first candidate: the place for what takes minutes once and is kept on
        disk, such as an index of a reference file. Raise SimulatorError if it cannot be; nothing by default."""
        return None

    def attach(self) -> None:
        """Called once for these settings in the process that forks the jobs: open what `prepare` has made, so that
        all jobs share it. What is raised here is ignored; the job will say it. Nothing by default."""
        return None

    @property
    @abstractmethod
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        """Every property this verifier can report, at the level its settings give it."""

    @property
    def gates(self) -> Mapping[str, tuple[float | None, float | None]]:
        """Limits that the settings themselves bring, lowest and highest value by property, in canonical units; a
        campaign's own gate on the property stands before them."""
        return {}

    def accepts(self, candidate: C) -> Refusal | None:
        """None, or why the rung does not apply; cheap, called before anything is spent."""
        return None

    @abstractmethod
    def cost(self, candidate: C) -> Cost:
        """Expected cost of a verification on a core; the scheduler learns the rest."""

    @abstractmethod
    def verify(self, batch: Sequence[C], context: Context) -> Iterator[Finding]:
        """One finding for each candidate, in order. Raise SimulatorError in a helper or yield
        findings with their outcome; an exception that leaves this method is recorded as `crashed`."""

    @cached_property
    def settings_hash(self) -> str:
        """Over all settings after defaults were filled in; of files, over name and content. Where evidence is not
        reusable, over `scope` too, which is the campaign that it belongs to: no other will find it."""
        settings = self.settings.model_dump(mode="json")
        return content_hash(settings if self.reusable else [settings, self.scope])

    @property
    def request_settings(self) -> Mapping[str, Any]:
        """The settings for a `Request`: as JSON, files with their paths."""
        return self.settings.model_dump(mode="json", context=WITH_PATHS)

    def evidence_key(self, candidate: C, replicate: int = 0) -> EvidenceKey:
        return EvidenceKey(candidate.key, self.name, self.version, self.settings_hash, replicate=replicate)

    def failed(self, candidate: C, error: SimulatorError) -> Finding:
        """The finding of an engine that gave no trustworthy result."""
        return error_finding(candidate.key, error)


def error_finding(key: str, error: SimulatorError) -> Finding:
    """The finding that an engine's error stands for. Raises ValueError for an unknown outcome or reason."""
    outcome, reason = Outcome(error.outcome), Reason(error.reason)
    return Finding(key, outcome, reason=reason, detail=error.detail, diagnostics=dict(error.diagnostics))
