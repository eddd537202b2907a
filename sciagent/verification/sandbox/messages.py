"""The messages between driver, zygote and child: JSON, one message per line.

A finding from a child is checked: bounded size, finite numbers, registered properties in canonical units, known
reasons. The zygote checks it and sends the line on unchanged; the driver parses it with the same function.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from sciagent.domain.cost_and_budget import MAX_AMOUNT, MEASURED, RESOURCE_UNITS, Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import ArtifactFile, Finding, Measured, with_kinds_and_isomer
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.properties_and_levels import Level, properties
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.domain.safe_text_and_durations import MAX_TEXT, clean, one_line
from sciagent.domain.states_and_needs import MAX_PROGRESS_TEXT, ReportedProgress

MAX_LINE = 1 << 20  # bytes of a message
MAX_MEASURED = 256  # rows, and levels, of a finding
MAX_DIAGNOSTICS = 64 << 10  # characters as JSON
MAX_DEPTH = 8  # levels of nesting in the diagnostics
MAX_VERSIONS = 32
MAX_ARTIFACTS = 32
MAX_ARTIFACT_BYTES = 512 << 20  # of one file

E = TypeVar("E", bound=StrEnum)
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}", re.ASCII)
_MEDIA_TYPE = re.compile(r"[a-z0-9.+-]{1,64}/[a-z0-9.+-]{1,64}", re.ASCII)
_FIELDS = ("candidate_key", "outcome", "reason", "detail", "diagnostics", "levels", "measured", "artifacts")
_OPTIONAL = {"spent", "share", "versions"}  # left out where a verifier does not state them


@dataclass(frozen=True)
class Limits:
    """The limits of a job."""

    wall_seconds: float = 600
    """Wall time per candidate."""
    memory_mb: int = 4000
    """Memory of the whole process tree, MB."""
    threads: int = 1
    """Number of threads of the engine."""
    stall_seconds: float | None = None
    """Longest time without a report of progress; None: any."""

    def __post_init__(self) -> None:
        stall = math.inf if self.stall_seconds is None else self.stall_seconds
        if not (math.isfinite(self.wall_seconds) and min(self.wall_seconds, self.memory_mb, self.threads, stall) > 0):
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
    """The result of `chemistry.subjects.registry_and_candidate_dispatch.record_of`."""
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
        candidates = [vars(candidate) for candidate in self.candidates]
        return {**vars(self), "candidates": candidates, "limits": vars(self.limits)}

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Job:
        """Returns the job from its fields as a JSON object."""
        sent = tuple(Sent(**candidate) for candidate in data["candidates"])
        return cls(**{**data, "candidates": sent, "limits": Limits(**data["limits"])})


class WireError(ValueError):
    """A child sent an invalid or unexpected message."""


def dumps(message: Mapping[str, Any]) -> bytes:
    """Returns the message as one line. NumPy scalars and arrays become numbers and lists; the reader refuses NaN."""
    return json.dumps(message, separators=(",", ":"), default=_plain).encode() + b"\n"


def _plain(value: Any) -> Any:
    """Returns a NumPy scalar or array as numbers and lists. Raises TypeError for any other object."""
    tolist = getattr(value, "tolist", None)
    if callable(tolist):
        return tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def loads(line: bytes) -> Mapping[str, Any]:
    """Returns the message in a line. Raises WireError if it is too long, no JSON object in UTF-8, or has NaN."""
    if len(line) > MAX_LINE:
        raise WireError(f"a message of more than {MAX_LINE} bytes")
    try:
        # json would guess the encoding of bytes, but a line that is sent on inside another must be UTF-8
        message = json.loads(line.decode(), parse_constant=_refuse_constant)
    except WireError:
        raise
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {clean(repr(line[:80]))}") from error
    if not isinstance(message, dict):
        raise WireError(f"not a JSON object: {clean(repr(line[:80]))}")
    return message


def _refuse_constant(name: str) -> float:
    """Raises WireError for NaN and Infinity, which the JSON reader would take."""
    raise WireError(f"{name} is not a finite number")


def finding_to_wire(finding: Finding) -> Mapping[str, Any]:
    """Returns the finding as a JSON object. Each row of `measured` has the property, the index of its level in
    `levels`, value, unit, uncertainty, censoring, n and the number as typed."""
    levels: dict[Level, int] = {}
    measured = []
    for m in finding.measured:
        q = m.quantity
        level = levels.setdefault(m.level, len(levels))
        measured.append([m.property, level, q.value, q.unit, q.uncertainty, q.censoring, q.n, q.as_typed])
    message: dict[str, Any] = {
        "candidate_key": finding.candidate_key,
        "outcome": finding.outcome,
        "reason": finding.reason,
        "detail": clean(str(finding.detail)),
        "diagnostics": finding.diagnostics,
        "measured": measured,
        "levels": [list(astuple(level)) for level in levels],
        "artifacts": [asdict(a) for a in finding.artifacts],
    }
    if finding.spent is not None:
        message["spent"] = dict(finding.spent)
    if finding.share != 1.0:
        message["share"] = finding.share
    if finding.versions:
        message["versions"] = dict(finding.versions)
    return message


def finding_from_wire(data: object, key: str) -> Finding:
    """Returns the finding on candidate `key`. Raises WireError, with the fault, for an invalid finding."""
    if not isinstance(data, dict) or set(data) - _OPTIONAL != set(_FIELDS):
        raise WireError(f"finding has not exactly the fields {', '.join(_FIELDS)}")
    if data["candidate_key"] != key:
        raise WireError(f"a finding on {clean(str(data['candidate_key']), 80)}, not on candidate {key}")
    outcome = _known(Outcome, data["outcome"], "outcomes")
    reason = None if data["reason"] is None else _known(Reason, data["reason"], "reasons")
    if (outcome is Outcome.OK) == (reason is not None):
        raise WireError(f"outcome {outcome} with reason {reason}: every outcome but ok names its reason")
    share = data.get("share", 1.0)
    # `type`, since True and False are of the class int, too
    if type(share) not in (int, float) or not 0 < share <= MAX_AMOUNT:
        raise WireError(f"share = {clean(repr(share), 80)} is not above 0")
    measured = _measurements(data["levels"], data["measured"])
    artifacts = tuple(_artifact(artifact) for artifact in _list(data["artifacts"], "artifacts", MAX_ARTIFACTS))
    if len({artifact.name for artifact in artifacts}) < len(artifacts):
        raise WireError("two artifacts of the same name")
    if not isinstance(data["diagnostics"], dict):
        raise WireError("diagnostics are not an object")
    if len(json.dumps(data["diagnostics"])) > MAX_DIAGNOSTICS:
        raise WireError(f"diagnostics of more than {MAX_DIAGNOSTICS} characters")
    detail = _text(data["detail"], "detail")
    diagnostics = _diagnostics(data["diagnostics"], MAX_DEPTH)
    spent = _spent(data["spent"]) if "spent" in data else None
    # the kinds of uncertainties and the computed isomer are among the diagnostics
    measured = with_kinds_and_isomer(measured, diagnostics)
    versions = _versions(data.get("versions", {}))
    return Finding(
        candidate_key=key,
        outcome=outcome,
        measured=measured,
        reason=reason,
        detail=detail,
        diagnostics=diagnostics,
        artifacts=artifacts,
        spent=spent,
        share=float(share),
        versions=versions,
    )


def progress_from_wire(data: object) -> ReportedProgress:
    """Returns the progress that a child has reported. Raises WireError if it is invalid."""
    if not isinstance(data, dict) or set(data) != {"done", "of", "text"}:
        raise WireError("progress has not exactly the fields done, of, text")
    done = _number(data["done"], "progress")
    of = _number(data["of"], "progress")
    text = one_line(clean(_text(data["text"], "progress", MAX_PROGRESS_TEXT)), MAX_PROGRESS_TEXT)
    try:
        return ReportedProgress(done, of, text)
    except ValueError as error:
        raise WireError(str(error)) from error


def _measurements(levels: object, rows: object) -> tuple[Measured, ...]:
    """Returns the measured properties of a finding. Raises WireError if one is invalid or measured twice."""
    known = [_level(texts) for texts in _list(levels, "levels", MAX_MEASURED)]
    if len(set(known)) < len(known):
        raise WireError("a level stands there twice")
    measured = tuple(_measured(row, known) for row in _list(rows, "measured", MAX_MEASURED))
    if len({(m.property, m.level) for m in measured}) < len(measured):
        raise WireError("a property measured twice at the same level")
    return measured


def _level(texts: object) -> Level:
    """Returns the level from the texts of its fields. Raises WireError."""
    if not isinstance(texts, list) or len(texts) != 5:
        raise WireError("a level is not five texts")
    return Level(*(_text(text, "level", 200) for text in texts))


def _measured(row: object, levels: Sequence[Level]) -> Measured:
    """Returns the property in a row of `finding_to_wire`. Raises WireError for an invalid row."""
    if not isinstance(row, list) or len(row) != 8:
        raise WireError("a measured property is not a list of eight")
    registry = properties()
    name, level, value, unit, uncertainty, censoring, n, as_typed = row
    if not isinstance(name, str) or name not in registry:
        raise WireError(f"{clean(repr(name), 80)} is not a registered property")
    if unit != registry[name].unit:
        raise WireError(f"{name} in {clean(repr(unit), 80)}; its canonical unit is {registry[name].unit}")
    if type(level) is not int or not 0 <= level < len(levels):
        raise WireError(f"{name}: {clean(repr(level), 80)} is no place among {len(levels)} levels")
    if uncertainty is not None and _number(uncertainty, name) < 0:
        raise WireError(f"{name}: uncertainty {uncertainty!r} is not a non-negative number")
    if type(n) is not int or not 1 <= n < 1 << 31:
        raise WireError(f"{name}: n = {clean(repr(n), 80)} is not an integer of at least 1")
    typed = None if as_typed is None else _text(as_typed, "as_typed", 64)
    kind = _known(Censoring, censoring, "kinds of censoring")
    quantity = Quantity(
        value=_number(value, name), unit=unit, uncertainty=uncertainty, censoring=kind, n=n, as_typed=typed
    )
    return Measured(name, levels[level], quantity)


def _spent(spent: object) -> Cost:
    """Returns the cost counted by the verifier. Raises WireError for resources that the host measures."""
    if not isinstance(spent, dict) or not set(spent) <= set(RESOURCE_UNITS) - MEASURED:
        raise WireError(f"spent names other resources than {', '.join(sorted(set(RESOURCE_UNITS) - MEASURED))}")
    for resource, amount in spent.items():
        if not 0 <= _number(amount, resource) <= MAX_AMOUNT:
            raise WireError(f"spent: {resource} = {amount!r} is not between 0 and {MAX_AMOUNT:g}")
    return Cost(spent)


def _versions(versions: object) -> Mapping[str, str]:
    if not isinstance(versions, dict) or len(versions) > MAX_VERSIONS:
        raise WireError(f"versions are not an object of at most {MAX_VERSIONS}")
    return {_text(name, "versions", 100): _text(version, "versions", 200) for name, version in versions.items()}


def _artifact(data: object) -> ArtifactFile:
    if not isinstance(data, dict) or set(data) != {"name", "path", "media_type"}:
        raise WireError("artifact has not exactly the fields name, path, media_type")
    for name, value in data.items():
        _text(value, name)
    name = data["name"]
    media_type = data["media_type"]
    if not _FILE_NAME.fullmatch(name) or not _MEDIA_TYPE.fullmatch(media_type):
        raise WireError(f"an artifact named {clean(repr(name), 200)} of type {clean(repr(media_type), 200)}")
    return ArtifactFile(**data)


def _diagnostics(value: Any, depth: int) -> Any:
    """Returns the same JSON value with cleaned texts. Raises WireError if it is nested too deeply."""
    if depth == 0:
        raise WireError(f"diagnostics nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        return {clean(k, 200): _diagnostics(v, depth - 1) for k, v in value.items()}
    if isinstance(value, list):
        return [_diagnostics(v, depth - 1) for v in value]
    if isinstance(value, str):
        return clean(value, MAX_DIAGNOSTICS)
    if value is None or isinstance(value, bool):
        return value
    return _number(value, "diagnostics")


def _list(value: object, what: str, limit: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > limit:
        raise WireError(f"{what} is not a list of at most {limit}")
    return value


def _number(value: object, what: str) -> float | int:
    # no comparison with NaN holds, so `not ... <=` refuses it
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 1e300:
        raise WireError(f"{what}: {clean(repr(value)[:80])} is not a finite number")
    return value


def _text(value: object, what: str, limit: int = MAX_TEXT) -> str:
    if not isinstance(value, str) or len(value) > limit:
        raise WireError(f"{what} is not a text of at most {limit} characters")
    return clean(value)


def _known(kind: type[E], value: object, what: str) -> E:
    try:
        return kind(str(value))
    except ValueError:
        raise WireError(f"{clean(repr(value), 80)} is not among the known {what}") from None
