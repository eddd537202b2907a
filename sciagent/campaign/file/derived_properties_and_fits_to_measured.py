"""Keys of a campaign file for values that are computed from measured ones: derived properties and calibrations.

A derived property has a name, a unit, and rungs that measure the parts of its formula. A calibration is for one rung
and one property.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple

from pydantic import Field, ValidationError, field_validator, model_validator

from sciagent.campaign.file.objectives_and_budget import CalibrateSpec, ObjectiveSpec, fault_of
from sciagent.campaign.file.rungs import RungSpec
from sciagent.domain import derived_properties
from sciagent.domain.derived_properties import DerivedProperty, Formula, level_of, read_formula, with_names
from sciagent.domain.properties_and_levels import PropertyAtLevel, properties
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.units import in_base_units
from sciagent.errors import UnitError, UsageError, did_you_mean
from sciagent.inputs.yaml_validation import Faults, Part, fault


class DerivedSpec(Part):
    """A property that the campaign computes from others. Objectives use it, and gates of the rung after which it is
    known."""

    property: str = Field(pattern=r"^[a-z][a-z0-9_]{0,63}$", description="Its name, which no other property has.")
    unit: str = Field("1", validate_default=True, max_length=40, description="Its unit, such as eV.")
    formula: str = Field(
        description="Names of properties of this campaign, each from the highest rung that measures it, or as "
        "rung.property; numbers, with a unit where they have one, as in 4.44 eV; + - * / and parentheses."
    )

    @field_validator("unit")
    @classmethod
    def _is_a_unit(cls, value: str) -> str:
        try:
            in_base_units(value)
        except UnitError as error:
            raise fault_of(error) from None
        return value

    @field_validator("formula")
    @classmethod
    def _can_be_read(cls, value: str) -> str:
        try:
            read_formula(value)
        except UsageError as error:
            raise fault_of(error) from None
        return value

    @model_validator(mode="after")
    def _is_new(self) -> DerivedSpec:
        try:
            derived_properties.register(self.property, self.unit)
        except UsageError as error:
            raise fault(str(error)) from None
        return self


def register_all(items: Any) -> None:
    """Registers the derived properties of a file before its objectives and gates are read. items: as in the file."""
    if not isinstance(items, list | tuple):
        return
    for item in items:
        if isinstance(item, DerivedSpec):
            continue  # registered when it was made
        with suppress(ValidationError):  # pydantic reports the fault when it reads the field `derived`
            DerivedSpec.model_validate(item)  # registers the property


def resolved(stated: DerivedSpec, ladder: Sequence[RungSpec], formulas: Mapping[str, str]) -> DerivedProperty:
    """Returns the derived property with the rungs of its parts.

    ladder: the rungs up to the terminal one. formulas: formulas of the derived properties that stand above it in the
    file, by name; they replace these names. Raises UsageError for a name that no rung measures, and for a unit that
    does not fit the formula.
    """

    def with_formula(name: str) -> str:
        return f"({formulas[name]})" if name in formulas else name

    formula = read_formula(with_names(stated.formula, with_formula))
    parts = {name: _place(name, ladder) for name in formula.parts}
    levels = [_measure(ladder[position], measured).level for position, measured in parts.values()]
    prop = properties()[stated.property]
    units = {name: properties()[measured].unit for name, (_, measured) in parts.items()}
    _check_unit(formula, units, stated)
    computations = {rung.rung: rung.configured.computation for rung in ladder}
    named_parts = {name: [ladder[position].rung, measured] for name, (position, measured) in parts.items()}
    entry = {"property": prop.name, "unit": prop.unit, "formula": formula.text, "parts": named_parts}
    return DerivedProperty(
        prop, formula, parts, level_of(levels), derived_properties.settings_hash(entry, computations)
    )


def with_derived(stated: Sequence[DerivedSpec], ladder: Sequence[RungSpec], terminal: str) -> tuple[RungSpec, ...]:
    """Returns the ladder, each rung with the derived properties that are known after it. Raises UsageError."""
    labels = [rung.rung for rung in ladder]
    last = labels.index(terminal)  # position of the terminal rung
    formulas: dict[str, str] = {}
    known: list[DerivedProperty] = []
    for spec in stated:
        prop = resolved(spec, ladder[: last + 1], formulas)
        known.append(prop)
        formulas[spec.property] = prop.formula.text
    completed = []
    for position, rung in enumerate(ladder):
        known_after = tuple(prop for prop in known if prop.last == position)
        completed.append(rung.with_derived_properties(known_after))
    return tuple(completed)


def canonical(prop: DerivedProperty, ladder: Sequence[RungSpec]) -> Mapping[str, Any]:
    """Returns the derived property as JSON; `after` is the label of the rung after which it is known."""
    return {
        "property": prop.definition.name,
        "unit": prop.definition.unit,
        "formula": prop.formula.text,
        "parts": {name: [ladder[position].rung, measured] for name, (position, measured) in prop.parts.items()},
        "after": ladder[prop.last].rung,
    }


def _place(name: str, ladder: Sequence[RungSpec]) -> tuple[Position, str]:
    """Returns the position of the highest rung that measures a part of a formula, and the property.

    name: the part as the formula writes it, `property` or `rung.property`.
    """
    label, _, prop = name.rpartition(".")
    labels = [rung.rung for rung in ladder]
    if label and label not in labels:
        raise UsageError(f'no rung up to the terminal one is labelled "{label}"{did_you_mean(label, labels)}')
    rungs = [(Position(i), rung) for i, rung in enumerate(ladder) if label in ("", rung.rung)]
    measuring = []  # positions of rungs that measure the property, the highest last
    for position, rung in rungs:
        if any(measure.property.name == prop for measure in rung.configured.measures):
            measuring.append(position)
    if not measuring:
        measures = chain.from_iterable(rung.configured.measures for _, rung in rungs)
        known = sorted({measure.property.name for measure in measures})
        where = f'rung "{label}" does not measure' if label else "no rung up to the terminal one measures"
        raise UsageError(f'{where} "{prop}"{did_you_mean(prop, known)}; known: {", ".join(known) or "nothing"}')
    return measuring[-1], prop


def _measure(rung: RungSpec, name: str) -> PropertyAtLevel:
    """Returns the property of this name with the level at which the rung measures it."""
    return next(measure for measure in rung.configured.measures if measure.property.name == name)


def _check_unit(formula: Formula, units: Mapping[str, str], stated: DerivedSpec) -> None:
    """Raises UsageError if the stated unit does not fit the formula. units: unit of each part, by its name."""
    dimension = formula.dimension(units)
    wanted = in_base_units(stated.unit).dimension
    if dimension != wanted:
        raise UsageError(f'"{stated.formula}" gives {dimension or "a number"}, and {stated.unit} is {wanted or "one"}')


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

    An objective asks for the calibration of the highest rung up to the terminal one that measures it. A rung asks for
    calibrations of the properties that its gate or an objective names.
    """
    wanted: dict[tuple[int, str], CalibrateSpec] = {}
    for position, rung in enumerate(ladder):
        if rung.calibrate is not None:
            for name in _properties_to_calibrate(rung, objectives):
                wanted[position, name] = rung.calibrate
    for objective in objectives:
        if objective.calibrate is None:
            continue
        position_of_highest = _highest_rung_measuring(objective.property, ladder[: terminal + 1])
        if position_of_highest is not None:
            wanted[position_of_highest, objective.property] = objective.calibrate
    return tuple(WantedCalibration(position, name, stated) for (position, name), stated in sorted(wanted.items()))


