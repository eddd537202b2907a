"""Evidence: its key, the finding of a verifier on a candidate, and the pooling of replicates.

The host adds the cost to a finding. No other module pools replicates.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Censoring, ComputedIsomer, Quantity, isomer_of_parts

NO_INPUTS = ""
"""The hash of inputs of a result that has no inputs."""
UNCERTAINTY_KIND = "uncertainty_kind"
"""Key of the diagnostics under which a verifier states the kind of each property's uncertainty."""
ISOMER = "isomer"
"""Key of the diagnostics under which a verifier states the stereoisomer that it computed."""
MOLECULE = "molecule"
CLASS = "class"
SIMULATION = "simulation"
RELAXATION = "relaxation"
STATED_KINDS = frozenset({MOLECULE, CLASS, SIMULATION, RELAXATION})
"""Kinds of uncertainties that a verifier states: the spread over conformers, seeds or replicates of this molecule
(MOLECULE), the usual spread of molecules of its class (CLASS), the scatter of replicas and blocks of a simulation
(SIMULATION), and how far a relaxed cell may be from its minimum (RELAXATION)."""
MEAN = "mean"
WEIGHTED_MEAN = "weighted_mean"
"""Kinds of uncertainties of a mean of several measurements, none of which states a kind: its standard error by their
scatter (MEAN); where each measurement has a standard uncertainty, the mean is weighted by the inverse variances, and
its uncertainty is the larger of the propagated one and the standard error by the scatter (WEIGHTED_MEAN)."""
BETWEEN_LIMITS = "between_limits"
"""The kind of the uncertainty of the middle between limits on both sides."""
_ENCODE = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical_json(value: Any) -> str:
    """Returns the canonical text of a JSON value: sorted keys, no spaces. Raises ValueError for NaN or infinity."""
    return _ENCODE(value)


def content_hash(value: Any) -> str:
    """Returns the SHA-256 of the canonical text of a JSON value."""
    return text_hash(canonical_json(value))


def seed_of(*parts: Any) -> int:
    """Returns a seed of 31 bits that depends on the parts only."""
    return int(content_hash(parts)[:8], 16) & 0x7FFFFFFF


def text_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def file_of(source: str) -> str:
    """Returns the source of an imported value without the hash of the file."""
    file, _, _ = source.partition(" sha256")
    return file


class Computation(NamedTuple):
    """A verifier with its version and settings. Evidence of equal computations is interchangeable."""

    verifier: str
    version: str
    settings_hash: str


@dataclass(frozen=True)
class EvidenceKey:
    """The identity of a result; equal keys mean the same result.

    subject: a candidate key, or `proposal:<id>` for a result that depends on the proposal. settings_hash: hash of the
    settings with defaults filled in, without limits, gates and costs."""

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
        """A 31-bit seed for random numbers in the verification; it is the same in every campaign."""
        return int(self.hash[:8], 16) & 0x7FFFFFFF


@dataclass(frozen=True)
class Measured:
    """A measured value of a property at a level, in the property's canonical unit."""

    property: str
    level: Level
    quantity: Quantity


def with_kinds_and_isomer(values: Iterable[Measured], diagnostics: Mapping[str, object]) -> tuple[Measured, ...]:
    """Returns the values with the kinds of their uncertainties and the stereoisomer that was computed. A value without
    uncertainty gets no kind.

    diagnostics: those of the evidence, with the entries UNCERTAINTY_KIND, {property: kind}, and ISOMER, the fields of a
    `ComputedIsomer`. An entry of another form is ignored."""
    stated = diagnostics.get(UNCERTAINTY_KIND)
    kinds = stated if isinstance(stated, Mapping) else {}
    isomer = isomer_from_diagnostics(diagnostics.get(ISOMER))
    completed: list[Measured] = []
    for value in values:
        kind = kinds.get(value.property)
        if value.quantity.uncertainty and kind in STATED_KINDS:
            value = replace(value, quantity=replace(value.quantity, uncertainty_kind=kind))
        if isomer is not None:
            value = replace(value, quantity=replace(value.quantity, isomer=isomer))
        completed.append(value)
    return tuple(completed)


