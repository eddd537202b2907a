"""The contract of verifiers: the abstract classes `Verifier` and `WorldVerifier`, and the types of their methods.

The methods take and return `Settings`, `Context` and `Refusal`. A verifier declares what is known about its method as
`Prior` and `MethodError`. A `MethodError` is a statistic over the molecules of a benchmark, not the uncertainty of a
single molecule.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from sciagent.domain.candidate_and_its_names_in_files import MOLECULE_KIND, Candidate
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import (
    ArtifactFile,
    Computation,
    EvidenceKey,
    Finding,
    Measured,
    content_hash,
)
from sciagent.domain.lab_messages_and_codes import LabAnswer, LabForm
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.properties_and_levels import Level, Property, PropertyAtLevel, at
from sciagent.domain.quantities import Quantity
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.domain.states_and_needs import ReportedProgress
from sciagent.errors import SimulatorError
from sciagent.inputs.names_outside_the_file import Outside
from sciagent.programs import Program, find
from sciagent.verification.setting_files import WITH_PATHS, ReferenceFile, StructureFile


class ChargeClass(StrEnum):
    """The charge of the molecules for which the error of a method is known."""

    NEUTRAL = "neutral"
    ION = "ion"
    ANY = "any"
    """Neutral molecules and ions."""

    @classmethod
    def of(cls, charge: int) -> ChargeClass:
        """Returns the class of a total charge: a zwitterion is neutral."""
        return cls.NEUTRAL if charge == 0 else cls.ION

    @property
    def many(self) -> str:
        """The molecules in words."""
        return {"neutral": "neutral molecules", "ion": "ions"}.get(self, "molecules")


@dataclass(frozen=True)
class MethodError:
    """The error of one method for one property. Errors are computed minus reference values.

    Raises ValueError for n < 2, a mean error beyond the mean absolute one, or a text that is no class of charge.
    """

    property: str
    """Name of the property."""
    method: str
    """`Level.method` of the computed values."""
    n: int
    """Number of molecules of the benchmark."""
    mean_error: float
    """Mean of computed minus reference, in `unit`."""
    mean_absolute_error: float
    """Mean of the absolute differences, in `unit`."""
    unit: str
    """One of the property's units."""
    chemistry: str
    """The molecules of the benchmark in a few words."""
    source: str
    """File and entry that hold the figures."""
    basis: str = ""
    """`Level.basis` of the computed values."""
    phase: str = "gas"
    """`Level.phase` of the computed values."""
    reference: str = "experiment"
    """The source of the reference values: `experiment`, or the name of a better theory."""
    root_mean_square: float | None = None
    """Root of the mean square difference, in `unit`."""
    charge: Literal["neutral", "ion", "any"] = "any"
    """The molecules for which the figures hold: `neutral`, `ion` or `any`."""

    def __post_init__(self) -> None:
        known = [str(charge) for charge in ChargeClass]
        if self.charge not in known:
            raise ValueError(
                f'{self.property} by {self.method}: charge is "{self.charge}"; it takes: {", ".join(known)}'
            )
        largest_mean = self.mean_absolute_error * (1 + 1e-9)  # with room for rounding
        if self.n < 2 or abs(self.mean_error) > largest_mean:
            raise ValueError(f"{self.property} by {self.method}: these errors cannot come from one set of molecules")

    def holds_for(self, name: str, level: Level) -> bool:
        """Returns whether the figures belong to this property and level, for some charge; the protocol of the geometry
        may differ."""
        is_same_method = (self.method, self.basis, self.phase) == (level.method, level.basis, level.phase or "gas")
        return is_same_method and self.property == name

    def holds_for_charge(self, charge: ChargeClass) -> bool:
        """Returns whether the figures hold for molecules of this class."""
        return self.charge in (ChargeClass.ANY, charge)


__all__ = [
    "ArtifactFile", "BaseVerifier", "ChargeClass", "Context", "Cost", "Finding", "LabAnswer", "LabForm", "Level",
    "Measured", "MethodError", "Outcome", "Outside", "Prior", "Property", "PropertyAtLevel", "Quantity", "Reason",
    "ReferenceFile", "Refusal", "Settings", "SimulatorError", "StructureFile", "Tier", "Verifier", "WorldVerifier",
    "at",
]  # fmt: skip

C = TypeVar("C", bound=Candidate)
ANY_KIND = "any"
"""The `kind` of a verifier that takes candidates of all subjects."""