def check_calibrations(
    objectives: Mapping[int, ObjectiveSpec],
    ladder: Mapping[int, RungSpec],
    terminal: int,
    derived: Sequence[DerivedProperty],
    faults: Faults,
) -> None:
    """Adds a fault for a calibration that has no property or several levels, that is stated twice, or that is of a part
    of a derived property.

    objectives, ladder: the valid parts, by position in the file. terminal: position of the terminal rung. derived: the
    derived properties of the campaign.
    """
    for i, rung in ladder.items():
        if rung.calibrate is not None:
            _check_rung(i, rung, list(objectives.values()), derived, faults)
    rungs = [rung for i, rung in sorted(ladder.items()) if i <= terminal]
    for i, objective in objectives.items():
        if objective.calibrate is not None:
            place = ("objectives", i, "calibrate")
            _check_objective(objective, rungs, place, faults)
            position = _highest_rung_measuring(objective.property, rungs)
            if position is not None:
                _check_part(position, objective.property, derived, place, faults)


def _check_part(
    position: int, name: str, derived: Sequence[DerivedProperty], place: Sequence[str | int], faults: Faults
) -> None:
    """Adds a fault if a calibrated value is a part of a derived property.

    A derived property is recorded from the values that the rungs gave. If its part were corrected, it would not fit to
    the part any more; and a correction of its own, which contains that of the part, would correct the part twice.
    """
    for prop in derived:
        if (position, name) in prop.parts.values():
            of_derived = prop.definition.name
            message = (
                f"{name} is a part of the derived property {of_derived}, which is recorded from values as the rung "
                f"gives them: the two would not fit together, and a calibration of both would correct {name} twice"
            )
            faults.add(place, message, f"calibrate {of_derived} instead")