def isomer_to_diagnostics(isomer: ComputedIsomer | None) -> dict[str, Mapping[str, object]]:
    """Returns the entry of the diagnostics that states the isomer; an empty mapping without one."""
    return {} if isomer is None else {ISOMER: asdict(isomer)}


def isomer_from_diagnostics(stated: object) -> ComputedIsomer | None:
    """Returns the isomer of the diagnostics' entry ISOMER; None for anything of another form."""
    match stated:
        case {
            "smiles": str(smiles),
            "label": str(label),
            "possible": int(possible),
            "different": int(different),
            "is_upper_bound": bool(is_upper_bound),
        }:
            return ComputedIsomer(smiles, label, possible, different, is_upper_bound)
    return None


class HasMeasured(Protocol):
    """An answer that holds measured values."""

    @property
    def measured(self) -> tuple[Measured, ...]: ...


Answer = TypeVar("Answer", bound=HasMeasured)


def at_highest_rung(answers: Iterable[Answer]) -> dict[str, tuple[Answer, Measured]]:
    """Returns {property: (answer, value)}, with the value at the highest rung that measured the property.

    answers: answers on one candidate, in ladder order. The last of several answers of a rung counts."""
    highest = {}
    for answer in answers:
        for measured in answer.measured:
            highest[measured.property] = (answer, measured)
    return highest


@dataclass(frozen=True)
class ArtifactFile:
    """A file that a verification leaves in its scratch folder; the host stores it under its SHA-256."""

    name: str
    path: str
    media_type: str = "application/octet-stream"


