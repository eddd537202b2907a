"""A finding on its way from child to zygote to driver.

Whatever a child says is data: bounded, finite, of registered properties in their canonical units, with known reasons.
The zygote checks it and hands the line on as it came; the driver, who trusts the zygote, makes the finding of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sciagent.domain.cost import MAX_AMOUNT, MEASURED, RESOURCE_UNITS, Cost
from sciagent.domain.evidence import ArtifactFile, Finding, Measured
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.domain.properties import Level, properties
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.domain.text import MAX_TEXT, clean
from sciagent.verification.sandbox.wire import WireError

MAX_MEASURED = 256
MAX_DIAGNOSTICS = 64 << 10  # characters as JSON
MAX_DEPTH = 8
MAX_ARTIFACTS = 32
MAX_ARTIFACT_BYTES = 512 << 20

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}", re.ASCII)
_MEDIA_TYPE = re.compile(r"[a-z0-9.+-]{1,64}/[a-z0-9.+-]{1,64}", re.ASCII)
_FIELDS = ("candidate_key", "outcome", "reason", "detail", "diagnostics", "levels", "measured", "artifacts")
# the fields that may be left out: most verifiers count nothing themselves, and take single candidates
_SPENT, _SHARE = "spent", "share"
_OUTCOMES = {outcome.value: outcome for outcome in Outcome}
_REASONS = {reason.value: reason for reason in Reason}
_CENSORINGS = {censoring.value: censoring for censoring in Censoring}


def finding_to_wire(finding: Finding) -> Mapping[str, Any]:
    """measured: property, place of its level in `levels`, value, unit, uncertainty, censoring, n, as typed."""
    levels: dict[Level, int] = {}
    return {
        "candidate_key": finding.candidate_key,
        "outcome": finding.outcome,
        "reason": finding.reason,
        "detail": clean(str(finding.detail)),
        "diagnostics": finding.diagnostics,
        "measured": [
            [
                m.property,
                levels.setdefault(m.level, len(levels)),
                q.value,
                q.unit,
                q.uncertainty,
                q.censoring,
                q.n,
                q.as_typed,
            ]
            for m in finding.measured
            for q in (m.quantity,)
        ],
        "levels": [[level.method, level.basis, level.phase, level.geometry] for level in levels],
        "artifacts": [asdict(a) for a in finding.artifacts],
        **({} if finding.spent is None else {_SPENT: dict(finding.spent)}),
        **({} if finding.share == 1.0 else {_SHARE: finding.share}),
    }


def finding_from_wire(data: Mapping[str, Any]) -> Finding:
    """The finding that `check_finding` has let pass."""
    reason, levels = data["reason"], [Level(*map(clean, level)) for level in data["levels"]]
    return Finding(
        data["candidate_key"],
        _OUTCOMES[data["outcome"]],
        tuple(
            Measured(
                name,
                levels[level],
                Quantity(value, unit, spread, _CENSORINGS[censoring], n, None if typed is None else clean(typed)),
            )
            for name, level, value, unit, spread, censoring, n, typed in data["measured"]
        ),
        None if reason is None else _REASONS[reason],
        clean(data["detail"]),
        _cleaned(data["diagnostics"]),
        tuple(ArtifactFile(**artifact) for artifact in data["artifacts"]),
        Cost(data[_SPENT]) if _SPENT in data else None,
        float(data.get(_SHARE, 1.0)),
    )


def check_finding(data: object, key: str) -> None:
    """Raises WireError, with what is wrong, for what is not a finding on candidate `key`."""
    if not isinstance(data, dict) or set(data) - {_SPENT, _SHARE} != set(_FIELDS):
        raise WireError(f"finding has not exactly the fields {', '.join(_FIELDS)}")
    if data["candidate_key"] != key:
        raise WireError(f"a finding on {clean(str(data['candidate_key']), 80)}, not on candidate {key}")
    outcome, reason = data["outcome"], data["reason"]
    _known(_OUTCOMES, outcome, "outcomes")
    if reason is not None:
        _known(_REASONS, reason, "reasons")
    if (_OUTCOMES[outcome] is Outcome.OK) == (reason is not None):
        raise WireError(f"outcome {outcome} with reason {reason}: every outcome but ok names its reason")
    _text(data["detail"], "detail")
    if not isinstance(data["diagnostics"], dict):
        raise WireError("diagnostics are not an object")
    _check_diagnostics(data["diagnostics"], MAX_DEPTH)
    if len(json.dumps(data["diagnostics"])) > MAX_DIAGNOSTICS:
        raise WireError(f"diagnostics of more than {MAX_DIAGNOSTICS} characters")
    _check_measured(_list(data["measured"], "measured", MAX_MEASURED), _list(data["levels"], "levels", MAX_MEASURED))
    names = [_artifact_name(artifact) for artifact in _list(data["artifacts"], "artifacts", MAX_ARTIFACTS)]
    if len(set(names)) < len(names):
        raise WireError("two artifacts of one name")
    _check_spent(data.get(_SPENT, {}))
    share = data.get(_SHARE, 1.0)
    if type(share) not in (int, float) or not 0 < share <= MAX_AMOUNT:
        raise WireError(f"share = {clean(repr(share), 80)} is not above 0")


def _check_measured(measured: list[Any], levels: list[Any]) -> None:
    _check_levels(levels)
    for row in measured:
        _check_row(row, len(levels))
    if len({(row[0], row[1]) for row in measured}) < len(measured):
        raise WireError("a property measured twice at one level")


def _check_row(row: object, levels: int) -> None:
    """One measured property. levels: how many the finding lists."""
    if not isinstance(row, list) or len(row) != 8:
        raise WireError("a measured property is not a list of eight")
    registry = properties()
    name, level, value, unit, uncertainty, censoring, n, as_typed = row
    if not isinstance(name, str) or name not in registry:
        raise WireError(f"{clean(repr(name), 80)} is not a registered property")
    if unit != registry[name].unit:
        raise WireError(f"{name} in {clean(repr(unit), 80)}; its canonical unit is {registry[name].unit}")
    if type(level) is not int or not 0 <= level < levels:
        raise WireError(f"{name}: {clean(repr(level), 80)} is no place among {levels} levels")
    _number(value, name)
    if uncertainty is not None and _number(uncertainty, name) < 0:
        raise WireError(f"{name}: uncertainty {uncertainty!r} is not a non-negative number")
    _known(_CENSORINGS, censoring, "kinds of censoring")
    if type(n) is not int or not 1 <= n < 1 << 31:
        raise WireError(f"{name}: n = {clean(repr(n), 80)} is not an integer of at least 1")
    if as_typed is not None:
        _text(as_typed, "as_typed", 64)


def _check_levels(levels: list[Any]) -> None:
    for texts in levels:
        if not isinstance(texts, list) or len(texts) != 4:
            raise WireError("a level is not four texts")
        for text in texts:
            _text(text, "level", 200)
    if len({tuple(map(clean, texts)) for texts in levels}) < len(levels):
        raise WireError("one level said twice")


def _check_spent(spent: object) -> None:
    """What the host measures itself, a verifier has no word in."""
    if not isinstance(spent, dict) or not set(spent) <= set(RESOURCE_UNITS) - MEASURED:
        raise WireError(f"spent names other resources than {', '.join(sorted(set(RESOURCE_UNITS) - MEASURED))}")
    for resource, amount in spent.items():
        if not 0 <= _number(amount, resource) <= MAX_AMOUNT:
            raise WireError(f"spent: {resource} = {amount!r} is not between 0 and {MAX_AMOUNT:g}")


def _artifact_name(data: object) -> str:
    if not isinstance(data, dict) or set(data) != {"name", "path", "media_type"}:
        raise WireError("artifact has not exactly the fields name, path, media_type")
    for name, value in data.items():
        _text(value, name)
    name, media_type = data["name"], data["media_type"]
    if not _FILE_NAME.fullmatch(name) or not _MEDIA_TYPE.fullmatch(media_type):
        raise WireError(f"an artifact named {clean(repr(name), 200)} of type {clean(repr(media_type), 200)}")
    return str(name)


def _check_diagnostics(value: object, depth: int) -> None:
    if depth == 0:
        raise WireError(f"diagnostics nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_diagnostics(part, depth - 1)
    elif value is not None and not isinstance(value, bool | str):
        _number(value, "diagnostics")


def _cleaned(value: Any) -> Any:
    """The same JSON value with clean texts."""
    if isinstance(value, dict):
        return {clean(k, 200): _cleaned(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_cleaned(v) for v in value]
    return clean(value, MAX_DIAGNOSTICS) if isinstance(value, str) else value


def _list(value: object, what: str, limit: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > limit:
        raise WireError(f"{what} is not a list of at most {limit}")
    return value


def _number(value: object, what: str) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 1e300:
        raise WireError(f"{what}: {clean(repr(value)[:80])} is not a finite number")
    return value


def _text(value: object, what: str, limit: int = MAX_TEXT) -> None:
    if not isinstance(value, str) or len(value) > limit:
        raise WireError(f"{what} is not a text of at most {limit} characters")


def _known(kinds: Mapping[str, Any], value: object, what: str) -> None:
    if not isinstance(value, str) or value not in kinds:
        raise WireError(f"{clean(repr(value), 80)} is not among the known {what}")