class Settings(BaseModel):
    """The base class of a verifier's settings. Unknown keys are refused, and values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Refusal:
    """The reason why a verifier does not apply to a candidate."""

    reason: Reason
    detail: str


def _unheard(done: float, of: float, text: str = "") -> None:
    """Checks a report that nobody hears. Raises ValueError as `ReportedProgress.clipped`."""
    ReportedProgress.clipped(done, of, text)


@dataclass(frozen=True)
class Context:
    """The folders and numbers that the host provides for a verification."""

    scratch: Path
    """An empty folder, also the working directory; it is removed after the job."""
    checkpoint: Path
    """A folder that is kept after the attempt, from which a later attempt can resume."""
    replicate: int = 0
    settings_hash: str = ""
    threads: int = 1
    memory_mb: int = 0
    """The memory limit of the job; 0 if it is unknown."""
    progress: Callable[[float, float, str], None] = _unheard
    """Reports `(done, of, text)` of a long verification: amounts in units of the engine, and the present work in at
    most 200 characters. It may be called at any rate; one report a second is passed on. Raises ValueError for amounts
    that are not `0 <= done <= of`."""
    deadline: float = math.inf
    """Time by `time.monotonic` at which the wall limit ends the job. An engine that keeps a checkpoint may end by
    itself before it, with the outcome `timeout` and the reason `wall_limit`."""


@dataclass(frozen=True)
class Prior:
    """The expected relation between a verifier's values and those of a named level, before any data.

    spearman: rank correlation with `level`. residual: standard deviation after a linear fit, in the property's unit.
    n: number of molecules. source: origin of these numbers. slope, intercept: the fit of the level's value over the
    verifier's; a scheduler uses them to convert a limit to the verifier's scale before any finding.
    method: method of the verifier's level for which the prior holds, if settings change it.
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


class BaseVerifier(ABC, Generic[C]):
    """One calculation or measurement; an instance is configured by its settings and otherwise stateless. A calculation
    is a `Verifier`, work of people a `WorldVerifier`.

    Raise `version` whenever the numbers change for the same settings: old evidence is then not reused.
    `reusable`: whether other campaigns may reuse the evidence. An `opinion` has at most the tier simulation, is not
    reusable, and never outranks a calculation. `preload` names modules that the host imports once, before it forks a
    process for each job; `warm` builds tables that every job would otherwise rebuild. `engines` names the distributions
    whose versions belong to the provenance; `programs` the external programs that must be on the machine.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    tier: ClassVar[Tier]
    kind: ClassVar[str] = MOLECULE_KIND
    """The subject whose candidates it takes; `any` for a verifier that takes all."""
    Settings: ClassVar[type[Settings]] = Settings
    reusable: ClassVar[bool] = True
    together: ClassVar[int] = 1
    """Largest number of candidates in a call of `verify`; above 1, up to that many jobs are claimed together."""
    opinion: ClassVar[bool] = False
    """Whether the values are judgements, neither computed nor measured."""
    preload: ClassVar[tuple[str, ...]] = ()
    engines: ClassVar[tuple[str, ...]] = ()
    programs: ClassVar[tuple[Program, ...]] = ()
    optional_programs: ClassVar[tuple[Program, ...]] = ()
    """External programs that only some settings or resources need. `doctor` lists them; no job waits for them."""
    requires: ClassVar[tuple[str, ...]] = ()
    """Distributions without which no job can run, for `missing`."""
    stall_seconds: ClassVar[float | None] = None
    """Longest time without a report of progress, after which the job ends as stalled, unless the rung's limits state
    another; None for a verifier that reports none."""
    environment: ClassVar[str | None] = None
    """Name of the Python environment with the engine, as `sciagent engines` lists it; None for that of sciagent."""
    priors: ClassVar[tuple[Prior, ...]] = ()
    method_errors: ClassVar[tuple[MethodError, ...]] = ()
    """Errors against experiment, from a benchmark. They are shown beside limits where no measured values are known."""

    def __init__(self, settings: Any = None, base: Path | None = None) -> None:
        """base: folder from which relative paths in the settings start; default: the working directory."""
        context = None if base is None else {"base": base}
        self.settings = self.Settings.model_validate({} if settings is None else settings, context=context)
        self.scope = ""
        """Name of the campaign; it enters the hash of settings whose evidence is not reusable."""

    @classmethod
    def warm(cls) -> None:
        """Builds shared tables. Called once in the process that forks the jobs; does nothing by default."""
        return None

    @classmethod
    def missing(cls) -> str | None:
        """Returns None, or what this environment lacks and how to install it, in a line.

        The method is called before a campaign starts, and by each worker. A worker that lacks something leaves the jobs
        to others. By default the method looks for `programs` and `requires`; it imports no engine."""
        for program in cls.programs:
            try:
                find(program)
            except SimulatorError as error:
                return error.detail
        absent = [name for name in cls.requires if not is_installed(name)]
        if not absent:
            return None
        return f"{' and '.join(absent)} not installed; pip install {' '.join(absent)}"

    def lacks(self) -> str | None:
        """Returns what this environment lacks for these settings; `missing()` by default."""
        return type(self).missing()

    @property
    def runs_in(self) -> str | None:
        """The environment of jobs with these settings; `environment` by default."""
        return self.environment

    def prepare(self) -> None:
        """Builds files that take minutes once, such as the index of a reference file. Does nothing by default.

        The driver calls it before the first candidate. Raise SimulatorError if the files cannot be built."""
        return None

    def attach(self) -> None:
        """Opens the files of `prepare`, so that all jobs share them. Does nothing by default.

        It is called once for these settings in the process that forks the jobs. Errors are ignored; the job meets them
        again and reports them."""
        return None

    @property
    @abstractmethod
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        """Every property that this verifier can report, at the level that follows from its settings."""

    @property
    def gates(self) -> Mapping[str, tuple[float | None, float | None]]:
        """Gates that follow from the settings, {property: (lowest, highest value)}, in canonical units. A campaign's
        own gate on the property replaces them."""
        return {}

    def defaults_for(self, charges: Collection[int]) -> Mapping[str, Any]:
        """Returns settings that suit candidates of these charges better than the defaults; none by default.

        A campaign takes them for a rung that does not state them. They enter the hash like stated ones."""
        return {}

    @classmethod
    def takes(cls, kind: str) -> bool:
        """Returns whether the verifier takes candidates of this subject."""
        return cls.kind in (kind, ANY_KIND)

    def accepts(self, candidate: C) -> Refusal | None:
        """Returns None, or why the verifier does not apply. It must be cheap: it is called before the job starts."""
        return None

    def glance(self, candidate: C, names: Collection[str]) -> Finding | None:
        """Returns the finding with only these properties; None if only `verify` can compute them.

        The method takes milliseconds and calls no engine. Proposers call it in the driver's process, to leave out
        molecules that a gate would drop; only for verifiers of the distribution `sciagent`. Raises SimulatorError."""
        return None

    @abstractmethod
    def cost(self, candidate: C) -> Cost:
        """Returns the expected cost of a verification on one core. The scheduler learns a correction factor."""

    @cached_property
    def settings_hash(self) -> str:
        """The hash of all settings including defaults; a file enters by name and content. If evidence is not reusable,
        the hash includes `scope`, the campaign, so that no other campaign finds the evidence."""
        settings = self.settings.model_dump(mode="json")
        if self.reusable:
            return content_hash(settings)
        return content_hash([settings, self.scope])

    @property
    def computation(self) -> Computation:
        """The identity of the evidence, apart from candidate and replicate."""
        return Computation(self.name, self.version, self.settings_hash)

    @property
    def request_settings(self) -> Mapping[str, Any]:
        """The settings of a `Request`, as JSON with the paths of files."""
        return self.settings.model_dump(mode="json", context=WITH_PATHS)

    def evidence_key(self, candidate: C, replicate: int = 0) -> EvidenceKey:
        """Returns the identity of the evidence on a candidate."""
        return EvidenceKey(candidate.key, self.name, self.version, self.settings_hash, replicate=replicate)

    def failed(self, candidate: C, error: SimulatorError) -> Finding:
        """Returns the finding for an engine's error."""
        return error_finding(candidate.key, error)


