"""Differences between two canonical specs, and the keys that may change in a running campaign."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

AMENDABLE = ("budget", "goal.count", "workers", "description", "ladder.limits", "ladder.resources")
_ABSENT = object()
_NAMED_BY = ("rung", "property")
_LONGEST = 120


def without_amendable(canonical: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the canonical form without the keys in AMENDABLE."""

    def kept(part: Mapping[str, Any], prefix: str = "") -> Mapping[str, Any]:
        return {key: value for key, value in part.items() if f"{prefix}{key}" not in AMENDABLE}

    ladder = [kept(rung, "ladder.") for rung in canonical["ladder"]]
    return {**kept(canonical), "goal": kept(canonical["goal"], "goal."), "ladder": ladder}


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Returns one line `path: old -> new` per change. Rungs and objectives are matched by name; a change of their order
    is a line of its own."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return _of_parts(old, new, lambda key: f"{path}.{key}" if path else key)
    before, after = _by_name(old), _by_name(new)
    if before is None or after is None:
        return [] if old == new and type(old) is type(new) else [f"{path}: {_show(old)} -> {_show(new)}"]
    lines = _of_parts(before, after, lambda name: f"{path}[{name}]")
    if [name for name in before if name in after] != [name for name in after if name in before]:
        lines.append(f"{path}, order: {', '.join(before)} -> {', '.join(after)}")
    return lines


def _of_parts(old: Mapping[str, Any], new: Mapping[str, Any], path_of: Callable[[str], str]) -> list[str]:
    parts = ((key, old.get(key, _ABSENT), new.get(key, _ABSENT)) for key in dict.fromkeys([*old, *new]))
    return [line for key, before, after in parts for line in differences(before, after, path_of(key))]


def _by_name(value: Any) -> Mapping[str, Any] | None:
    """Converts a list of mappings with distinct names to a mapping by name; returns None for anything else."""
    for key in _NAMED_BY:
        if isinstance(value, list) and value and all(isinstance(item, Mapping) and key in item for item in value):
            named = {str(item[key]): item for item in value}
            return named if len(named) == len(value) else None
    return None


def _show(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