@dataclass(frozen=True)
class Finding:
    """The result of a verifier on a candidate. The host adds cost, provenance and attempt.

    spent: amounts that the verifier has counted and the host cannot measure, such as tokens of a language model. None
    means that the verifier counts nothing; its declared cost is booked.
    Raises ValueError when an outcome other than ok has no reason, or ok has one, and for a quantity that is both
    measured and not obtained."""

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
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of what only the verification itself knows, such as programs of another environment, by name. They join
    the provenance of the evidence."""
    unobtained: Mapping[str, Reason] = field(default_factory=dict)
    """Reasons by property for which people could not obtain a quantity, although others have values."""

    def __post_init__(self) -> None:
        if (self.outcome is Outcome.OK) == (self.reason is not None):
            raise ValueError(f"outcome {self.outcome} with reason {self.reason}: every outcome but ok names its reason")
        if self.unobtained and any(value.property in self.unobtained for value in self.measured):
            raise ValueError(f"measured and not obtained: {', '.join(sorted(self.unobtained))}")


def pooled_quantity(quantities: Sequence[Quantity]) -> Quantity | None:
    """Returns one quantity from replicates in the same unit; None if bounds contradict each other.

    Exact values are pooled (see `pooled`). A bound beside exact values is left out unless their mean contradicts it;
    then the mean with a value at the bound is a bound itself, since what was measured lies beyond. Without exact
    values, bounds on one side give the tightest bound, and bounds on both sides give their middle, with the standard
    uncertainty of a uniform distribution between them (BETWEEN_LIMITS). Raises ValueError without quantities."""
    if len(quantities) == 1:
        return quantities[0]
    exact = [q for q in quantities if q.censoring is Censoring.NONE]
    below = [q for q in quantities if q.censoring is Censoring.BELOW]
    above = [q for q in quantities if q.censoring is Censoring.ABOVE]
    if not exact:
        return _pooled_bounds(below, above, n=sum(q.n for q in quantities))
    mean = _pooled_exact(exact)
    contradicted_below = [q for q in below if q.value < mean.value]
    contradicted_above = [q for q in above if q.value > mean.value]
    if contradicted_below and contradicted_above:
        return None
    if not (contradicted_below or contradicted_above):
        return mean
    side = Censoring.BELOW if contradicted_below else Censoring.ABOVE
    bound = _pooled_exact(exact + contradicted_below + contradicted_above)
    return replace(bound, censoring=side, uncertainty=None, uncertainty_kind=None)


def _pooled_exact(used: Sequence[Quantity]) -> Quantity:
    """Returns the mean of values, also of bounds that count as values."""
    mean, error = pooled([q.value for q in used], [q.uncertainty for q in used])
    n = sum(q.n for q in used)
    kind = _pooled_kind(used, error)
    if len(used) == 1:
        return used[0]
    return Quantity(mean, used[0].unit, error, n=n, uncertainty_kind=kind, isomer=isomer_of_parts(used))


def _pooled_kind(used: Sequence[Quantity], error: float | None) -> str | None:
    """Returns the kind of a pooled uncertainty.

    Where no replicate states a kind, as with the values of people and of files, it is MEAN or WEIGHTED_MEAN. Else it is
    MOLECULE where the scatter of the replicates exceeds the propagated uncertainty, and the replicates' kind where it
    does not; None if they have different ones. error: the pooled uncertainty."""
    kinds = {q.uncertainty_kind for q in used}
    stated = [q.uncertainty for q in used if q.uncertainty]
    is_weighted = len(stated) == len(used)
    if kinds == {None} and len(used) > 1:
        return WEIGHTED_MEAN if is_weighted else MEAN
    propagated = 0.0
    if is_weighted:
        propagated = 1 / math.sqrt(sum(1 / u**2 for u in stated))
    if error is not None and error > propagated * (1 + 1e-9):  # by more than rounding
        return MOLECULE
    return kinds.pop() if len(kinds) == 1 else None


def _pooled_bounds(below: Sequence[Quantity], above: Sequence[Quantity], n: int) -> Quantity | None:
    """Returns the tightest bound; with bounds on both sides, the middle and the spread of a uniform distribution, and
    None where nothing lies between them."""
    if not above:
        return replace(min(below, key=lambda q: q.value), n=n)
    if not below:
        return replace(max(above, key=lambda q: q.value), n=n)
    low = max(q.value for q in above)
    high = min(q.value for q in below)
    if low > high:
        return None
    uniform_spread = (high - low) / math.sqrt(12)
    return Quantity((low + high) / 2, below[0].unit, uniform_spread, n=n, uncertainty_kind=BETWEEN_LIMITS)


def pooled_measured(replicates: Iterable[Sequence[Measured]]) -> tuple[Measured, ...]:
    """Returns one pooled value per property and level; none where bounds contradict each other. replicates: measured
    values of each replicate."""
    groups: dict[tuple[str, Level], list[Measured]] = {}
    for values in replicates:
        for measured in values:
            groups.setdefault((measured.property, measured.level), []).append(measured)
    pooled_values: list[Measured] = []
    for group in groups.values():
        quantity = pooled_quantity([measured.quantity for measured in group])
        if quantity is not None:
            pooled_values.append(replace(group[0], quantity=quantity))
    return tuple(pooled_values)


def pooled(values: Sequence[float], errors: Sequence[float | None]) -> tuple[float, float | None]:
    """Returns the mean and its standard uncertainty (None if unknown), in the unit of the values.

    If every value has a standard uncertainty, the mean is weighted by the inverse variances, and its uncertainty is the
    larger of the propagated one and the one from the scatter (Birge, Phys. Rev. 40, 207 (1932)). Otherwise the result
    is the plain mean with its standard error. Raises ValueError for no values."""
    n = len(values)
    if not n:
        raise ValueError("nothing to pool")
    if n == 1:
        return values[0], errors[0]
    known_errors = [error for error in errors if error]  # an error of 0 gives no weight
    is_weighted = len(known_errors) == n
    weights = [1 / error**2 for error in known_errors] if is_weighted else [1.0] * n
    total_weight = sum(weights)
    mean = sum(w * v for w, v in zip(weights, values, strict=True)) / total_weight
    squared_deviations = sum(w * (v - mean) ** 2 for w, v in zip(weights, values, strict=True))
    scatter = math.sqrt(squared_deviations / ((n - 1) * total_weight))
    if not is_weighted:
        return mean, scatter
    propagated = 1 / math.sqrt(total_weight)
    return mean, max(scatter, propagated)
