"""Compares two specs of campaigns key by key, with values in the units that their files state."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Union

from pydantic import Field

from sciagent.domain.display_units import spec_in_chosen_units
from sciagent.domain.objectives import Direction
from sciagent.scheduling.rules import SCHEDULERS
from sciagent.scheduling.rules.rule_and_settings_bases import SchedulerSpec

if TYPE_CHECKING:
    AnyScheduler = SchedulerSpec
else:
    AnyScheduler = Annotated[Union[SCHEDULERS], Field(discriminator="kind")]  # noqa: UP007  a tuple takes no |


_ABSENT = object()  # in place of the value of a missing key
_NAME_KEYS = ("rung", "property")  # keys that name an item of a list
_MAX_VALUE_LENGTH = 120  # characters of a value in a difference


def spec_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Returns the differences of two specs in canonical form, with values in the units that their files state.

    Where the units differ, both values are shown in the unit of the new spec.
    """
    before, after = _in_same_units(old, new)
    return differences(before, after)


def _in_same_units(*specs: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the canonical forms with the keys of the file, and each property in one unit, the last spec's."""
    units = dict[str, str]()
    for spec in specs:
        units.update(stated_units(spec))
    return [_with_keys_of_file(spec_in_chosen_units(spec, units)) for spec in specs]


def _with_keys_of_file(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    ladder = [_calibrated_from(rung) for rung in spec.get("ladder", ())]
    objectives = [_objective_of_file(objective) for objective in spec.get("objectives", ())]
    # the canonical form leaves out this default
    return {"measured": "flag", **spec, "ladder": ladder, "objectives": objectives}


def _objective_of_file(canonical: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns an objective with `window`, `min`, `max`, `maximise` or `minimise` instead of `accept` and `ramp`."""
    rest = {key: value for key, value in canonical.items() if key not in ("direction", "accept", "ramp")}
    direction = canonical["direction"]
    accept = canonical["accept"]
    wish = {direction: canonical["ramp"]} if "ramp" in canonical else {}
    if direction == Direction.WINDOW:
        wish["window"] = accept
    else:
        low, high = accept or (None, None)
        if low is not None:
            wish["min"] = low
        if high is not None:
            wish["max"] = high
    return _calibrated_from({**rest, **wish})


def _calibrated_from(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the part with the key `from` of the file instead of `source` below `calibrate`."""
    if not part.get("calibrate"):
        return part
    calibrate = {}
    for key, value in part["calibrate"].items():
        key_of_file = "from" if key == "source" else key
        calibrate[key_of_file] = value
    return {**part, "calibrate": calibrate}


def stated_units(spec: Mapping[str, Any]) -> dict[str, str]:
    """Returns {property: unit in which it is shown} for the objectives and all properties that are not shown in their
    canonical unit. spec: in canonical form."""
    units = {}
    for objective in spec.get("objectives", ()):
        if "unit" in objective:
            units[objective["property"]] = objective["unit"]
    units.update(spec.get("units", {}))  # the units that the file states win
    return units


class Change(NamedTuple):
    """A value that differs between two specs."""

    path: str
    """The keys down to the value, such as `budget.rungs.dft`."""
    old: str
    """The old value in JSON, shortened if it is long."""
    new: str
    """The new value, likewise."""

    @property
    def line(self) -> str:
        return f"{self.path}: {self.old} -> {self.new}"


def differences(old: Any, new: Any) -> list[str]:
    """Returns one line `path: old -> new` per change. Rungs and objectives are matched by name; a change of their order
    is a line of its own."""
    return [change.line for change in changes(old, new)]


def changes(old: Any, new: Any, path: str = "") -> list[Change]:
    """Returns the values that differ, as `differences` shows them. path: the keys down to `old` and `new`."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return _changes_by_key(old, new, lambda key: f"{path}.{key}" if path else key)
    before = _by_name(old)
    after = _by_name(new)
    if before is None or after is None:
        is_same = old == new and type(old) is type(new)  # in Python, 1 equals True and 1.0
        return [] if is_same else [Change(path, _show(old), _show(new))]
    found = _changes_by_key(before, after, lambda name: f"{path}[{name}]")
    old_order = [name for name in before if name in after]
    new_order = [name for name in after if name in before]
    if old_order != new_order:
        found.append(Change(f"{path}, order", ", ".join(before), ", ".join(after)))
    return found


def _changes_by_key(old: Mapping[str, Any], new: Mapping[str, Any], path_of: Callable[[str], str]) -> list[Change]:
    """Returns the changes between two mappings, key by key. path_of: makes the path of a key."""
    keys = dict.fromkeys([*old, *new])  # each once, in order
    found = list[Change]()
    for key in keys:
        found.extend(changes(old.get(key, _ABSENT), new.get(key, _ABSENT), path_of(key)))
    return found


def _by_name(value: Any) -> Mapping[str, Any] | None:
    """Converts a list of mappings with distinct names to a mapping by name; returns None for anything else."""
    if not isinstance(value, list) or not value:
        return None
    for key in _NAME_KEYS:
        if all(isinstance(item, Mapping) and key in item for item in value):
            named = {str(item[key]): item for item in value}
            return named if len(named) == len(value) else None
    return None


def _show(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE_LENGTH else text[: _MAX_VALUE_LENGTH - 1] + "…"
