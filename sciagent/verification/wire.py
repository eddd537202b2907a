"""What goes over the pipes between driver, zygote and child: JSON, one message a line.

Whatever a child says is data: bounded, finite, of registered properties in their canonical units, with known reasons.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from typing import Any, TypeVar

from sciagent.domain.evidence import ArtifactFile, Finding, Measured
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.domain.properties import Level, properties
from sciagent.domain.quantities import Censoring, Quantity

MAX_LINE = 1 << 20
MAX_TEXT = 4000
MAX_MEASURED = 256
MAX_DIAGNOSTICS = 64 << 10  # characters as JSON
MAX_DEPTH = 8
MAX_ARTIFACTS = 32
MAX_ARTIFACT_BYTES = 512 << 20

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}", re.ASCII)
_MEDIA_TYPE = re.compile(r"[a-z0-9.+-]{1,64}/[a-z0-9.+-]{1,64}", re.ASCII)
_NOT_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

T = TypeVar("T")


class WireError(ValueError):
    """What a child said is not a message it may send."""


def dumps(message: dict[str, Any]) -> bytes:
    """One line. NaN passes, for the reader to refuse; numpy scalars and arrays become numbers and lists."""
    return json.dumps(message, separators=(",", ":"), default=_plain).encode() + b"\n"


def _plain(value: Any) -> Any:
    tolist = getattr(value, "tolist", None)
    if callable(tolist):
        return tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def loads(line: bytes) -> dict[str, Any]:
    """Raises WireError for what is too long, not JSON, not an object, or holds NaN or infinity."""
    if len(line) > MAX_LINE:
        raise WireError(f"a message of more than {MAX_LINE} bytes")
    try:
        message = json.loads(line, parse_constant=_refuse_constant)
    except WireError:
        raise
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {clean(repr(line[:80]))}") from error
    if not isinstance(message, dict):
        raise WireError(f"not a JSON object: {clean(repr(line[:80]))}")
    return message


def _refuse_constant(name: str) -> float:
    raise WireError(f"{name} is not a finite number")


def clean(text: str, limit: int = MAX_TEXT) -> str:
    """Without control characters and lone surrogates, which no database takes, and cut to `limit`."""
    text = _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def finding_to_wire(finding: Finding) -> dict[str, Any]:
    return {
        "candidate_key": finding.candidate_key,
        "outcome": finding.outcome,
        "reason": finding.reason,
        "detail": clean(str(finding.detail)),
        "diagnostics": finding.diagnostics,
        "measured": [
            {"property": m.property, "level": dict(vars(m.level)), "quantity": dict(vars(m.quantity))}
            for m in finding.measured
        ],
        "artifacts": [asdict(a) for a in finding.artifacts],
    }


def finding_from_wire(data: object, key: str) -> Finding:
    """The finding on candidate `key`. Raises WireError, with what is wrong with it."""
    fields = _fields(
        data, "finding", "candidate_key", "outcome", "reason", "detail", "diagnostics", "measured", "artifacts"
    )
    if fields["candidate_key"] != key:
        raise WireError(f"a finding on {clean(str(fields['candidate_key']), 80)}, not on candidate {key}")
    diagnostics = _diagnostics(fields["diagnostics"], MAX_DEPTH)
    if not isinstance(diagnostics, dict):
        raise WireError("diagnostics are not an object")
    if len(json.dumps(diagnostics)) > MAX_DIAGNOSTICS:
        raise WireError(f"diagnostics of more than {MAX_DIAGNOSTICS} characters")
    measured = tuple(map(_measured, _list(fields["measured"], "measured", MAX_MEASURED)))
    if len({(m.property, m.level) for m in measured}) < len(measured):
        raise WireError("a property measured twice at one level")
    artifacts = tuple(map(_artifact, _list(fields["artifacts"], "artifacts", MAX_ARTIFACTS)))
    if len({a.name for a in artifacts}) < len(artifacts):
        raise WireError("two artifacts of one name")
    reason = fields["reason"]
    return _make(
        lambda: Finding(
            key,
            _enum(Outcome, fields["outcome"]),
            measured=measured,
            reason=None if reason is None else _enum(Reason, reason),
            detail=_text(fields["detail"], "detail"),
            diagnostics=diagnostics,
            artifacts=artifacts,
        )
    )


def _measured(data: object) -> Measured:
    fields = _fields(data, "measured", "property", "level", "quantity")
    name, registry = fields["property"], properties()
    if not isinstance(name, str) or name not in registry:
        raise WireError(f"{clean(repr(name), 80)} is not a registered property")
    level = _fields(fields["level"], "level", "method", "basis", "phase", "geometry")
    q = _fields(fields["quantity"], "quantity", "value", "unit", "uncertainty", "censoring", "n", "as_typed")
    if q["unit"] != registry[name].unit:
        raise WireError(f"{name} in {clean(repr(q['unit']), 80)}; its canonical unit is {registry[name].unit}")
    if type(q["n"]) is not int:
        raise WireError(f"{name}: n is not an integer")
    quantity = _make(
        lambda: Quantity(
            _number(q["value"], name),
            registry[name].unit,
            uncertainty=None if q["uncertainty"] is None else _number(q["uncertainty"], name),
            censoring=_enum(Censoring, q["censoring"]),
            n=q["n"],
            as_typed=None if q["as_typed"] is None else _text(q["as_typed"], "as_typed", 64),
        )
    )
    try:
        return Measured(name, _level(level["method"], level["basis"], level["phase"], level["geometry"]), quantity)
    except TypeError as error:  # cannot be hashed, so it is no text
        raise WireError("level is not four texts") from error


@lru_cache(maxsize=4096)
def _level(method: object, basis: object, phase: object, geometry: object) -> Level:
    """Few are said, and often."""
    return Level(
        _text(method, "method", 200), _text(basis, "basis", 200), _text(phase, "phase", 200),
        _text(geometry, "geometry", 200),
    )  # fmt: skip


def _artifact(data: object) -> ArtifactFile:
    fields = _fields(data, "artifact", "name", "path", "media_type")
    name = _text(fields["name"], "name")
    media_type = _text(fields["media_type"], "media_type")
    if not _FILE_NAME.fullmatch(name) or not _MEDIA_TYPE.fullmatch(media_type):
        raise WireError(f"an artifact named {name!r} of type {media_type!r}")
    return ArtifactFile(name, _text(fields["path"], "path"), media_type)


def _diagnostics(value: object, depth: int) -> Any:
    """The same JSON value with clean texts. Raises WireError when nested too deep or not finite."""
    if depth == 0:
        raise WireError(f"diagnostics nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        return {clean(k, 200): _diagnostics(v, depth - 1) for k, v in value.items()}
    if isinstance(value, list):
        return [_diagnostics(v, depth - 1) for v in value]
    if isinstance(value, str):
        return clean(value, MAX_DIAGNOSTICS)
    return value if value is None or isinstance(value, bool) else _number(value, "diagnostics")


def _fields(data: object, what: str, *names: str) -> dict[str, Any]:
    if not isinstance(data, dict) or len(data) != len(names) or not all(map(data.__contains__, names)):
        raise WireError(f"{what} has not exactly the fields {', '.join(names)}")
    return data


def _list(value: object, what: str, limit: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > limit:
        raise WireError(f"{what} is not a list of at most {limit}")
    return value


def _number(value: object, what: str) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300 or value != value:
        raise WireError(f"{what}: {clean(repr(value)[:80])} is not a finite number")
    return value


def _text(value: object, what: str, limit: int = MAX_TEXT) -> str:
    if not isinstance(value, str) or len(value) > limit:
        raise WireError(f"{what} is not a text of at most {limit} characters")
    return clean(value, limit)


def _enum(kind: Callable[[Any], T], value: object) -> T:
    try:
        return kind(value)
    except ValueError as error:
        raise WireError(f"{clean(repr(value), 80)} is not among the known ones of {kind.__name__}") from error


def _make(build: Callable[[], T]) -> T:
    try:
        return build()
    except WireError:
        raise
    except ValueError as error:
        raise WireError(str(error)) from error
