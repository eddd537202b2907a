"""Differences between two canonical specs, and the changes that a running campaign accepts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

AMENDABLE = ("budget", "goal.count", "workers", "description", "ladder.limits", "ladder.resources")
ABSENT = object()
_NAMED_BY = ("rung", "property")
_LONGEST = 120


def without_amendable(canonical: Mapping[str, Any]) -> Mapping[str, Any]:
    """The canonical form without everything that can be amended."""
    rest = dict(canonical)
    of_rungs = [path.removeprefix("ladder.") for path in AMENDABLE if path.startswith("ladder.")]
    rest["ladder"] = [{k: v for k, v in rung.items() if k not in of_rungs} for rung in canonical.get("ladder", ())]
    for path in AMENDABLE:
        head, _, tail = path.partition(".")
        if tail and isinstance(rest.get(head), Mapping):
            rest[head] = {key: value for key, value in rest[head].items() if key != tail}
        elif not tail:
            rest.pop(head, None)
    return rest


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """One line `path: old -> new` per change. Rungs and objectives are matched by name; their order gets its own
    line."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        prefix = f"{path}." if path else ""
        return [line for key, a, b in _pairs(old, new) for line in differences(a, b, f"{prefix}{key}")]
    before, after = _by_name(old), _by_name(new)
    if before is not None and after is not None:
        lines = [line for name, a, b in _pairs(before, after) for line in differences(a, b, f"{path}[{name}]")]
        if [name for name in before if name in after] != [name for name in after if name in before]:
            lines.append(f"{path}, order: {', '.join(before)} -> {', '.join(after)}")
        return lines
    return [] if old == new and type(old) is type(new) else [f"{path}: {_show(old)} -> {_show(new)}"]


def _pairs(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """(key, old value, new value) for the keys of both, ABSENT for a missing value."""
    keys = [*old, *(key for key in new if key not in old)]
    return [(key, old.get(key, ABSENT), new.get(key, ABSENT)) for key in keys]


def _by_name(value: Any) -> Mapping[str, Any] | None:
    """A list of mappings with distinct names, as a mapping by name; None for anything else."""
    if not isinstance(value, list) or not value:
        return None
    for key in _NAMED_BY:
        if all(isinstance(item, Mapping) and key in item for item in value):
            named = {str(item[key]): item for item in value}
            return named if len(named) == len(value) else None
    return None


def _show(value: Any) -> str:
    if value is ABSENT:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
