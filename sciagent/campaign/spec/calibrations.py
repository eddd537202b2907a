"""The calibrations that a spec asks for: one for each rung and property."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sciagent.campaign.file.goals import CalibrateSpec, ObjectiveSpec
from sciagent.campaign.file.rungs import RungSpec
from sciagent.inputs.validation import Faults


class WantedCalibration(NamedTuple):
    """A calibration of one property at one rung."""

    position: int
    """Position of the rung on the ladder."""
    property: str
    stated: CalibrateSpec


def calibrations(
    objectives: Sequence[ObjectiveSpec], ladder: Sequence[RungSpec], terminal: int
) -> tuple[WantedCalibration, ...]:
    """Returns the calibrations, in ladder order. terminal: position of the terminal rung.

    An objective asks for that of the highest rung up to the terminal one that measures it; a rung for those of the
    properties that its gate or an objective names.
    """
    wanted: dict[tuple[int, str], CalibrateSpec] = {}
    for position, rung in enumerate(ladder):
        if rung.calibrate is not None:
            wanted |= {(position, name): rung.calibrate for name in _named(rung, objectives)}
    for objective in objectives:
        if objective.calibrate is not None and (at := _highest(objective.property, ladder[: terminal + 1])) is not None:
            wanted[at, objective.property] = objective.calibrate
    return tuple(WantedCalibration(*place, stated) for place, stated in sorted(wanted.items()))


def check_calibrations(
    objectives: Mapping[int, ObjectiveSpec],
    ladder: Mapping[int, RungSpec],
    terminal: int,
    has_derived: bool,
    faults: Faults,
) -> None:
    """Adds a fault for a calibration without a property, with several levels, stated twice, or beside derived
    properties, whose recorded values are made from values that are not calibrated.

    objectives, ladder: the valid parts, by position in the file. terminal: position of the terminal rung. has_derived:
    whether the campaign has derived properties.
    """
    if has_derived:
        parts = (("objectives", objectives), ("ladder", ladder))
        for place in [(key, i, "calibrate") for key, each in parts for i, part in each.items() if part.calibrate]:
            message = "a campaign with derived properties cannot calibrate yet"
            faults.add(place, message, "leave out calibrate or derived")
        return
    for i, rung in ladder.items():
        if rung.calibrate is not None:
            _check_rung(rung, list(objectives.values()), ("ladder", i, "calibrate"), faults)
    rungs = [rung for i, rung in sorted(ladder.items()) if i <= terminal]
    for i, objective in objectives.items():
        if objective.calibrate is not None:
            _check_objective(objective, rungs, ("objectives", i, "calibrate"), faults)


def _check_rung(
    rung: RungSpec, objectives: Sequence[ObjectiveSpec], place: Sequence[str | int], faults: Faults
) -> None:
    names = _named(rung, objectives)
    if not names:
        message = "no gate of the rung and no objective names a property that it measures"
        faults.add(place, message, "it would have no effect")
    for name in names:
        _check_levels(rung, name, place, faults)


def _check_objective(
    objective: ObjectiveSpec, rungs: Sequence[RungSpec], place: Sequence[str | int], faults: Faults
) -> None:
    """Adds a fault if the rung that measures the objective cannot be calibrated. rungs: up to the terminal one."""
    if (at := _highest(objective.property, rungs)) is None:
        return  # another check reports this
    _check_levels(rungs[at], objective.property, place, faults)
    if rungs[at].calibrate is not None:
        message = f'rung "{rungs[at].rung}", which measures it, states calibrate, too'
        faults.add(place, message, "state it in one place")


def _check_levels(rung: RungSpec, name: str, place: Sequence[str | int], faults: Faults) -> None:
    levels = {measure.level.label for measure in rung.configured.measures if measure.property.name == name}
    if len(levels) > 1:
        listed = ", ".join(sorted(levels))
        faults.add(place, f'rung "{rung.rung}" measures {name} at several levels ({listed}); one fit cannot hold all')


def _named(rung: RungSpec, objectives: Sequence[ObjectiveSpec]) -> list[str]:
    named = {*rung.window_gates(), *(objective.property for objective in objectives)}
    return [name for name in rung.measured() if name in named]


def _highest(name: str, ladder: Sequence[RungSpec]) -> int | None:
    return next((i for i in reversed(range(len(ladder))) if name in ladder[i].measured()), None)