def _check_rung(
    number: int, rung: RungSpec, objectives: Sequence[ObjectiveSpec], derived: Sequence[DerivedProperty], faults: Faults
) -> None:
    """Adds the faults of a rung's calibration. number: position of the rung in the file."""
    place = ("ladder", number, "calibrate")
    known_after = [prop.definition.name for prop in derived if prop.last == number]
    named = {*rung.window_gates(), *(objective.property for objective in objectives)}
    names = _properties_to_calibrate(rung, objectives)
    if not names and not named & set(known_after):
        message = "no gate of the rung and no objective names a property that it measures"
        faults.add(place, message, "it would have no effect")
    for name in names:
        _check_levels(rung, name, place, faults)
        _check_part(number, name, derived, place, faults)


def _check_objective(
    objective: ObjectiveSpec, rungs: Sequence[RungSpec], place: Sequence[str | int], faults: Faults
) -> None:
    """Adds a fault if the rung that measures the objective cannot be calibrated. rungs: up to the terminal one."""
    position = _highest_rung_measuring(objective.property, rungs)
    if position is None:
        return  # another check reports this
    rung = rungs[position]
    _check_levels(rung, objective.property, place, faults)
    if rung.calibrate is not None:
        message = f'rung "{rung.rung}", which measures it, states calibrate, too'
        faults.add(place, message, "state it in one place")


def _check_levels(rung: RungSpec, name: str, place: Sequence[str | int], faults: Faults) -> None:
    """Adds a fault if the rung measures the property at several levels."""
    levels = {measure.level.label for measure in rung.configured.measures if measure.property.name == name}
    if len(levels) > 1:
        listed = ", ".join(sorted(levels))
        faults.add(place, f'rung "{rung.rung}" measures {name} at several levels ({listed}); one fit cannot hold all')


def _properties_to_calibrate(rung: RungSpec, objectives: Sequence[ObjectiveSpec]) -> list[str]:
    """Returns the properties that the rung measures and that its gate or an objective names."""
    named = {*rung.window_gates(), *(objective.property for objective in objectives)}
    return [name for name in rung.measured() if name in named]


def _highest_rung_measuring(name: str, ladder: Sequence[RungSpec]) -> int | None:
    """Returns the position of the highest rung that measures the property; None if no rung does."""
    for position in reversed(range(len(ladder))):
        if name in ladder[position].measured():
            return position
    return None