class Verifier(BaseVerifier[C]):
    """A calculation, which a process of a worker runs."""

    @abstractmethod
    def verify(self, batch: Sequence[C], context: Context) -> Iterator[Finding]:
        """Yields one finding for each candidate, in order.

        If it raises SimulatorError, the candidate whose turn it is gets the outcome that the error names; any other
        exception is recorded as `crashed`."""


class WorldVerifier(BaseVerifier[C]):
    """A measurement or a judgement by people, who read a form and answer it."""

    tier = Tier.WORLD

    def cost(self, candidate: C) -> Cost:
        """Returns one slot in the laboratory. The campaign file may state another cost."""
        return Cost(lab_slots=1)

    @abstractmethod
    def form(self, candidate: C) -> LabForm:
        """Returns the question about the candidate."""

    @abstractmethod
    def read(self, candidate: C, answer: LabAnswer) -> Finding:
        """Returns the finding of an answer, which may leave quantities open: it then becomes evidence that no verdict
        follows from until the answer is complete. Raises UsageError for an answer that does not fit the form."""


def is_installed(distribution: str) -> bool:
    """Returns whether this environment has the distribution."""
    try:
        return bool(metadata.version(distribution))
    except metadata.PackageNotFoundError:
        return False


def error_finding(key: str, error: SimulatorError) -> Finding:
    """Returns the finding for an engine's error. Raises ValueError for an unknown outcome or reason."""
    outcome = Outcome(error.outcome)
    reason = Reason(error.reason)
    return Finding(key, outcome, reason=reason, detail=error.detail, diagnostics=dict(error.diagnostics))
