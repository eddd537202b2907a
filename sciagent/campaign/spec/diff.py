"""What changed between two canonical specs, and which changes a running campaign may take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

AMENDABLE = ("budget", "goal.count", "workers", "description", "ladder.limits", "ladder.resources")
ABSENT = object()
_NAMED_BY = ("rung", "property")
_LONGEST = 120


def without_amendable(canonical: Mapping[str, Any]) -> dict[str, Any]:
    """The canonical form less everything that may be amended."""
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
    """`path: old -> new`, one a line; rungs and objectives go by their name, their order is a line of its own."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = [*old, *(key for key in new if key not in old)]
        return [
            line
            for key in keys
            for line in differences(old.get(key, ABSENT), new.get(key, ABSENT), f"{path}.{key}" if path else str(key))
        ]
    before, after = _by_name(old), _by_name(new)
    if before is not None and after is not None:
        lines = [
            line
            for name in [*before, *(name for name in after if name not in before)]
            for line in differences(before.get(name, ABSENT), after.get(name, ABSENT), f"{path}[{name}]")
        ]
        common = [name for name in before if name in after]
        if common != [name for name in after if name in before]:
            lines.append(f"{path}, order: {', '.join(before)} -> {', '.join(after)}")
        return lines
    return [] if old == new and type(old) is type(new) else [f"{path}: {_show(old)} -> {_show(new)}"]


def _by_name(value: Any) -> dict[str, Any] | None:
    """A list of mappings that each carry their own, different name."""
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
